//! The example pacts of the project, for what plays and sweeps them.

/// A pact that ships with the project.
#[derive(Debug, Clone, Copy)]
pub struct PactFile {
    pub name: &'static str,
    /// Its text.
    pub source: &'static str,
}

macro_rules! examples {
    ($($constant:ident = $name:literal,)*) => {
        $(pub const $constant: PactFile =
            PactFile { name: $name, source: include_str!(concat!("../../../examples/", $name, ".toml")) };)*

        /// All of them, by name.
        pub const ALL: &[PactFile] = &[$($constant),*];
    };
}

examples! {
    ACCESS = "access",
    BILLING = "billing",
    HR = "hr",
    ONCALL = "oncall",
    PAYOUTS = "payouts",
    TRADING = "trading",
    TRANSFER = "transfer",
    TREATMENT = "treatment",
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_file_in_the_folder_is_here() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let pacts = paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
        let mut names: Vec<_> = pacts.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        names.sort();
        assert_eq!(names, ALL.iter().map(|pact| pact.name).collect::<Vec<_>>());
    }
}
