//! Observing and acting, on a data folder and through a server alike.

use crate::cli::sandbox::Sandbox;

const REFUND: &str = "act --agent refund-1 --pact billing --action refund account=42 amount=480000 currency=USD \
    destination=acct_treasury_1";
const FREEZE: &str = r#"fact put Account 42 {"status":"frozen","balance":900000,"owner":"ada"} --as fraud-desk"#;

#[test]
fn a_refund_on_a_frozen_account_is_rejected_and_says_why() {
    let sandbox = Sandbox::with_gate();
    let token = sandbox.run("observe --agent refund-1 Account::42 --token --data data").must(0).stdout;
    sandbox.run(&format!("{FREEZE} --data data")).must(0);
    let act = format!("{REFUND} --observation {} --data data", token.trim());
    insta::assert_snapshot!(sandbox.run(&act).must(1).shown());

    let verdict = sandbox.run(&format!("{act} --json")).must(1).json();
    assert_eq!(verdict["verdict"], "rejected");
    assert_eq!(verdict["failed"][0]["precondition"], "account-is-active");
    assert_eq!(verdict["failed"][0]["reads"][0]["expected"], "active");
    assert_eq!(verdict["failed"][0]["reads"][0]["actual"], "frozen");
    assert_eq!(verdict["failed"][0]["reads"][0]["changed_by"], "fraud-desk");
}

#[test]
fn the_same_commands_mean_the_same_through_a_server() {
    let sandbox = Sandbox::with_gate();
    let server = sandbox.serve();
    let gate = format!("--server {}", server.url);
    let observed = sandbox.run(&format!("observe --agent refund-1 Account::\"42\" {gate}")).must(0);
    let token = observed.stdout.trim().to_owned();
    let key = "--idempotency-key 0123456789abcdefghijklmn";
    let shown = [
        observed.shown(),
        sandbox.run(&format!("{REFUND} --observation {token} --check {gate}")).must(0).shown(),
        sandbox.run(&format!("{REFUND} --observation {token} {key} {gate}")).must(0).shown(),
        sandbox.run(&format!("{REFUND} --observation {token} {key} {gate}")).must(0).shown(),
        sandbox.run(&format!("{REFUND} {key} {gate}")).must(1).shown(),
        sandbox.run(&format!("fact get Account 42 {gate}")).must(0).shown(),
        sandbox.run(&format!("{FREEZE} --if-match 1 {gate}")).must(1).shown(),
        sandbox.run(&format!("{FREEZE} --if-match 2 {gate}")).must(0).shown(),
        sandbox.run(&format!("fact get Account::\"42\" --history {gate}")).must(0).shown(),
        sandbox.run(&format!("ledger list {gate}")).must(0).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
    assert_eq!(server.end().0, 0);
}

#[test]
fn what_is_not_there_and_what_does_not_fit_is_said() {
    let sandbox = Sandbox::with_gate();
    let shown = [
        sandbox.run("fact get Account 43 --data data").must(1).shown(),
        sandbox.run("ledger show 99 --data data").must(1).shown(),
        sandbox.run(r#"fact put Account 42 {"status":1} --data data"#).must(1).shown(),
        sandbox.run("fact put Account 42 {status} --data data").must(2).shown(),
        sandbox.run("act --agent a --pact billing --action refund amount=x --data data").must(2).shown(),
        sandbox.run("act --pact billing --action refund --data data").must(2).shown(),
        sandbox.run("act --agent refund-1 --pact biling --action refund account=1 --data data").must(1).shown(),
        sandbox.run("clock confirm --data data").must(1).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn an_entry_is_shown_and_its_receipt_kept() {
    let sandbox = Sandbox::with_gate();
    insta::assert_snapshot!(sandbox.run("ledger show 3 --data data").must(0).shown());
    let receipt = sandbox.run("ledger show 3 --receipt --data data").must(0).stdout;
    assert!(receipt.starts_with("rct1."), "{receipt}");
    assert_eq!(sandbox.run("ledger list --json --data data").must(0).stdout.lines().count(), 4);
}
