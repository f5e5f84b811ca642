//! Where calling again does not help, no one is told to: answers that always differ, a gate that is halted or gone.

use super::files::Files;
use super::shop::Shop;
use super::{is_error, meta, text};
use serde_json::json;

#[test]
fn a_reading_that_always_differs_says_what_helps_and_not_what_does_not() {
    let shop = Shop::new();
    let mut client = shop.client();
    client.call("get_clock", &json!({}));
    for _ in 0..2 {
        let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
        assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
        let said = text(&refused);
        assert!(said.contains("get_clock differs whenever it is read, at /ticks"), "{said}");
        assert!(!said.contains("make the same call again") && !said.contains("get_clock again"), "{said}");
        assert!(said.contains("Reconnect"), "{said}");
        assert!(said.contains("countersign mcp approve shop/get_clock --ignore /ticks"), "{said}");
        assert_eq!(meta(&refused)["retry"], json!({"how": "never"}), "{refused}");
    }
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
    // What it says helps.
    client.end();
    let mut client = shop.client();
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
    assert_eq!(shop.count("sell"), 1);
}

#[test]
fn of_an_answer_that_differs_as_a_whole_no_one_is_told_to_ignore_all_of_it() {
    let shop = Shop::new();
    let mut client = shop.client();
    client.call("get_time", &json!({}));
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    let said = text(&refused);
    assert!(said.contains("get_time differs whenever it is read. An operator can"), "{said}");
    assert!(!said.contains("--ignore"), "that would switch the guard off: {said}");
    assert!(said.contains("no write rests on anything that it answers"), "it says what is lost: {said}");
    assert_eq!((meta(&refused)["retry"]["how"].as_str(), shop.count("sell")), (Some("never"), 0), "{refused}");
}

#[test]
fn of_a_resource_that_always_differs_no_command_is_named_that_could_not_work() {
    let shop = Shop::new();
    let mut client = shop.client();
    let read = client.request("resources/read", &json!({"uri": "shop://clock"}));
    assert!(read["result"]["contents"].is_array(), "{read}");
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    let said = text(&refused);
    assert!(said.contains("The resource shop://clock differs whenever it is read"), "{said}");
    assert!(said.contains("Reconnect") && !said.contains("countersign mcp"), "{said}");
    assert_eq!((meta(&refused)["retry"]["how"].as_str(), shop.count("sell")), (Some("never"), 0), "{refused}");
    // What it says helps.
    client.end();
    let mut client = shop.client();
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
    assert_eq!(shop.count("sell"), 1);
}

#[test]
fn what_only_reading_moves_is_named_and_can_be_left_out() {
    let files = Files::new();
    let edit = json!({"path": "b", "old": "line 1", "new": "line one"});
    // Which of the two is read again first depends on their names.
    for path in ["a", "b", "c", "d", "e", "f"] {
        files.write(path, "line 1");
        let mut client = files.client();
        client.call("stat_file", &json!({"path": path}));
        client.call("read_file", &json!({"path": path}));
        let refused = client.call("edit_file", &edit);
        assert_eq!(meta(&refused)["code"], "reading_changed", "{refused}");
        let said = text(&refused);
        assert!(said.contains("countersign mcp approve files/stat_file --ignore /accessed"), "{path}: {said}");
        assert_eq!(files.count("edit_file"), 0, "the server never saw it");
        client.end();
    }
    files.approve(&["files/stat_file", "--ignore", "/accessed"]);
    let mut client = files.client();
    client.call("stat_file", &json!({"path": "a"}));
    client.call("read_file", &json!({"path": "a"}));
    let edited = client.call("edit_file", &edit);
    assert!(!is_error(&edited), "{edited}");
    assert_eq!(files.count("edit_file"), 1);
}

#[test]
fn a_read_during_a_halt_says_what_the_write_beside_it_says() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    client.call("get_stock", &json!({"item": "tea"}));
    let seen = shop.book().len();
    shop.run_ok(&["halt", "add", "--agent", "coder-1", "--reason", "drill", "--server", gate.url()]);
    for (tool, arguments) in [("get_stock", json!({"item": "tea"})), ("sell", json!({"item": "tea", "count": 1}))] {
        let refused = client.call(tool, &arguments);
        let said = text(&refused);
        assert!(said.contains("halted") && said.contains("operator"), "{said}");
        assert!(!said.contains("other arguments") && !said.contains("[observe]"), "{said}");
        assert_eq!(meta(&refused)["retry"], json!({"how": "never"}), "a person ends it: {refused}");
    }
    shop.run_ok(&["halt", "lift", "--agent", "coder-1", "--reason", "over", "--server", gate.url()]);
    assert!(!is_error(&client.call("get_stock", &json!({"item": "tea"}))));
    drop(gate);
    for (tool, arguments) in [("get_stock", json!({"item": "tea"})), ("sell", json!({"item": "tea", "count": 1}))] {
        let refused = client.call(tool, &arguments);
        let said = text(&refused);
        assert!(!said.contains("other arguments") && !said.contains("[observe]"), "{said}");
        assert_eq!(meta(&refused)["retry"]["how"], "later", "{refused}");
    }
    assert_eq!((shop.book().len(), shop.count("sell")), (seen + 1, 0), "the server saw one reading more");
}

#[test]
fn an_argument_that_is_missing_is_called_that() {
    let shop = Shop::new();
    let mut client = shop.client();
    let refused = client.call("countersign_continue", &json!({}));
    assert_eq!(meta(&refused)["error"]["code"], "invalid_arguments", "{refused}");
    assert!(text(&refused).contains("`continuation` is missing"), "{refused}");
    assert!(!text(&refused).contains("not known"), "{refused}");
    assert_eq!(meta(&refused)["retry"], json!({"how": "change"}), "{refused}");
}

#[test]
fn a_session_whose_reading_is_taken_out_of_the_guard_is_told_to_begin_again() {
    let shop = Shop::new();
    let gate = shop.serve();
    let mut client = shop.client_of(&gate);
    client.call("get_time", &json!({}));
    let (code, said) =
        shop.run(&["mcp", "approve", "--yes", "--server", gate.url(), "shop/get_time", "--guard", "none"]);
    assert!(code == Some(0) && said.contains("no write rests on anything that it answers"), "{said}");
    let refused = client.call("sell", &json!({"item": "tea", "count": 1}));
    assert_eq!(meta(&refused)["code"], "reading_unread", "{refused}");
    assert_eq!(meta(&refused)["retry"], json!({"how": "never"}), "{refused}");
    let said = text(&refused);
    assert!(said.contains("new session") && !said.contains("--guard as-read"), "{said}");
    assert_eq!(shop.count("sell"), 0, "the server never saw it");
    client.end();
    let mut client = shop.client_of(&gate);
    assert!(!is_error(&client.call("sell", &json!({"item": "tea", "count": 1}))));
}
