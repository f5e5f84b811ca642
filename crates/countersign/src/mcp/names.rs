//! What an agent calls tools: as their servers do, and with the server's name in front where the gateway has several.

use super::adapter::RESOURCE;
use super::settings::SEPARATOR;
use countersign_core::session::called;

/// The names by which an agent knows tools.
#[derive(Debug, Clone, Default)]
pub struct Names {
    upstreams: Vec<String>,
}

impl Names {
    /// Of the tools of these servers.
    pub fn new<'a>(upstreams: impl Iterator<Item = &'a String>) -> Self {
        Self { upstreams: upstreams.cloned().collect() }
    }

    /// A tool, as the agent calls it.
    pub fn of(&self, upstream: &str, tool: &str) -> String {
        // Resources are read by a method, whichever server has them.
        let is_prefixed = self.upstreams.len() > 1 && tool != RESOURCE;
        if is_prefixed { format!("{upstream}{SEPARATOR}{tool}") } else { tool.to_owned() }
    }

    /// A call of a tool, as the agent can make it again.
    pub fn called(&self, upstream: &str, tool: &str, arguments: &str) -> String {
        called(&self.of(upstream, tool), arguments)
    }

    /// Whether the agent has the tools of a server.
    pub fn has(&self, upstream: &str) -> bool {
        self.upstreams.iter().any(|known| known == upstream)
    }

    /// A text of the gate, in which a tool is named as its server names it.
    pub fn renamed(&self, text: &str, upstream: &str, tool: &str) -> String {
        let name = self.of(upstream, tool);
        if name == tool || tool.is_empty() {
            return text.to_owned();
        }
        let is_inside = |char: Option<char>| char.is_some_and(|char| char.is_alphanumeric() || "_-/.".contains(char));
        let (mut out, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once(tool) {
            let ends_word = after.strip_prefix(['.', '-', '/']).unwrap_or(after);
            let is_word = !is_inside(before.chars().next_back()) && !is_inside(ends_word.chars().next());
            out.push_str(before);
            out.push_str(if is_word { &name } else { tool });
            rest = after;
        }
        out + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_named_as_the_agent_calls_it() {
        let servers = ["files", "mail"].map(str::to_owned);
        let (one, two) = (Names::new(servers.iter().take(1)), Names::new(servers.iter()));
        assert_eq!((one.of("files", "read"), two.of("files", "read")), ("read".to_owned(), "files__read".to_owned()));
        assert_eq!(two.of("files", RESOURCE), RESOURCE, "a method has one name");
        let said = "what read answers; read_all, files/read and read.";
        assert_eq!(
            two.renamed(said, "files", "read"),
            "what files__read answers; read_all, files/read and files__read."
        );
        assert_eq!(one.renamed(said, "files", "read"), said);
    }
}
