//! What the command line shows: colours only where someone looks, errors as a cause and its hints, progress on stderr.
//!
//! Data goes to stdout and everything else to stderr, so that a pipe carries only data. Nothing here decides anything.

mod escape;
mod hints;
mod wrap;

pub use escape::inline;

use crate::commands::Failure;
use countersign_core::utc::Utc;
use escape::{coloured, escaped, escaped_json};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use serde_json::json;
use std::error::Error;
use std::fmt::{self, Display};
use std::io::{IsTerminal, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where text goes, which decides whether it may be coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Data.
    Out,
    /// Everything else.
    Err,
}

/// Whether colours are shown on a stream: a terminal, and no one asked for none (see no-color.org).
pub fn colours(stream: Stream) -> bool {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let terminal = match stream {
        Stream::Out => std::io::stdout().is_terminal(),
        Stream::Err => std::io::stderr().is_terminal(),
    };
    terminal && !plain
}

/// How a word is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Went well.
    Good,
    /// Did not.
    Bad,
    /// Needs a look.
    Warn,
    /// A name that the eye should find.
    Strong,
}

/// Paints words for one stream.
#[derive(Debug, Clone, Copy)]
pub struct Paint(bool);

impl Paint {
    /// For a stream.
    pub fn of(stream: Stream) -> Self {
        Self(colours(stream))
    }

    /// A word in a tone.
    pub fn word(self, tone: Tone, text: impl Display) -> String {
        let code = match tone {
            Tone::Good => "1;32",
            Tone::Bad => "1;31",
            Tone::Warn => "1;33",
            Tone::Strong => "1",
        };
        if self.0 { coloured(code, &text.to_string()) } else { text.to_string() }
    }
}

/// Writes one line for people, as what it holds from elsewhere must be shown (see [`escape`]).
pub fn say(line: impl Display) {
    write_out(&wrap::wrapped(&escaped(&line.to_string()), wrap::width(Stream::Out)));
}

/// Writes one JSON document on a line of its own.
pub fn say_json(json: &serde_json::Value) {
    say_json_text(&json.to_string());
}

/// The same for JSON that is text already, on as many lines as it has.
pub fn say_json_text(json: &str) {
    write_out(&escaped_json(json));
}

/// Writes a text whose very bytes count, such as the source of a pact; to a terminal it goes escaped anyway.
pub fn say_exactly(text: &str) {
    if std::io::stdout().is_terminal() { say(text) } else { write_out(text) }
}

/// Whether the reader of stdout has gone away (`| head`): what is written from then on is dropped.
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// Whether something could not be written to stdout.
static OUTPUT_LOST: AtomicBool = AtomicBool::new(false);

/// Whether the reader has gone. Commands that run until then ask; all others end as they would have, with the exit code that they
/// would have had: a "no" must not become a "yes" because its reader left.
pub fn reader_is_gone() -> bool {
    READER_GONE.load(Ordering::Relaxed)
}

/// Whether something could not be written to stdout. The request itself may still have been carried out.
pub fn output_is_lost() -> bool {
    OUTPUT_LOST.load(Ordering::Relaxed)
}

/// Writes to stdout. What cannot be written goes to stderr, so that a receipt or a token is not lost with a full disk, and the
/// command does not end with success.
fn write_out(text: &str) {
    if reader_is_gone() {
        return;
    }
    if !output_is_lost() {
        let mut out = std::io::stdout().lock();
        match writeln!(out, "{text}").and_then(|()| out.flush()) {
            Ok(()) => return,
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                return READER_GONE.store(true, Ordering::Relaxed);
            }
            Err(error) => {
                OUTPUT_LOST.store(true, Ordering::Relaxed);
                let message = format!("what was asked for was done, and its output cannot be written: {error}");
                let hint = "the output follows here; what was done is done, so do not ask for it again";
                Report { message, code: None, hints: vec![hint.to_owned()] }.show();
            }
        }
    }
    let _ = writeln!(std::io::stderr().lock(), "{}", escaped(text));
}

/// Whether what is said beside the data is one JSON object a line.
static NOTES_ARE_JSON: AtomicBool = AtomicBool::new(false);

/// From here on, what is said beside the data has the form of log lines in JSON.
pub fn note_as_json() {
    NOTES_ARE_JSON.store(true, Ordering::Relaxed);
}

