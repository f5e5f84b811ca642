//! Which servers stand behind the gateway, and what becomes of tools that no pact maps: from countersign.toml or from flags,
//! checked once.

mod address;
mod program;
mod proposal;

pub use address::Address;
pub use program::Program;
pub use proposal::{Guard, Proposal, checked_labels};

use super::buffers::BUFFERED_MAX;
use super::methods;
use crate::config::adapters::variables;
use crate::config::table::{Table, number, suggestion};
use crate::hinted::{bail_hinted, hinted};
use crate::tls::Files;
use address::is_url;
use anyhow::Result;
use countersign_core::pact::duration_ms;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use toml::Value;

/// How long a session over HTTP is kept for a client that does not use it, where the settings do not say.
pub const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// The shortest and the longest time that the settings may say.
const SESSION_IDLE_MIN: Duration = Duration::from_secs(1);
const SESSION_IDLE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The least and the most that the settings may let wait.
const BUFFERED_MIN: i64 = 1 << 20;
const BUFFERED_MAX_MAX: i64 = 1 << 40;

/// The longest name of an upstream: it stands in front of every tool's name.
const NAME_CHARS_MAX: usize = 32;

/// The longest name of a method; as the pact of the gateway has it.
const METHOD_BYTES_MAX: usize = 128;

/// Programs that run others, and words of theirs that name nothing.
const RUNNERS: [&str; 13] =
    ["uvx", "uv", "run", "npx", "bunx", "pipx", "node", "deno", "python", "python3", "sh", "bash", "env"];

/// What the settings say of one server.
const KEYS: [&str; 9] = ["ca", "certificate", "certificate_key", "command", "crl", "env", "guard", "tool", "url"];

/// Between an upstream's name and a tool's, where there are several upstreams.
pub const SEPARATOR: &str = "__";

/// What the file says about the gateway.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct McpSettings {
    /// What becomes of tools that no pact maps.
    pub unmapped: Unmapped,
    /// How long a session over HTTP is kept for a client that does not use it.
    pub session_idle: Option<Duration>,
    /// How many bytes of messages may wait, of all sessions together.
    pub buffered_max: Option<usize>,
    /// Methods that pass, recorded, although it is not known what they do.
    pub allow_methods: Vec<String>,
    /// The servers behind, by name.
    pub upstreams: BTreeMap<String, Place>,
    /// What is proposed for the tools of each, for an admin to approve.
    pub proposals: BTreeMap<String, Proposal>,
}

/// What becomes of a tool that no pact maps and that does not only read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Unmapped {
    /// Its calls are refused.
    #[default]
    Deny,
    /// Its calls pass, and are recorded.
    Pass,
    /// Its calls pass, and the ledger says which of them would have been refused.
    Shadow,
}

impl Unmapped {
    /// As it stands in settings and entries.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Pass => "pass",
            Self::Shadow => "shadow",
        }
    }
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A program that is started and spoken to over its standard input and output.
    Command(Program),
    /// One that runs, spoken to over streamable HTTP.
    Url(Address),
}

impl McpSettings {
    /// Reads the table `mcp`; relative paths start at `base`.
    pub fn parse(value: &Value, base: &Path) -> Result<Self> {
        let Some(table) = value.as_table() else { bail_hinted!("key `mcp` must be a table"; "write [mcp]") };
        let mut settings = Self::default();
        for (key, value) in table {
            match key.as_str() {
                "unmapped" => settings.unmapped = unmapped(value)?,
                "session_idle" => settings.session_idle = Some(session_idle(value)?),
                "buffered_max" => {
                    settings.buffered_max = Some(number("mcp.buffered_max", value, BUFFERED_MIN, BUFFERED_MAX_MAX)?);
                }
                "allow_methods" => settings.allow_methods = allow_methods(value)?,
                "upstream" => (settings.upstreams, settings.proposals) = upstreams(value, base)?,
                unknown => {
                    let keys = "`unmapped`, `session_idle`, `buffered_max`, `allow_methods` and `upstream`";
                    bail_hinted!("key `mcp.{unknown}` is not known"; "the keys are {keys}")
                }
            }
        }
        Ok(settings)
    }

    /// How many bytes of messages may wait, of all sessions together.
    pub fn buffered_max(&self) -> usize {
        self.buffered_max.unwrap_or(BUFFERED_MAX)
    }
}

