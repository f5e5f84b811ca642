//! What becomes of each method: one table for both sides and for both generations of the protocol, those with a handshake (up to
//! 2025-11-25) and the stateless ones (from 2026-07-28 on). docs/formats/mcp.md has the same table for people.
//!
//! What has no row here is not passed on, unless the gateway's settings allow it by name; then it is recorded like the rest.

/// What becomes of what a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// It passes: it neither acts nor shows anything but what there is to ask for.
    Pass,
    /// A call of a tool, which the gate decides.
    Call,
    /// It acts or discloses: the gate records it before it is sent, and halts and standings hold for it.
    Record,
}

/// A request of a client; `None` where no one has said what becomes of it.
pub fn request(method: &str) -> Option<Rule> {
    match method {
        "initialize"
        | "server/discover"
        | "ping"
        | "tools/list"
        | "prompts/list"
        | "resources/list"
        | "resources/templates/list"
        | "logging/setLevel" => Some(Rule::Pass),
        "tools/call" => Some(Rule::Call),
        "resources/read"
        | "resources/subscribe"
        | "resources/unsubscribe"
        | "subscriptions/listen"
        | "prompts/get"
        | "completion/complete"
        | "tasks/list"
        | "tasks/get"
        | "tasks/result"
        | "tasks/update"
        | "tasks/cancel" => Some(Rule::Record),
        _ => None,
    }
}

/// A notification of a client; `None` where no one has said what becomes of it.
pub fn notification(method: &str) -> Option<Rule> {
    match method {
        "notifications/initialized"
        | "notifications/cancelled"
        | "notifications/progress"
        | "notifications/roots/list_changed" => Some(Rule::Pass),
        // Says in words of the client's own how far it is.
        "notifications/tasks/status" => Some(Rule::Record),
        _ => None,
    }
}

/// The capability that a client must have declared to be asked this by a server; `None` where no server may ask it. What the
/// client answers is recorded before the server gets it.
pub fn question(method: &str) -> Option<&'static str> {
    match method {
        "sampling/createMessage" => Some("sampling"),
        "elicitation/create" => Some("elicitation"),
        "roots/list" => Some("roots"),
        "tasks/list" | "tasks/get" | "tasks/result" | "tasks/cancel" => Some("tasks"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_or_discloses_never_just_passes_and_what_is_unknown_has_no_rule() {
        for method in ["resources/read", "resources/subscribe", "prompts/get", "completion/complete", "tasks/result"] {
            assert_eq!(request(method), Some(Rule::Record), "{method}");
        }
        for method in ["", "x/echo", "tools/Call", "tools/call ", "resources/write", "notifications/initialized"] {
            assert_eq!(request(method), None, "{method}");
        }
        for method in ["notifications/x", "tools/call", "initialize"] {
            assert_eq!(notification(method), None, "{method}");
        }
        assert_eq!((question("sampling/createMessage"), question("tools/call")), (Some("sampling"), None));
    }
}
