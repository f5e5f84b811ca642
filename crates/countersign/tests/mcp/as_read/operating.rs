//! What operators run and are told: where a trial keeps its keys, what an approval comes to, what a report counts, and what a call in
//! doubt holds up. The server's book and the disk are the judges.

use super::shop::Shop;
use super::{is_error, meta, text};
use crate::mcp::client::Stdio;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio as Pipe};

fn sell(count: u64) -> Value {
    json!({"item": "tea", "count": count})
}

/// A command in the shop's folder, of a user whose home is elsewhere.
fn at_home(shop: &Shop, home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
    command.args(words).current_dir(shop.folder()).env_clear().env("PATH", std::env::var("PATH").unwrap_or_default());
    command.env("HOME", home).stdin(Pipe::null());
    command
}

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => all.extend(files(&path)),
            path => all.push(path),
        }
    }
    all
}

fn keys(folder: &Path) -> Vec<PathBuf> {
    files(folder).into_iter().filter(|path| path.ends_with("keys/log")).collect()
}

#[test]
fn a_trial_keeps_its_keys_where_its_server_does_not_run() {
    let shop = Shop::new();
    std::fs::remove_dir_all(shop.folder().join("data")).unwrap();
    let home = tempfile::tempdir().unwrap();
    let server = shop.server();
    let (code, _, said) = run(&mut at_home(&shop, home.path(), &["mcp", "try", &server, "--name", "shop"]));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(keys(shop.folder()), Vec::<PathBuf>::new(), "there is no key in the server's folder");
    let made = keys(&home.path().join(".local/share/countersign/try"));
    let [key] = made.as_slice() else { panic!("{made:?}: {said}") };
    let data = key.parent().and_then(Path::parent).unwrap();
    assert!(said.contains(&data.display().to_string()), "it says where: {said}");
    // A report needs no path, and says of what it is.
    let (code, told, said) = run(&mut at_home(&shop, home.path(), &["mcp", "report"]));
    assert!(code == Some(0) && told.contains("entries"), "{told}{said}");
    assert!(said.contains(&data.display().to_string()), "{said}");
    // The same again goes on in it; another folder has another one.
    let (code, _, said) = run(&mut at_home(&shop, home.path(), &["mcp", "try", &server, "--name", "shop"]));
    assert_eq!((code, keys(home.path()).len()), (Some(0), 1), "{said}");
    let other = tempfile::tempdir().unwrap();
    let (code, _, said) =
        run(at_home(&shop, home.path(), &["mcp", "try", &server, "--name", "shop"]).current_dir(other.path()));
    assert_eq!((code, keys(home.path()).len()), (Some(0), 2), "{said}");
}

#[test]
fn attack_a_trial_is_not_put_into_a_folder_that_its_server_serves() {
    let shop = Shop::new();
    std::fs::remove_dir_all(shop.folder().join("data")).unwrap();
    let home = shop.folder().join("home");
    let folder = shop.folder().display().to_string();
    let served = format!("{} {folder}", shop.server());
    let option = format!("{} --root={folder}", shop.server());
    for (server, more) in [
        (&served, &["--data", "trial"] as &[&str]),
        (&option, &["--data", "deep/er/trial"]),
        // Nor where the usual place lies in it.
        (&served, &[]),
    ] {
        let words = [&["mcp", "try", server.as_str(), "--name", "shop"], more].concat();
        let (code, _, said) = run(&mut at_home(&shop, &home, &words));
        assert_eq!(code, Some(2), "{more:?}: {said}");
        assert!(said.contains("can reach") && said.contains("--data"), "{said}");
        assert_eq!(keys(shop.folder()), Vec::<PathBuf>::new(), "{more:?}: nothing was made");
    }
    // Its working folder may be harmless, so that is a warning.
    let server = shop.server();
    let (code, _, said) =
        run(&mut at_home(&shop, &home, &["mcp", "try", &server, "--name", "shop", "--data", "trial"]));
    assert!(
        code == Some(0) && said.contains("warning: ") && said.contains("a folder that the server's command names"),
        "{said}"
    );
}

