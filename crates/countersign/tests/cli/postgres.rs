//! `countersign postgres init` as far as it goes without a server: the SQL that an owner can read and run, and what is refused.
//! What it does to a real one is tested with the adapter.

use crate::cli::sandbox::Sandbox;

const SETTINGS: &str = r#"
[adapters.bank]
kind = "postgres"
url = { env = "BANK_URL" }

[adapters.mailer]
kind = "command"
program = "/bin/echo"
"#;

fn sandbox(url: &str) -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.write("countersign.toml", SETTINGS);
    sandbox.env("BANK_URL", url);
    sandbox
}

#[test]
fn the_sql_that_prepares_a_database() {
    let sandbox = sandbox("postgres://gate@127.0.0.1/bank");
    let init = "postgres init --adapter bank --print";
    let shown = [
        sandbox.run(init).must(0).shown(),
        sandbox.run(&format!("{init} --agents agents --guard accounts --guard bank.payouts")).must(0).shown(),
    ];
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn what_cannot_be_prepared_is_said() {
    // Nobody listens there.
    let mut sandbox = sandbox("postgres://gate:s3cret-word@127.0.0.1:9/bank?sslmode=disable");
    sandbox.env("NO_URL", "s3cret-word");
    let shown = [
        sandbox.run("postgres init --adapter bnk --print").must(2).shown(),
        sandbox.run("postgres init --adapter mailer --print").must(2).shown(),
        sandbox.run("postgres init --adapter bank --guard ac;counts --print").must(2).shown(),
        sandbox.run("postgres init --adapter bank --as-env OWNER_URL").must(2).shown(),
        sandbox.run("postgres init --adapter bank --as-env NO_URL").must(2).shown(),
        sandbox.run("postgres init --adapter bank").must(3).shown(),
    ];
    let shown = shown.join("\n");
    assert!(!shown.contains("s3cret-word"), "a secret is shown: {shown}");
    insta::assert_snapshot!(shown);
}
