//! Verifying, auditing and replaying a log, whole and tampered with.

use crate::cli::sandbox::{BILLING, Sandbox};

#[test]
fn a_log_holds_and_agrees_with_what_others_hold() {
    let sandbox = Sandbox::with_gate();
    let receipt = sandbox.run("ledger show 2 --receipt --data data").must(0).stdout;
    sandbox.write("entry-2.receipt", &receipt);
    let shown = [
        sandbox.run("verify --data data --log-key data/log.vkey").must(0).shown(),
        sandbox.run("verify --data data --log-key data/log.vkey --against entry-2.receipt").must(0).shown(),
        sandbox.run("audit --data data").must(0).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
    let json = sandbox.run("verify --data data --log-key data/log.vkey --json").must(0).json();
    assert_eq!((&json["ok"], &json["size"]), (&true.into(), &4.into()));
}

#[test]
fn one_flipped_byte_is_found_and_located() {
    let sandbox = Sandbox::with_gate();
    let mut bytes = std::fs::read(sandbox.segment()).unwrap();
    let fact = br#"{"balance":900000"#;
    let at = bytes.windows(fact.len()).position(|window| window == fact).expect("the fact is in a payload");
    bytes[at + fact.len() - 1] = b'1';
    std::fs::write(sandbox.segment(), bytes).unwrap();
    let shown = [
        sandbox.run("verify --data data --log-key data/log.vkey").must(1).shown(),
        sandbox.run("verify --data data --log-key data/log.vkey --json").must(1).shown(),
        sandbox.run("audit --data data").must(1).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn another_log_in_its_place_is_found() {
    let (sandbox, other) = (Sandbox::with_gate(), Sandbox::with_gate());
    let receipt = other.run("ledger show 2 --receipt --data data").must(0).stdout;
    sandbox.write("other.receipt", &receipt);
    let key = std::fs::read_to_string(other.path().join("data/log.vkey")).unwrap();
    sandbox.write("other.vkey", &key);
    let shown = [
        sandbox.run("verify --data data --log-key data/log.vkey --against other.receipt").must(1).shown(),
        sandbox.run("verify --data data --log-key other.vkey").must(1).shown(),
        sandbox.run("verify --data data --log-key nowhere.vkey").must(3).shown(),
        sandbox.run("verify --data data --log-key not+a+key").must(2).shown(),
        sandbox.run("verify --data nowhere --log-key data/log.vkey").must(3).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn a_log_that_was_put_back_is_found_by_a_receipt() {
    let sandbox = Sandbox::with_gate();
    let copy = Sandbox::new();
    let log = |sandbox: &Sandbox, name: &str| sandbox.path().join("data/log").join(name);
    let names = ["00000000000000000000.seg", "anchor"];
    let before: Vec<_> = names.iter().map(|name| std::fs::read(log(&sandbox, name)).unwrap()).collect();
    sandbox.run(r#"fact put Account 42 {"status":"frozen","balance":1,"owner":"ada"} --data data"#).must(0);
    let receipt = sandbox.run("ledger show 4 --receipt --data data").must(0).stdout;
    copy.write("entry-4.receipt", &receipt);
    copy.write("log.vkey", &std::fs::read_to_string(sandbox.path().join("data/log.vkey")).unwrap());
    std::fs::create_dir_all(copy.path().join("data/log")).unwrap();
    for (name, bytes) in names.iter().zip(before) {
        std::fs::write(log(&copy, name), bytes).unwrap();
    }
    copy.run("verify --data data --log-key log.vkey").must(0);
    insta::assert_snapshot!(
        copy.run("verify --data data --log-key log.vkey --against entry-4.receipt").must(1).shown()
    );
}

#[test]
fn what_an_agent_was_shown_is_proved_to_others_and_nothing_else_is() {
    let (sandbox, third) = (Sandbox::with_gate(), Sandbox::new());
    sandbox.run("observe --agent refund-1 Account::42 --attest --proof shown.json --data data").must(0);
    let proof = std::fs::read_to_string(sandbox.path().join("shown.json")).unwrap();
    third.write("shown.json", &proof);
    third.write("log.vkey", &std::fs::read_to_string(sandbox.path().join("data/log.vkey")).unwrap());
    // The third party has no log.
    let told = third.run("verify --log-key log.vkey --attested shown.json").must(0).stdout;
    assert!(told.contains("refund-1 was shown") && told.contains(r#"Account::"42" version 1"#), "{told}");
    let json = third.run("verify --log-key log.vkey --attested shown.json --json").must(0).json();
    assert_eq!((&json["agent"], &json["auth"]), (&"refund-1".into(), &"none".into()));
    assert_eq!(json["facts"][0]["value"]["balance"], 900_000);
    for (real, forged) in
        [("900000", "900001"), ("refund-1", "refund-2"), ("\"salt\": \"", "\"salt\": \"0"), ("rct1.", "rct1.A")]
    {
        third.write("forged.json", &proof.replacen(real, forged, 1));
        let told = third.run("verify --log-key log.vkey --attested forged.json");
        // The agent's name stands in the leaf alone.
        if proof.contains(real) {
            assert!(told.must(1).stdout.is_empty());
        }
    }
    let other = Sandbox::with_gate();
    other.write("shown.json", &proof);
    other.run("verify --log-key data/log.vkey --attested shown.json").must(1);
    // A receipt of something else is no proof of an observation.
    sandbox.run("audit --data data").must(0);
}

#[test]
fn other_pacts_would_have_said_otherwise() {
    let sandbox = Sandbox::with_gate();
    let act = "act --agent refund-1 --pact billing --action refund account=42 amount=400 currency=USD \
               destination=acct_treasury_1 --observe Account::42 --data data";
    sandbox.run(act).must(0);
    sandbox.write("next/billing.toml", &BILLING.replace("resource.balance >= context.amount", "context.amount < 100"));
    let shown = [
        sandbox.run("replay --pacts next --data data").must(0).shown(),
        sandbox.run("replay --pacts billing.toml --data data").must(0).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
    let json = sandbox.run("replay --pacts next --data data --json").must(0).json();
    assert_eq!(json["differing"][0]["replayed"]["failed"][0], "balance-covers-amount");
}
