//! Earlier spellings of commands. None of them works any more; the error names the one that does.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error};

/// Adds the command that was meant to an error, if the command line has an earlier spelling.
pub fn suggest(error: &mut Error, line: &[String]) {
    let Some(instead) = instead(line).filter(|_| error.use_stderr()) else { return };
    let tip = StyledStr::from(format!("did you mean `countersign {instead}`?"));
    error.remove(ContextKind::SuggestedSubcommand);
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
}

/// A trial of a server whose command was written in several words.
fn quoted(words: &[&str]) -> Option<String> {
    let is_plain = |word: &&&str| !word.starts_with('-');
    let first = words.first().filter(|word| is_plain(word))?;
    // What follows may be options of the server's, or of the trial.
    let rest: Vec<&str> = words.iter().skip(1).copied().collect();
    rest.first().filter(|_| !first.contains(' ')).map(|_| format!("mcp try '{first} {}'", rest.join(" ")))
}

/// The command of today for a command line without the program's name.
fn instead(line: &[String]) -> Option<String> {
    let words: Vec<&str> = line.iter().map(String::as_str).skip_while(|word| word.starts_with('-')).collect();
    let (first, rest) = words.split_first()?;
    let next = rest.first().copied().unwrap_or_default();
    let is_given = |flag: &str| rest.iter().any(|word| word.split('=').next() == Some(flag));
    let instead = match *first {
        "halts" => "halt list",
        "resume" => "halt lift",
        "halt" if next.starts_with('-') => "halt add",
        "effects" if ["list", "show", "resolve", "undo"].contains(&next) => return Some(format!("effect {next}")),
        "effects" => "effect list",
        "delegate" => "delegation new",
        "entry" => "ledger show",
        "erase" => "ledger erase",
        "mcp" if next == "try" => return quoted(rest.get(1..).unwrap_or_default()),
        "mcp" if next.starts_with('-') => "mcp serve",
        "verify" if is_given("--key") => "verify --log-key",
        "check" => "act --check",
        _ => return None,
    };
    Some(instead.to_owned())
}