fn unmapped(value: &Value) -> Result<Unmapped> {
    match value.as_str() {
        Some("deny") => Ok(Unmapped::Deny),
        Some("pass") => Ok(Unmapped::Pass),
        Some("shadow") => Ok(Unmapped::Shadow),
        _ => bail_hinted!("key `mcp.unmapped` must be \"deny\", \"pass\" or \"shadow\""; "\"deny\" is the safe one"),
    }
}

fn session_idle(value: &Value) -> Result<Duration> {
    let span = value.as_str().and_then(duration_ms).map(Duration::from_millis);
    match span.filter(|span| (SESSION_IDLE_MIN..=SESSION_IDLE_MAX).contains(span)) {
        Some(span) => Ok(span),
        None => bail_hinted!("key `mcp.session_idle` must be a time from 1 s to one day"; "write it as \"30m\""),
    }
}

fn allow_methods(value: &Value) -> Result<Vec<String>> {
    let names = value.as_array().map(|names| names.iter().map(|name| name.as_str().map(str::to_owned)));
    let Some(names) = names.and_then(Iterator::collect::<Option<Vec<String>>>) else {
        bail_hinted!("key `mcp.allow_methods` must be a list of methods"; "write it as [\"vendor/status\"]");
    };
    names.iter().map(|name| allowed_method(name)).collect()
}

/// A method that may be allowed by name: one of which the gateway does not know already what becomes of it.
pub fn allowed_method(name: &str) -> Result<String> {
    if name.is_empty() || name.len() > METHOD_BYTES_MAX || name.chars().any(|char| char.is_control() || char == ' ') {
        bail_hinted!("`{name}` is not the name of a method"; "write it as the server has it, such as vendor/status");
    }
    if methods::request(name).or_else(|| methods::notification(name)).is_some() {
        bail_hinted!("the method `{name}` need not be allowed: the gateway knows what becomes of it"; "leave it out");
    }
    Ok(name.to_owned())
}

type Upstreams = (BTreeMap<String, Place>, BTreeMap<String, Proposal>);

fn upstreams(value: &Value, base: &Path) -> Result<Upstreams> {
    let Some(table) = value.as_table() else {
        bail_hinted!("key `mcp.upstream` must be a table"; "write [mcp.upstream.NAME]")
    };
    let (mut places, mut proposals) = Upstreams::default();
    for (name, value) in table {
        let name = checked(name)?;
        places.insert(name.clone(), place(&name, value, base)?);
        let proposal = value.as_table().map(|table| Proposal::parse(&name, table)).transpose()?.unwrap_or_default();
        if proposal != Proposal::default() {
            proposals.insert(name, proposal);
        }
    }
    Ok((places, proposals))
}

/// Refuses what does not name a part of an answer: it would leave out nothing, and no one would notice.
pub fn checked_paths(paths: &[String]) -> Result<()> {
    let is_path = |path: &String| path.starts_with('/') && !path.chars().any(char::is_control);
    match paths.iter().find(|path| !is_path(path)) {
        Some(path) => {
            let path = crate::terminal::inline(path);
            bail_hinted!("`{path}` is not a path in an answer"; "write it as /updated_at, or /items/*/updated_at")
        }
        None => Ok(()),
    }
}

/// The same for what is left out. What names all of an answer would leave nothing to compare, and every write would run.
pub fn checked_ignored(paths: &[String]) -> Result<()> {
    checked_paths(paths)?;
    let is_all = |path: &&String| path.split('/').all(|step| step.is_empty() || step == "*");
    match paths.iter().find(is_all) {
        Some(path) => bail_hinted!(
            "leaving out `{path}` leaves nothing to compare";
            "leave out what differs by itself, such as /updated_at. To let no write rest on what a tool answers: `countersign mcp approve \
             SERVER/TOOL --guard none`, or `mcp try … --writes TOOL`"
        ),
        None => Ok(()),
    }
}

