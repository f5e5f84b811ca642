//! Erasing payloads: the plan, the erasure, and what is left.

use crate::cli::sandbox::Sandbox;

#[test]
fn every_copy_but_the_current_value_is_erased_and_the_log_still_holds() {
    let sandbox = Sandbox::with_gate();
    sandbox.run(r#"fact put Account 42 {"status":"active","balance":1,"owner":"nobody"} --data data"#).must(0);
    let erase = "ledger erase --fact Account::42 --reason request-7 --data data";
    let shown = [
        sandbox.run(&format!("{erase} --dry-run")).must(0).shown(),
        sandbox.run(erase).must(2).shown(),
        sandbox.run(&format!("{erase} --yes")).must(0).shown(),
        sandbox.run(&format!("{erase} --yes")).must(0).shown(),
        sandbox.run("ledger erase --entry 4 --reason x --dry-run --data data").must(1).shown(),
        sandbox.run("ledger erase --entry 4 --reason x --yes --data data").must(1).shown(),
        sandbox.run("ledger show 3 --data data").must(0).shown(),
        sandbox.run("fact get Account 42 --history --data data").must(0).shown(),
        sandbox.run("verify --data data --log-key data/log.vkey").must(0).shown(),
        sandbox.run("audit --data data").must(0).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
    let segment = std::fs::read(sandbox.segment()).unwrap();
    let gone = br#""owner":"ada""#;
    assert!(!segment.windows(gone.len()).any(|window| window == gone), "the erased value is still on the disk");
}