#[test]
fn no_data_folder_is_taken_into_a_repository_by_accident() {
    let shop = Shop::new();
    let ignored = std::fs::read_to_string(shop.folder().join("data/.gitignore")).unwrap_or_default();
    assert_eq!(ignored, "*\n");
    shop.trial(&[]).end();
    assert_eq!(std::fs::read_to_string(shop.folder().join("trial/.gitignore")).unwrap_or_default(), "*\n");
}

#[test]
fn attack_an_approval_leaves_out_all_of_an_answer() {
    let shop = Shop::new();
    for paths in ["/", "/*", "/*/*", "/ticks,/"] {
        let (code, said) =
            shop.run(&["mcp", "approve", "--yes", "--data", "data", "shop/get_stock", "--ignore", paths]);
        assert!(code == Some(2) && said.contains("nothing to compare"), "{paths}: {said}");
        let (code, said) = shop.run(&["mcp", "try", &shop.server(), "--data", "trial", "--ignore", paths]);
        assert!(code == Some(2) && said.contains("nothing to compare"), "{paths}: {said}");
    }
    shop.settings("", "guard = \"as-read\"\n[mcp.upstream.shop.tool.get_stock]\nignore = [\"/\"]");
    let (code, said) = shop.run(&["mcp", "approve", "--yes", "--data", "data"]);
    assert!(code == Some(2) && said.contains("nothing to compare"), "{said}");
    shop.settings("", "");
    // However it came about, an answer of which nothing is left is compared as a whole.
    for ignore in ["/", "/stock,/item"] {
        let tool = shop.run_ok(&["fact", "get", "McpTool", "shop/get_stock", "--data", "data", "--json"]);
        let mut value = serde_json::from_str::<Value>(&tool).unwrap()["value"].clone();
        value["ignore"] = ignore.split(',').collect();
        shop.run_ok(&["fact", "put", "McpTool", "shop/get_stock", &value.to_string(), "--data", "data"]);
        shop.set("tea", 10);
        let mut client = shop.client();
        client.call("get_stock", &json!({"item": "tea"}));
        shop.set("tea", 2);
        let refused = client.call("sell", &sell(1));
        assert_eq!(meta(&refused)["code"], "reading_changed", "{ignore}: {refused}");
        assert_eq!(shop.count("sell"), 0, "{ignore}: the server never saw it");
        client.end();
    }
}

#[test]
fn nobody_is_told_to_leave_out_all_of_an_answer() {
    let shop = Shop::new();
    assert!(!shop.approval.contains("--ignore /\n"), "{}", shop.approval);
    assert!(shop.approval.contains("countersign mcp approve shop/get_time --guard none"), "{}", shop.approval);
    let mut client = shop.client();
    client.call("get_time", &json!({}));
    let refused = client.call("sell", &sell(1));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert!(!text(&refused).contains("--ignore"), "{refused}");
    assert!(text(&refused).contains("countersign mcp approve shop/get_time --guard none"), "{refused}");
    client.end();
    let found: Value = serde_json::from_str(&shop.run_ok(&["mcp", "report", "--json", "--data", "data"])).unwrap();
    assert_eq!(found["proposals"][0]["run"], "countersign mcp approve shop/get_time --guard none", "{found}");
    // A clock that answers nothing but one member is no different.
    shop.mood("name now");
    let mut client = shop.client();
    client.call("get_clock", &json!({}));
    let refused = client.call("sell", &sell(1));
    assert!(!text(&refused).contains("--ignore"), "{refused}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
}

#[test]
fn a_server_that_says_nothing_of_its_tools_is_guarded_by_their_names() {
    let shop = Shop::proposing("", "");
    shop.mood("silent");
    let said = shop.approve(&["--guard", "as-read"]);
    let named = said.lines().find(|line| line.contains("read by their names alone")).unwrap_or_default();
    for tool in ["get_stock", "get_report", "get_clock", "get_time"] {
        assert!(named.contains(tool), "{said}");
    }
    assert!(named.contains("--writes") && !named.contains("sell") && !named.contains("total"), "{said}");
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 2);
    let refused = client.call("sell", &sell(1));
    assert_eq!((shop.count("sell"), shop.stock("tea")), (0, 2), "the server never saw it: {refused}");
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    client.end();
    // Without the guard what only reads passes unasked, so there a name is not enough.
    let other = Shop::proposing("", "");
    other.mood("silent");
    other.approve(&[]);
    let tool = other.run_ok(&["fact", "get", "McpTool", "shop/get_stock", "--data", "data", "--json"]);
    assert!(tool.contains("\"read_only\":false"), "{tool}");
    // What was approved as one that writes stays that, and whoever guards it then is told that nothing is compared.
    let said = other.approve(&["--guard", "as-read"]);
    assert!(said.contains("warning: shop: no tool counts as reading, so no write is ever refused"), "{said}");
    let reads = said.split("countersign mcp approve ").find(|rest| rest.contains("--reads")).unwrap_or_default();
    assert!(reads.contains("get_stock") && !reads.contains("sell"), "{said}");
}

