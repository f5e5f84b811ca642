//! A first pact from what a server says of its tools.

use super::tool::Tool;

/// The lines to add to a pact for one tool.
pub fn action_lines(upstream: &str, tool: &Tool) -> String {
    format!("[action.{}]  # {upstream}", tool.name)
}