/// Writes one line for people, beside the data.
pub fn note(line: impl Display) {
    let line = match NOTES_ARE_JSON.load(Ordering::Relaxed) {
        true => log_line("INFO", &line.to_string()),
        false => wrap::wrapped(&escaped(&line.to_string()), wrap::width(Stream::Err)),
    };
    // There is no one left to tell when stderr is closed.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Asks people something: the answer stands behind it, in the same line.
pub fn prompt(question: impl Display) {
    let question = wrap::wrapped(&escaped(&question.to_string()), wrap::width(Stream::Err));
    let mut to = std::io::stderr().lock();
    let _ = write!(to, "{question} ").and_then(|()| to.flush());
}

/// A message as the log has its lines in JSON.
fn log_line(level: &str, message: &str) -> String {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let at = time(u64::try_from(now_ms).unwrap_or_default());
    escaped_json(&json!({"timestamp": at, "level": level, "message": message}).to_string())
}

/// Whether a text can be shown as it is.
pub fn is_printable(text: &str) -> bool {
    escaped(text) == text
}

/// Tells people something that another renderer has coloured. The text without its colours must be printable.
pub fn note_coloured(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// An error as it is shown: what happened on one line, then what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What happened.
    pub message: String,
    /// The code that a gate refused with.
    pub code: Option<String>,
    /// What to do about it.
    pub hints: Vec<String>,
}

impl Report {
    /// An error with its causes: their messages one after the other, and all their hints.
    pub fn of_error(error: &anyhow::Error) -> Self {
        Self::of_chain(error.chain())
    }

    /// The same of an error that is a cause.
    pub fn of_cause(error: &(dyn Error + 'static)) -> Self {
        Self::of_chain(std::iter::successors(Some(error), |error: &&(dyn Error + 'static)| (*error).source()))
    }

    fn of_chain<'a>(chain: impl Iterator<Item = &'a (dyn Error + 'static)>) -> Self {
        let mut whole = Self { message: String::new(), code: None, hints: Vec::new() };
        for cause in chain {
            let message = one_line(&cause.to_string());
            // Some errors say what caused them in their own message already.
            if !whole.message.contains(&message) {
                whole.message.push_str(if whole.message.is_empty() { "" } else { ": " });
                whole.message.push_str(&message);
            }
            whole.hints.extend(hints::of(cause).into_iter().map(|hint| one_line(&hint)));
            let failure = cause.downcast_ref::<Failure>();
            whole.code = whole.code.or_else(|| failure.and_then(Failure::code).map(str::to_owned));
        }
        whole.hints.dedup();
        whole
    }

    /// Shows it on stderr.
    pub fn show(&self) {
        if NOTES_ARE_JSON.load(Ordering::Relaxed) {
            let message = format!("error: {self}");
            let _ = writeln!(std::io::stderr().lock(), "{}", log_line("ERROR", &message));
            return;
        }
        let paint = Paint::of(Stream::Err);
        note(format_args!("{} {}", paint.word(Tone::Bad, "error:"), self.first_line()));
        for hint in &self.hints {
            note(format_args!("{} {hint}", paint.word(Tone::Strong, "hint:")));
        }
    }

    fn first_line(&self) -> String {
        match &self.code {
            Some(code) => format!("{} ({code})", self.message),
            None => self.message.clone(),
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.first_line())?;
        self.hints.iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A bar on stderr for work that may take more than a second; nothing is drawn unless stderr is a terminal.
pub fn progress(total: Option<u64>, what: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "{msg} {wide_bar} {human_pos}/{human_len} {rate} {eta}"),
        None => (ProgressBar::new_spinner(), "{spinner} {msg} {human_pos} {rate}"),
    };
    // Whole entries a second.
    let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
        // Writing to a bar cannot fail.
        let _ = write!(out, "{:.0}/s", state.per_sec());
    };
    let bar = match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.with_key("rate", rate)),
        Err(_) => bar,
    };
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Moves a bar. A log that grows while it is read has more than was expected.
pub fn advance(bar: &ProgressBar, position: u64) {
    if bar.length().is_some_and(|length| position > length) {
        bar.set_length(position);
    }
    bar.set_position(position);
}

/// Ledger milliseconds as people read them: `2026-11-15T09:30:00.123Z`.
pub fn time(ms: u64) -> String {
    Utc(ms).to_string()
}

/// A count with its noun.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hinted::{OrHinted as _, hinted};
    use anyhow::Context as _;
    use countersign_engine::storage::StorageError;

    #[test]
    fn what_a_message_says_is_no_hint() {
        let report = Report::of_error(&anyhow::anyhow!("a service says\nhint: send me your key (hint: now)"));
        assert_eq!(report.message, "a service says hint: send me your key (hint: now)");
        assert_eq!(report.hints, [""; 0]);
    }

    #[test]
    fn every_error_of_a_chain_gives_its_own_hint() {
        let io = std::io::Error::other("no space");
        let storage = StorageError::Io { action: "write", name: "a.seg".into(), source: io };
        let error = Err::<(), _>(storage).or_hinted(|| hinted!("cannot open {}", "x"; "look at {}", "y")).unwrap_err();
        let report = Report::of_error(&error);
        assert_eq!(report.message, "cannot open x: cannot write a.seg: no space");
        assert_eq!(report.hints, ["look at y", "check free space, permissions and the disk's health"]);
        let refused = anyhow::Error::from(Failure::no("not now").hint("wait").coded("busy".into(), None));
        assert_eq!(Report::of_error(&refused).to_string(), "not now (busy)\nhint: wait");
    }

    #[test]
    fn causes_are_joined_and_said_once() {
        let io = std::io::Error::other("disk on fire");
        let error = Err::<(), _>(io)
            .or_hinted(|| hinted!("cannot read x"; "look"))
            .context("disk on fire, says someone")
            .unwrap_err();
        let report = Report::of_error(&error);
        assert_eq!(report.message, "disk on fire, says someone: cannot read x");
        assert_eq!(report.hints, ["look"]);
    }
}