#[test]
fn a_gateway_signs_with_the_key_that_is_named() {
    let shop = Shop::new();
    let gated = ["--data", "gated"];
    shop.run_ok(&[&["init", "--admin-key", "admin.key"], &gated[..]].concat());
    let agent = ["agent", "new", "clerk-1", "--org", "acme", "--held-by-gateway", "--key", "admin.key"];
    shop.run_ok(&[&agent, &gated[..]].concat());
    for key in ["admin.key", "nokey"] {
        for known in [None, Some(key)] {
            let words = ["mcp", "serve", "--agent", "clerk-1", "--key", key, "--data", "gated"];
            let mut command = at_home(&shop, shop.folder(), &words);
            known.map(|known| command.env("COUNTERSIGN_KEY", known));
            let (code, _, said) = run(&mut command);
            assert!(code.is_some_and(|code| code != 0), "{key}: it went by clerk-1.key: {said}");
        }
    }
    // An operator's key in the environment is not meant for it.
    let mut command = at_home(&shop, shop.folder(), &["mcp", "serve", "--agent", "clerk-1", "--data", "gated"]);
    let (code, _, said) = run(command.env("COUNTERSIGN_KEY", "admin.key"));
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_rule_for_a_tool_that_is_not_there_is_refused() {
    let shop = Shop::proposing("", "guard = \"as-read\"\n[mcp.upstream.shop.tool.get_clok]\nignore = [\"/ticks\"]");
    let (code, said) = shop.run(&["mcp", "approve", "--yes", "--data", "data"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("shop/get_clok") && said.contains("did you mean `get_clock`?"), "{said}");
    let (code, _) = shop.run(&["fact", "get", "McpTool", "shop/sell", "--data", "data"]);
    assert_ne!(code, Some(0), "nothing was approved");
    shop.settings("", "guard = \"as-read\"");
    shop.approve(&[]);
    shop.settings("", "guard = \"as-read\"\n[mcp.upstream.shop.tool.get_clok]\nignore = [\"/ticks\"]");
    let (_, said) = shop.client().end();
    assert!(said.contains("the settings say something of shop/get_clok"), "{said}");
}

#[test]
fn shadow_mode_in_force_is_said_by_whoever_starts() {
    let shop = Shop::proposing("unmapped = \"shadow\"", "guard = \"as-read\"");
    shop.approve(&[]);
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 4);
    let made = client.call("sell", &sell(1));
    assert_eq!(shop.count("sell"), 1, "it was made: {made}");
    let hint = meta(&made)["shadowed"]["hint"].as_str().unwrap_or_default().to_owned();
    assert!(!hint.contains("nothing was sent"), "{hint}");
    let (_, said) = client.end();
    assert!(said.contains("warning: shop is in shadow mode"), "{said}");
    let words = ["serve", "--data", "data", "--listen", "127.0.0.1:0"];
    let said = said_at_start(&shop, &words);
    assert!(said.contains("warning: shop is in shadow mode"), "{said}");
    // What was refused and what would have been are told apart, and what is over is not said to go on.
    let told = shop.run_ok(&["mcp", "report", "--data", "data"]);
    assert!(told.contains("would have been refused: shop/get_stock"), "{told}");
    assert!(told.contains("To refuse from now on"), "{told}");
    shop.settings("unmapped = \"deny\"", "guard = \"as-read\"");
    shop.approve(&[]);
    let mut client = shop.client();
    client.call("get_stock", &json!({"item": "tea"}));
    shop.set("tea", 9);
    client.call("sell", &sell(1));
    client.end();
    let told = shop.run_ok(&["mcp", "report", "--data", "data"]);
    assert!(!told.contains("To refuse from now on"), "{told}");
    let reasons = serde_json::from_str::<Value>(&shop.run_ok(&["mcp", "report", "--json", "--data", "data"])).unwrap();
    let made: Vec<&Value> = reasons["calls"]["shop/sell"]["reasons"].as_array().unwrap().iter().collect();
    assert!(made.len() == 2 && made[0]["made"] == true && made[1]["made"] == false, "{reasons}");
}

/// What a gate that runs says until it listens.
fn said_at_start(shop: &Shop, words: &[&str]) -> String {
    use std::io::{BufRead as _, BufReader};
    let mut command = at_home(shop, shop.folder(), words);
    let mut child = command.stderr(Pipe::piped()).spawn().unwrap();
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
        said.push_str(&line);
        said.push('\n');
        if line.starts_with("Listening on ") {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    said
}

/// Reads facts by `get_stock`, and sells only what is there.
const PACT: &str = r#"
pact = "shop"
version = 1
[facts.Stock]
attributes = { stock = "Long" }
source = { mcp = "shop", tool = "get_stock", arguments = { item = "{id}" }, at = "/structuredContent" }
[observe.Stock]
who = 'true'
attributes = ["stock"]
[action.sell]
resource = 'Stock::"{item}"'
allow = 'principal.standing == "active"'
call = { mcp = "shop", tool = "sell" }
[action.sell.params]
type = "object"
additionalProperties = false
required = ["item", "count"]
properties.item = { type = "string", maxLength = 16 }
properties.count = { type = "integer", minimum = 1, maximum = 100 }
[[action.sell.require]]
id = "enough-is-there"
that = 'resource.stock >= context.count'
"#;

#[test]
fn a_report_counts_what_is_refused_right_before_the_call_and_what_is_in_doubt() {
    let shop = Shop::new();
    shop.publish(PACT);
    let mut client = shop.client();
    assert!(!is_error(&client.call("sell", &sell(1))));
    for _ in 0..3 {
        let refused = client.call("sell", &sell(50));
        assert_eq!(meta(&refused)["code"], "precondition_failed", "{refused}");
    }
    shop.mood("die on sell");
    assert_eq!(meta(&client.call("sell", &sell(1)))["verdict"], "in_doubt");
    shop.mood("");
    client.end();
    assert_eq!(shop.count("sell"), 2, "the server saw what was not refused");
    let found: Value = serde_json::from_str(&shop.run_ok(&["mcp", "report", "--json", "--data", "data"])).unwrap();
    let calls = &found["calls"]["shop/sell"];
    assert_eq!((&calls["calls"], &calls["refused"], &calls["in_doubt"]), (&json!(5), &json!(3), &json!(1)), "{found}");
    assert_eq!(calls["reasons"][0]["code"], "precondition_failed", "{found}");
    let told = shop.run_ok(&["mcp", "report", "--data", "data"]);
    assert!(told.contains("shop/sell: 5 calls, 3 refused, 1 in doubt"), "{told}");
}

/// A call whose server ended in the middle of it: its effect.
fn lose(shop: &Shop, client: &mut Stdio) -> String {
    shop.mood("die on sell");
    let lost = client.call("sell", &sell(1));
    assert_eq!(meta(&lost)["verdict"], "in_doubt", "{lost}");
    shop.mood("");
    meta(&lost)["effect"].as_str().unwrap().to_owned()
}

#[test]
fn a_call_in_doubt_blocks_no_approval_and_no_tool() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    lose(&shop, &mut client);
    let saw = shop.count("sell");
    let approve = ["mcp", "approve", "--yes", "--server", gate.url(), "shop/sell", "--rests-on", "carried"];
    let (code, said) = shop.run(&approve);
    assert!(code == Some(0) && !said.contains("counts later"), "{said}");
    let sold = client.call("sell", &sell(2));
    assert_eq!(shop.count("sell"), saw + 1, "the tool goes on: {sold}");
    assert!(!is_error(&sold), "{sold}");
    // And an admin who withdraws it is not kept waiting either.
    shop.run_ok(&["fact", "delete", "McpTool", "shop/sell", "--server", gate.url()]);
    let refused = client.call("sell", &sell(3));
    assert!(is_error(&refused), "{refused}");
    assert_eq!(shop.count("sell"), saw + 1, "the server never saw it");
    client.end();
    drop(gate);
    assert!(shop.run_ok(&["audit", "--data", "data"]).contains("same"), "an audit decides the same");
}

#[test]
fn whoever_starts_is_told_of_calls_in_doubt_and_how_to_end_them() {
    let shop = Shop::new();
    let mut client = shop.client();
    let effect = lose(&shop, &mut client);
    client.end();
    let (_, said) = shop.client().end();
    let resolve = format!("countersign effect resolve {effect} settled --reason TEXT");
    assert!(said.contains(&effect) && said.contains(&format!("{resolve} --server unix:")), "{said}");
    let said = said_at_start(&shop, &["serve", "--data", "data", "--listen", "127.0.0.1:0"]);
    assert!(said.contains(&resolve) && said.contains("shop/sell"), "{said}");
    // The same in a trial, whose folder has another name, also right after the call.
    let mut client = shop.trial(&[]);
    shop.mood("promise sell");
    let lost = client.call("sell", &sell(1));
    assert_eq!(meta(&lost)["verdict"], "in_doubt", "{lost}");
    let effect = meta(&lost)["effect"].as_str().unwrap().to_owned();
    shop.mood("");
    let refused = client.call("sell", &sell(2));
    assert_eq!(meta(&refused)["code"], "turn_held", "{refused}");
    let said = text(&refused);
    assert!(
        said.contains(&format!("countersign effect resolve {effect} settled --reason TEXT --server unix:")),
        "{said}"
    );
    assert!(said.contains("trial"), "it names the folder: {said}");
    client.end();
    let (_, said) = shop.trial(&[]).end();
    assert!(said.contains("in doubt") && said.contains(&effect) && said.contains("--server unix:"), "{said}");
}

#[test]
fn a_trial_proposes_what_can_be_run_as_a_trial() {
    let shop = Shop::new();
    let mut client = shop.trial(&[]);
    client.call("get_clock", &json!({}));
    let refused = client.call("sell", &sell(1));
    let said = text(&refused);
    assert!(said.contains("--ignore /ticks") && said.contains("mcp try"), "{said}");
    assert!(!said.contains("mcp approve"), "{said}");
    client.end();
    let told = shop.run_ok(&["mcp", "report", "--data", "trial"]);
    assert!(told.contains("--ignore /ticks") && !told.contains("mcp approve"), "{told}");
    // What it proposes does help.
    let mut client = shop.trial(&["--ignore", "/ticks"]);
    client.call("get_clock", &json!({}));
    let sold = client.call("sell", &sell(1));
    assert_eq!(shop.count("sell"), 1, "{sold}");
}

#[test]
fn a_second_window_of_a_trial_works_beside_the_first() {
    let shop = Shop::new();
    let mut one = shop.trial(&[]);
    let mut other = shop.trial(&[]);
    one.call("get_stock", &json!({"item": "tea"}));
    other.call("get_stock", &json!({"item": "tea"}));
    assert!(!is_error(&other.call("sell", &sell(3))));
    // Both go through one gate: what the other changed is refused, and nothing comes in between.
    let refused = one.call("sell", &sell(9));
    assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
    assert_eq!((shop.count("sell"), shop.stock("tea")), (1, 7));
}
