//! The examples that ship with the project load, without even a warning.

use countersign_core::pact::catalogue::Catalogue;
use countersign_core::pact::load::load;
use std::fs;
use std::path::Path;

#[test]
fn every_example_loads_without_warnings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        let loaded = load(&source).unwrap_or_else(|problems| {
            let shown: Vec<_> = problems.iter().map(|p| (source.get(p.span.clone()), p)).collect();
            panic!("{}: {shown:#?}", path.display())
        });
        assert_eq!(loaded.warnings, [], "{}", path.display());
        assert_eq!(path.file_stem().unwrap().to_str().unwrap(), loaded.pact.name.as_str());
        Catalogue::new().admit(&loaded.pact).unwrap();
        names.push(loaded.pact.name.to_string());
    }
    names.sort();
    assert_eq!(names, ["access", "billing", "hr", "oncall", "payouts", "trading", "transfer", "treatment"]);
}
