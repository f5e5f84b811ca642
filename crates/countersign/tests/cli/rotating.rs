//! Replacing the log's key, on a folder and through a server, and verifying from outside with old and new keys.

use crate::sandbox::Sandbox;
use std::os::unix::fs::PermissionsExt as _;

fn vkey(sandbox: &Sandbox) -> String {
    std::fs::read_to_string(sandbox.path().join("data/log.vkey")).unwrap()
}

fn receipt(sandbox: &Sandbox, index: u64, file: &str) {
    let receipt = sandbox.run(&format!("entry show {index} --receipt --data data")).must(0).stdout;
    sandbox.write(file, &receipt);
}

#[test]
fn a_log_goes_on_with_another_key_and_is_verified_with_any_of_its_own() {
    let (sandbox, other) = (Sandbox::with_gate(), Sandbox::with_gate());
    sandbox.write("first.vkey", &vkey(&sandbox));
    sandbox.write("other.vkey", &vkey(&other));
    receipt(&sandbox, 2, "before.receipt");
    let rotated = sandbox.run("key rotate-log --reason yearly --data data").must(0);
    assert_eq!(rotated.stdout, vkey(&sandbox), "it prints the key that the folder now says");
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!("rotate_log", rotated.shown()) });
    sandbox.write("second.vkey", &rotated.stdout);
    receipt(&sandbox, 4, "at.receipt");
    sandbox.run(r#"fact put Account 42 {"status":"frozen","balance":1,"owner":"ada"} --data data"#).must(0);
    receipt(&sandbox, 5, "after.receipt");

    // The same through a server, which goes on with the new key at once.
    let server = sandbox.serve();
    let json = sandbox.run(&format!("key rotate-log --reason again --server {} --json", server.url)).must(0).json();
    assert_eq!((&json["entry"], json["log_key"].as_str()), (&6.into(), Some(vkey(&sandbox).trim())));
    sandbox.write("at.second.receipt", json["receipt"].as_str().unwrap());
    sandbox.run(&format!(r#"fact delete Account 42 --server {}"#, server.url)).must(0);
    assert_eq!(server.end().0, 0);

    for key in ["first.vkey", "second.vkey", "data/log.vkey"] {
        let held = "before.receipt at.receipt after.receipt at.second.receipt";
        let line = format!("verify --data data --key {key} --against {held} --json");
        let json = sandbox.run(&line).must(0).json();
        assert_eq!((&json["rotations"], json["log_key"].as_str()), (&2.into(), Some(vkey(&sandbox).trim())), "{key}");
        assert_eq!((&json["size"], &json["evidence"]), (&8.into(), &4.into()), "{key}");
        sandbox.run(&format!("audit --data data --key {key}")).must(0);
    }
    let shown = [
        sandbox.run("verify --data data --key first.vkey").must(0).shown(),
        sandbox.run("verify --data data --key other.vkey").must(1).shown(),
        sandbox.run("entry show 4 --data data").must(0).shown(),
    ];
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!("rotated", shown.join("\n")) });

    let mut names: Vec<_> = std::fs::read_dir(sandbox.path().join("data/keys")).unwrap().map(Result::unwrap).collect();
    names.retain(|entry| entry.file_name().to_str().unwrap().starts_with("log"));
    assert_eq!(names.len(), 3, "the current key and the two before it");
    for entry in names {
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.file_name());
    }
}

#[test]
fn a_key_from_before_a_rotation_opens_the_folder_no_more() {
    let sandbox = Sandbox::with_gate();
    let file = sandbox.path().join("data/keys/log");
    let before = std::fs::read(&file).unwrap();
    sandbox.run("key rotate-log --reason lost --data data").must(0);
    std::fs::write(&file, before).unwrap();
    let refused = sandbox.run("fact get Account 42 --data data").must(3);
    assert!(refused.stderr.contains("the key was rotated; put back the newest `keys/log`"), "{}", refused.shown());
}
