//! Something read at an MCP server, and something done that is no call of a tool: a request to a service, or a program. What the service
//! or the program was asked for is what counts.

use super::shop::Shop;
use crate::mcp::http::received;
use serde_json::{Value, json};
use std::io::{BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

const PACT: &str = r#"
pact = "desk"
version = 1

[facts.Desk]
attributes = { open = "Bool" }

[action.order]
guard = "as-read"
MORE
resource = 'Desk::"{desk}"'
allow = 'true'
call = { CALL }

[action.order.params]
type = "object"
additionalProperties = false
required = ["desk", "count"]
properties.desk = { type = "string", maxLength = 16 }
properties.count = { type = "integer", minimum = 1, maximum = 100 }

[[action.order.require]]
id = "open"
that = 'resource.open'
"#;

/// A request to the service, and a program that is run.
const CALLS: [&str; 2] = [
    r#"http = "orders", path = "/orders", body = { count = "context.count" }"#,
    r#"command = "clerk", args = ["count {count}"]"#,
];

/// A service that takes every order and writes it down.
fn service(book: Arc<Mutex<Vec<String>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // Ends with the process.
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = BufReader::new(stream);
            while let Some(order) = received(&mut stream) {
                book.lock().unwrap().push(format!("{} {}", order.first, order.body));
                // Whoever hangs up is none of its business.
                let _ = write!(stream.get_mut(), "HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n");
            }
        }
    });
    url
}

/// A shop, and a desk that orders elsewhere.
struct Desk {
    shop: Shop,
    gate: crate::mcp::http::Http,
    session: String,
    orders: Arc<Mutex<Vec<String>>>,
    keys: u64,
}

impl Desk {
    fn new(call: &str, more: &str) -> Self {
        let shop = Shop::new();
        let orders = Arc::default();
        let url = service(Arc::clone(&orders));
        let clerk = shop.folder().join("clerk.sh");
        let book = shop.folder().join("orders");
        std::fs::write(&clerk, format!("echo \"$1\" >> '{}'\n", book.display())).unwrap();
        let adapters = format!(
            "\n[adapters.orders]\nkind = \"http\"\nbase = \"{url}\"\nallow_private = [\"127.0.0.0/8\"]\n\
             \n[adapters.clerk]\nkind = \"command\"\nprogram = \"/bin/sh\"\nargs = [\"{}\"]\n",
            clerk.display()
        );
        shop.settings("", &adapters);
        shop.publish(&PACT.replace("CALL", call).replace("MORE", more));
        shop.run_ok(&["fact", "put", "Desk", "one", r#"{"open":true}"#, "--data", "data"]);
        let gate = shop.serve();
        let opened = shop.post(&gate, "/v1/sessions", &json!({}));
        let session = opened["session"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
        Self { shop, gate, session, orders, keys: 0 }
    }

    fn reads(&self, item: &str) -> Value {
        let read = json!({"upstream": "shop", "tool": "get_stock", "arguments": {"item": item}});
        self.shop.post(&self.gate, &format!("/v1/sessions/{}/readings", self.session), &read)
    }

    fn orders(&mut self, count: i64) -> Value {
        self.keys += 1;
        let action = json!({
            "pact": "desk", "action": "order", "params": {"desk": "one", "count": count}, "session": self.session,
            "idempotency_key": format!("order-{:032}", self.keys),
        });
        self.shop.post(&self.gate, "/v1/actions?wait_ms=20000", &action)
    }

    /// What was ordered, by request or by program.
    fn book(&self) -> Vec<String> {
        let by_program = std::fs::read_to_string(self.shop.folder().join("orders")).unwrap_or_default();
        let by_request = self.orders.lock().unwrap().clone();
        by_request.into_iter().chain(by_program.lines().map(str::to_owned)).collect()
    }
}

#[test]
fn what_was_read_of_a_tool_is_read_again_before_a_service_or_a_program_is_called() {
    for call in CALLS {
        let mut desk = Desk::new(call, "");
        let read = desk.reads("tea");
        assert!(read["answer"].as_str().is_some_and(|answer| answer.contains("10")), "{call}: {read}");
        desk.shop.set("tea", 2);
        let refused = desk.orders(3);
        assert_eq!(refused["code"], "reading_changed", "{call}: {refused}");
        let changed = &refused["readings"]["changed"][0];
        assert_eq!(
            (&changed["upstream"], &changed["tool"]),
            (&json!("shop"), &json!("get_stock")),
            "{call}: {refused}"
        );
        let told = json!([{"path": "/stock", "before": "10", "after": "2"}]);
        assert_eq!(changed["changes"], told, "{call}: {refused}");
        assert_eq!(desk.book(), Vec::<String>::new(), "{call}: no one was asked for anything");
        // What was never read is no reason.
        desk.shop.set("rice", 1);
        let done = desk.orders(1);
        assert_eq!(
            (&done["verdict"], &done["readings"]["rested_on"]),
            (&json!("settled"), &json!(1)),
            "{call}: {done}"
        );
        let book = desk.book();
        assert!(matches!(&*book, [order] if order.contains("count") && order.contains('1')), "{call}: {book:?}");
        // It may have changed what was read, so that was read once more; it had not.
        assert_eq!(desk.shop.count("get_stock"), 1 + 2 + 2, "read, again and once more; again and after it: {call}");
        assert_eq!(desk.orders(1)["verdict"], "settled", "{call}");
        assert_eq!(desk.book().len(), 2, "{call}");
        desk.gate.end();
        assert!(desk.shop.run_ok(&["audit", "--data", "data"]).contains("same"), "{call}: an audit decides the same");
    }
}

#[test]
fn a_service_is_not_called_where_what_must_be_read_was_not_or_cannot_be_read_again() {
    for call in CALLS {
        let mut desk = Desk::new(call, "must_read = [\"shop/get_stock\"]");
        assert_eq!(desk.orders(1)["code"], "reading_required", "{call}");
        desk.reads("tea");
        desk.shop.mood("die on get_stock");
        assert_eq!(desk.orders(1)["code"], "reading_unread", "{call}");
        assert_eq!(desk.book(), Vec::<String>::new(), "{call}: no one was asked for anything");
        desk.shop.mood("");
        assert_eq!(desk.orders(1)["verdict"], "settled", "{call}");
        assert_eq!(desk.book().len(), 1, "{call}");
    }
}
