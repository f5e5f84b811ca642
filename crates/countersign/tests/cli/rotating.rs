//! Replacing the log's key, on a folder and through a server, and verifying from outside with old and new keys.

use crate::cli::sandbox::Sandbox;
use std::os::unix::fs::PermissionsExt as _;

fn vkey(sandbox: &Sandbox) -> String {
    std::fs::read_to_string(sandbox.path().join("data/log.vkey")).unwrap()
}

fn receipt(sandbox: &Sandbox, index: u64, file: &str) {
    let receipt = sandbox.run(&format!("ledger show {index} --receipt --data data")).must(0).stdout;
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
        let line = format!("verify --data data --log-key {key} --against {held} --json");
        let json = sandbox.run(&line).must(0).json();
        assert_eq!((&json["rotations"], json["log_key"].as_str()), (&2.into(), Some(vkey(&sandbox).trim())), "{key}");
        assert_eq!((&json["size"], &json["evidence"]), (&8.into(), &4.into()), "{key}");
        sandbox.run(&format!("audit --data data --key {key}")).must(0);
    }
    let shown = [
        sandbox.run("verify --data data --log-key first.vkey").must(0).shown(),
        sandbox.run("verify --data data --log-key other.vkey").must(1).shown(),
        sandbox.run("ledger show 4 --data data").must(0).shown(),
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

#[test]
fn tokens_outlive_the_key_that_sealed_them_but_not_for_ever() {
    let sandbox = Sandbox::with_gate();
    let observe = "observe --agent refund-1 Account::42 --token --data data";
    let before = sandbox.run(observe).must(0).stdout.trim().to_owned();
    let act = |token: &str| {
        sandbox.run(&format!(
            "act --agent refund-1 --pact billing --action refund account=42 amount=10 currency=USD \
             destination=acct_treasury_1 --observation {token} --data data"
        ))
    };
    // A gate that runs has read its keys already.
    let server = sandbox.serve();
    let refused = sandbox.run("key rotate-token --data data").must(3);
    assert!(
        refused.stderr.contains("is in use") && refused.stderr.contains("end the gate first"),
        "{}",
        refused.shown()
    );
    assert_eq!(server.end().0, 0);
    let rotated = sandbox.run("key rotate-token --data data --json").must(0).json();
    let old = sandbox.path().join(format!("data/keys/token.old-{}", rotated["old_key"].as_str().unwrap()));
    for file in [&old, &sandbox.path().join("data/keys/token")] {
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
    // Each run opens the folder anew: both keys are read again, and only the new one seals.
    let after = sandbox.run(observe).must(0).stdout.trim().to_owned();
    assert_ne!(before[..10], after[..10], "the key's name is in front");
    act(&before).must(0);
    act(&after).must(0);
    // A second rotation keeps both; past its time a key opens nothing, and the next rotation removes it.
    sandbox.run("key rotate-token --data data").must(0);
    act(&before).must(0);
    let mut bytes = std::fs::read(&old).unwrap();
    bytes[32..].copy_from_slice(&1_u64.to_be_bytes());
    std::fs::write(&old, bytes).unwrap();
    let late = act(&before).must(1);
    assert!(late.stderr.contains("observation_refused") && late.stderr.contains("observe again"), "{}", late.shown());
    act(&after).must(0);
    sandbox.run("key rotate-token --data data").must(0);
    assert!(!old.exists());
    // Files that others can read, and files that are no keys, are refused.
    let newest = |name: &str| sandbox.path().join("data/keys").join(name);
    std::fs::write(newest("token.old-00000000"), "short").unwrap();
    std::fs::set_permissions(newest("token.old-00000000"), std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(sandbox.run(observe).must(3).stderr.contains("is no key that was replaced"));
    std::fs::set_permissions(newest("token.old-00000000"), std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(sandbox.run(observe).must(3).stderr.contains("can be read by others"));
    std::fs::remove_file(newest("token.old-00000000")).unwrap();
    act(&after).must(0);
    sandbox.run("audit --data data").must(0);
}

#[test]
fn a_key_that_is_missing_is_made_or_asked_for() {
    let sandbox = Sandbox::with_gate();
    let key = |name: &str| sandbox.path().join("data/keys").join(name);
    std::fs::remove_file(key("token")).unwrap();
    let refused = sandbox.run("serve --data data --listen 127.0.0.1:0").must(3).stderr;
    assert!(refused.contains("make a new one with `countersign key rotate-token --data data`"), "{refused}");
    let made = sandbox.run("key rotate-token --data data").must(0);
    assert!(made.stderr.contains("There was no key before it"), "{}", made.shown());
    assert_eq!(std::fs::metadata(key("token")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(sandbox.serve().end().0, 0);
    std::fs::remove_file(key("log")).unwrap();
    let refused = sandbox.run("serve --data data --listen 127.0.0.1:0").must(3).stderr;
    assert!(refused.contains("keys/log is missing") && refused.contains("restore it from your store"), "{refused}");
}
