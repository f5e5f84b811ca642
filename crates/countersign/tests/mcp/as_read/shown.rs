//! What operators are shown of a server before it is used, and of a trial that did not come to be, or whose window has ended.

use super::shop::Shop;
use super::{is_error, meta, text};
use serde_json::json;

#[test]
fn what_is_shown_of_tools_is_how_they_are_approved_now() {
    let shop = Shop::new();
    let show = || shop.run_ok(&["mcp", "approve", "--show", "--data", "data"]);
    let shown = show();
    let row = |shown: &str, tool: &str| {
        let mut rows = shown.lines().filter(|line| line.starts_with(&format!("  {tool} "))).map(ToOwned::to_owned);
        rows.next_back().unwrap_or_else(|| panic!("{shown}"))
    };
    assert!(
        row(&shown, "sell").contains("guarded as read") && row(&shown, "sell").contains("approved before"),
        "{shown}"
    );
    shop.approve(&["shop/sell", "--guard", "none"]);
    assert!(row(&show(), "sell").contains("may change something"), "{}", show());
    // No gate is needed to read definitions.
    let elsewhere = shop.run_ok(&["mcp", "approve", "--show", "--server", "unix:nowhere.sock"]);
    assert!(!row(&elsewhere, "sell").contains("new"), "{elsewhere}");
}

#[test]
fn a_trial_whose_server_does_not_start_leaves_nothing_behind() {
    let shop = Shop::new();
    let (code, said) = shop.run(&["mcp", "try", "no-such-program-at-all", "--data", "trial-of-nothing"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("`no-such-program-at-all` is not on the PATH"), "{said}");
    assert!(!shop.folder().join("trial-of-nothing").exists());
}

#[test]
fn a_second_window_is_told_that_the_first_has_ended() {
    let shop = Shop::new();
    let first = shop.trial(&[]);
    let mut second = shop.trial(&[]);
    assert!(!is_error(&second.call("get_stock", &json!({"item": "tea"}))));
    first.end();
    let refused = second.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&refused)["retry"], json!({"how": "never"}), "{refused}");
    assert!(text(&refused).contains("start this agent again"), "{refused}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
}