fn place(name: &str, value: &Value, base: &Path) -> Result<Place> {
    let hint =
        format!("write [mcp.upstream.{name}] with `command = [\"program\", \"argument\"]` or `url = \"https://…\"`");
    let Some(table) = value.as_table() else { bail_hinted!("key `mcp.upstream.{name}` must be a table"; "{hint}") };
    if let Some(unknown) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
        bail_hinted!("key `mcp.upstream.{name}.{unknown}` is not known"; "{}", suggestion(unknown, &KEYS));
    }
    let env = match table.get("env") {
        None => Vec::new(),
        Some(_) if table.contains_key("url") => {
            bail_hinted!("key `mcp.upstream.{name}.env` is for a server that is started"; "one that runs has its own")
        }
        Some(env) => variables(&Table::new(format!("mcp.upstream.{name}.env"), env)?, base)?,
    };
    let url = table.get("url").and_then(Value::as_str);
    address::check_keys(name, table, url)?;
    match (table.get("command"), url) {
        (Some(Value::Array(words)), None) if !words.is_empty() => {
            let words: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
            let words = words.ok_or_else(|| hinted!("the words of a command must be strings"; "{hint}"))?;
            Ok(Place::Command(Program { words, env }))
        }
        (None, Some(url)) => {
            Ok(Place::Url(Address::parse(url, &Table::new(format!("mcp.upstream.{name}"), value)?, base)?))
        }
        (Some(Value::String(line)), None) => {
            let split = words(line).unwrap_or_default();
            bail_hinted!("key `mcp.upstream.{name}.command` must be a list of words"; "write it as `command = {split:?}`")
        }
        (Some(_), Some(_)) => bail_hinted!("`{name}` has a `command` and a `url`"; "leave one of them out"),
        _ => bail_hinted!("`{name}` has neither `command` nor `url`"; "{hint}"),
    }
}

/// An upstream from the command line: `name=command …` or `name=https://…`.
pub fn upstream(text: &str) -> Result<(String, Place)> {
    let Some((name, rest)) = text.split_once('=') else {
        bail_hinted!("`{text}` names no upstream"; "write --upstream 'name=command argument …' or --upstream name=https://…");
    };
    let place = if is_url(rest) { Place::Url(Address::new(rest, Files::default())?) } else { command(rest)? };
    Ok((checked(name)?, place))
}

/// A command in one text.
pub fn command(text: &str) -> Result<Place> {
    match words(text) {
        Some(words) if !words.is_empty() => Ok(Place::Command(Program { words, env: Vec::new() })),
        _ => bail_hinted!("`{text}` is not a command"; "close every quote; a program comes first"),
    }
}

/// A name for a server from its command: the first word that names no runner and is no option, without what half of them have in their
/// names. `uvx mcp-server-git --repository .` is `git`.
pub fn derived_name(text: &str) -> Option<String> {
    if is_url(text) {
        return None;
    }
    let words = words(text)?;
    // What a shell or an interpreter runs stands in one word with spaces, and its last part names nothing.
    let words: Vec<String> = words.into_iter().filter(|word| !word.contains(char::is_whitespace)).collect();
    let is_runner = |word: &str| RUNNERS.contains(&word);
    let last = |word: &str| word.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
    let mut names = words.iter().map(|word| last(word)).filter(|word| !word.starts_with('-') && !is_runner(word));
    let name = names.next()?;
    let name = name.split(['@', '=', '.']).find(|part| !part.is_empty())?;
    let is_common = |part: &&str| !["mcp", "server", "modelcontextprotocol"].contains(part);
    let parts: Vec<&str> = name.split(['-', '_']).filter(|part| !part.is_empty()).filter(is_common).collect();
    let name = if parts.is_empty() { name.to_owned() } else { parts.join("-") };
    checked(&name).ok()
}

/// A name that can stand in front of a tool's.
fn checked(name: &str) -> Result<String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    // `a_` and the tool `b` would have the name of `a` and the tool `_b`.
    let is_split = name.contains(SEPARATOR) || name.ends_with('_');
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.bytes().all(known) || is_split {
        bail_hinted!("`{name}` cannot name an upstream"; "up to {NAME_CHARS_MAX} letters, digits, `-` and single `_` inside, such as bank");
    }
    Ok(name.to_owned())
}

