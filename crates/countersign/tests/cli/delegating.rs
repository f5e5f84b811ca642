//! Handing on a right and using it, from the command line.

use crate::cli::sandbox::Sandbox;
use countersign_core::identity::KeyName;
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::EncodePrivateKey as _;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use std::os::unix::fs::PermissionsExt as _;

fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

fn name(seed: u8) -> String {
    KeyName::of(key(seed).verifying_key().to_bytes()).to_string()
}

const ACT: &str = "act --agent helper --pact billing --action refund account=42 currency=USD \
    destination=acct_treasury_1 --observe Account::42 --delegation @helper.dlg --data data";

/// A gate, and keys of `refund-1`, which may refund, and of two that may not.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_gate();
    for (agent, seed, role) in [("refund-1", 1, "refunder"), ("desk", 2, "clerk"), ("helper", 3, "fraud")] {
        let path = sandbox.write(&format!("{agent}.pem"), &key(seed).to_pkcs8_pem(LineEnding::LF).unwrap());
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let value =
            format!(r#"{{"roles":["{role}"],"standing":"active","org":"acme","trust":700,"key":"{}"}}"#, name(seed));
        sandbox.run(&format!("fact put Agent {agent} {value} --data data")).must(0);
    }
    sandbox
}

#[test]
fn a_right_is_handed_on_twice_offline_and_used() {
    let sandbox = sandbox();
    let first = sandbox.run(&format!(
        "delegation new --key refund-1.pem --as refund-1 --gate countersign.local/log --to desk --to-key {} --action \
         billing.refund --max amount=1000 --only currency=USD --fact Account::42 --expires 1h --depth 1",
        name(2)
    ));
    let first = first.must(0);
    sandbox.write("desk.dlg", &first.stdout);
    let hand_on = format!("delegation new --key desk.pem --as desk --to helper --to-key {} --from @desk.dlg", name(3));
    let second = sandbox.run(&format!("{hand_on} --max amount=100")).must(0);
    sandbox.write("helper.dlg", &second.stdout);
    // What would claim more than was given is not even made.
    let refused = [
        sandbox.run(&format!("{hand_on} --max amount=1001")).must(1),
        sandbox.run(&format!("{hand_on} --depth 1")).must(1),
        sandbox.run(&hand_on.replace("desk.pem", "helper.pem")).must(1),
        sandbox.run(&hand_on.replace("--as desk", "--as helper")).must(1),
        sandbox.run(&hand_on.replace("--from @desk.dlg", "--from @helper.dlg")).must(1),
        sandbox.run("delegation show dlg1.AAAA").must(1),
    ];
    let says =
        ["claim up to 1001", "at most 0 times", "only that key", "made to desk", "made to helper", "not a delegation"];
    for (run, says) in refused.iter().zip(says) {
        assert!(run.stderr.contains(says), "{}", run.stderr);
    }
    let shown = sandbox.run("delegation show @helper.dlg").must(0).stdout;
    assert!(
        shown.starts_with(&format!(
            "at the gate countersign.local/log and no other\nhop 1: refund-1 ({}) to desk ({})",
            name(1),
            name(2)
        )),
        "{shown}"
    );
    assert!(shown.contains("amount: at most 100\n"), "{shown}");
    assert!(shown.ends_with("may not be passed on\n"), "{shown}");

    let verdict = sandbox.run(&format!("{ACT} amount=100 --json")).must(0).json();
    assert_eq!(verdict["verdict"], "committed");
    let entry = sandbox.run(&format!("ledger show {} --data data", verdict["entry"])).must(0);
    assert!(
        entry.stderr.contains("Under this delegation\nat the gate countersign.local/log and no other\nhop 1: refund-1"),
        "{}",
        entry.stderr
    );
    assert!(entry.stderr.contains("hop 2: desk"), "{}", entry.stderr);
    assert!(entry.stdout.contains(r#""by": "helper""#), "{}", entry.stdout);
    assert!(sandbox.run(&format!("{ACT} amount=101")).must(1).stdout.contains("delegation_out_of_scope"));
    let broken = ACT.replace("@helper.dlg", "dlg1.AAAA");
    assert!(sandbox.run(&format!("{broken} amount=1")).must(1).stderr.contains("delegation_refused"));
    sandbox.run("audit --data data").must(0);
}