/// The words of a command line: split at white space, with single and double quotes and a backslash before one character.
/// Nothing else that a shell does is done.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let (mut word, mut quote) = (None::<String>, None);
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some(open), _) if char == open => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(char),
            (_, '\\') => word.get_or_insert_default().push(chars.next()?),
            (Some(_), _) => word.get_or_insert_default().push(char),
            (None, '\'' | '"') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None, _) if char.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<McpSettings> {
        McpSettings::parse(&Value::Table(toml::from_str(text).expect("is TOML")), Path::new(""))
    }

    #[test]
    fn upstreams_come_from_a_file_or_from_a_flag() {
        let settings = read(concat!(
            "unmapped = \"shadow\"\nsession_idle = \"5m\"\n[upstream.bank]\ncommand = [\"bank\", \"a b\"]\n",
            "[upstream.far]\nurl = \"http://127.0.0.1:1/mcp\""
        ))
        .expect("is right");
        assert_eq!((settings.unmapped, settings.session_idle), (Unmapped::Shadow, Some(Duration::from_secs(300))));
        let bank = upstream("bank=bank 'a b'").expect("is right");
        assert_eq!(settings.upstreams.get(&bank.0), Some(&bank.1));
        let far = upstream("far=http://127.0.0.1:1/mcp").expect("is right");
        assert_eq!(settings.upstreams.get(&far.0), Some(&far.1));
    }

    #[test]
    fn what_is_proposed_for_a_tool_comes_before_what_is_proposed_for_its_server() {
        let settings = read(concat!(
            "[upstream.shop]\nurl = \"http://127.0.0.1:1/mcp\"\nguard = \"as-read\"\n",
            "[upstream.shop.tool.get_clock]\nguard = \"none\"\nreads = true\nignore = [\"/ticks\"]\nonly = [\"/zone\"]\n",
            "[upstream.far]\nurl = \"http://127.0.0.1:1/mcp\"",
        ))
        .expect("is right");
        let shop = settings.proposals.get("shop").expect("proposes");
        assert_eq!((shop.guard_of("sell"), shop.guard_of("get_clock")), (Some(Guard::AsRead), Some(Guard::None)));
        let clock = shop.tools.get("get_clock").expect("proposes");
        assert_eq!(
            (clock.reads, clock.ignore.as_slice(), clock.only.as_slice()),
            (Some(true), ["/ticks".to_owned()].as_slice(), ["/zone".to_owned()].as_slice())
        );
        assert!(!settings.proposals.contains_key("far"), "says nothing");
    }

    #[test]
    fn a_server_is_called_after_its_command() {
        for (text, name) in [
            ("uvx mcp-server-git --repository .", Some("git")),
            ("npx -y @modelcontextprotocol/server-filesystem /tmp", Some("filesystem")),
            ("tools/bin/mcp-server-git", Some("git")),
            ("python3 bank.py", Some("bank")),
            ("python -m mcp_server_time", Some("time")),
            ("mcp", Some("mcp")),
            ("uvx --from", None),
            ("http://127.0.0.1:8000/mcp", None),
        ] {
            assert_eq!(derived_name(text).as_deref(), name, "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_a_hint() {
        for text in [
            "unmaped = \"deny\"",
            "unmapped = \"no\"",
            "session_idle = 30",
            "session_idle = \"10ms\"",
            "allow_methods = \"x/echo\"",
            "allow_methods = [\"tools/call\"]",
            "allow_methods = [\"a b\"]",
            "[upstream.a__b]\ncommand = [\"x\"]",
            "[upstream.a_]\ncommand = [\"x\"]",
            "[upstream.a]\ncommand = []",
            "[upstream.a]\ncommand = [\"x\"]\nurl = \"http://a\"",
            "[upstream.a]\nurl = \"ftp://a\"",
            "[upstream.a]\nurl = \"http://a\"\nca = \"ca.pem\"",
            "[upstream.a]\nurl = \"https://a\"\ncertificate_key = \"a.key\"",
            "[upstream.a]\ncomand = [\"x\"]",
            "[upstream.a]\ncommand = [\"x\"]\nenv = [\"TOKEN\"]",
            "[upstream.a]\ncommand = [\"x\"]\nenv = { TOKEN = { evn = \"TOKEN\" } }",
            "[upstream.a]\nurl = \"http://a\"\nenv = { TOKEN = \"x\" }",
            "[upstream.a]\nurl = \"http://a\"\nguard = \"asread\"",
            "[upstream.a]\nurl = \"http://a\"\ntool = [\"x\"]",
            "[upstream.a]\nurl = \"http://a\"\n[upstream.a.tool.x]\nignore = [\"updated_at\"]",
            "[upstream.a]\nurl = \"http://a\"\n[upstream.a.tool.x]\nignores = [\"/updated_at\"]",
        ] {
            let error = crate::terminal::Report::of_error(&read(text).expect_err(text)).to_string();
            assert!(error.contains("hint: "), "{text}: {error}");
        }
        for text in ["bank", "=x", "a b=x", "a='x", "a="] {
            assert!(upstream(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_command_is_split_as_people_expect() {
        let split = |text: &str| words(text).expect("is closed");
        assert_eq!(split(r#"sh -c 'echo "a b"' x\ y "c \" d" ''"#), ["sh", "-c", "echo \"a b\"", "x y", "c \" d", ""]);
        assert_eq!(words("a \"b"), None);
    }
}
