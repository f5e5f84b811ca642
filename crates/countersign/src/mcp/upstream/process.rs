//! A server that is a program: started here, spoken to in lines over its standard input and output, and ended with everything
//! that it has started.

use super::{Alive, Event, Inlet, MESSAGE_BYTES_MAX};
use crate::adapters::secret::Known;
use crate::mcp::lines::{Line, Lines};
use crate::mcp::message::{Kind, Message, UPSTREAM_FAILED};
use crate::mcp::settings::Program;
use crate::terminal::note;
use countersign_core::call::{Found, FoundCode};
use rustix::process::{Pid, Signal, kill_process_group};
use std::pin::Pin;
use std::process::Stdio;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::AsyncWrite;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

/// How long a program may take to end by itself once its input is closed, and again once it was told to.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// The longest line to stderr that is passed on.
const ERROR_LINE_BYTES_MAX: usize = 64 << 10;

/// How much to stderr is passed on in what time. It goes where the gate's own log goes, and must not fill its disk.
const ERROR_BYTES_MAX: usize = 64 << 10;
const ERRORS_EVERY: Duration = Duration::from_secs(60);

/// How many lines in a row may be no messages before the link is given up: a program that only prints is no server.
const GARBAGE_MAX: u32 = 100;

/// Starts the program, with no more of our environment than it needs. It gets a process group of its own, by which it is ended.
pub(super) fn open(
    program: &Program,
    messages: mpsc::Receiver<Message>,
    inlet: Inlet,
    alive: Alive,
) -> Result<(), Found> {
    let mut known = Known::default();
    program.secrets(&mut known);
    let environment = program.environment().map_err(|error| {
        tracing::warn!(%error, "the environment of an upstream cannot be read");
        FoundCode::NoEnvironment.alone()
    })?;
    let (program, arguments) = program.words.split_first().ok_or_else(|| FoundCode::NoProgram.alone())?;
    let started = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut child = started.map_err(|error| FoundCode::NotStarted.about(program).and_said(error))?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(FoundCode::NotStarted.about(program));
    };
    let said = child.stderr.take().map(|errors| tokio::spawn(pass_on(errors, inlet.clone(), known.clone())));
    tokio::spawn(async move {
        let mut input = input;
        let (why, is_stuck) = relay(&mut input, output, messages, &inlet, &known).await;
        if is_stuck {
            // Before its input is closed: half a line must not become a whole one, nor one that the end of the input completes.
            kill_group(group(&child), Signal::KILL);
        }
        drop(input);
        // Told first: anyone who waits for an answer need not wait until the program is gone.
        inlet.put(Event::Ended(why)).await;
        end(child).await;
        if let Some(said) = said {
            // Its last words say why it ended; what has left its process group may hold the pipe forever.
            let _ = tokio::time::timeout(ENDS_WITHIN, said).await;
        }
        drop(alive);
    });
    Ok(())
}

/// Why nothing more is written.
enum Written {
    /// There is nothing more to write.
    All,
    /// The program has closed its input.
    Closed,
    /// The program does not read, and what it was being sent must not be sent any more.
    Stuck,
}

/// What became of a line.
enum Sent {
    /// It was written.
    Whole,
    /// Nothing of it was written, for this reason.
    Held(Found),
    /// The program has closed its input.
    Closed,
    /// Some of it may have been written, and the rest must not be any more.
    Half,
}

/// Writes a line. Asked before each piece, whenever the program has made room for one, is whether it may still leave.
async fn write(input: &mut (impl AsyncWrite + Unpin), line: &[u8], held_back: impl Fn() -> Option<Found>) -> Sent {
    let mut rest = line;
    while !rest.is_empty() {
        let piece = std::future::poll_fn(|context| match held_back() {
            Some(why) => Poll::Ready(Err(why)),
            None => Pin::new(&mut *input).poll_write(context, rest).map(Ok),
        });
        match piece.await {
            Ok(Ok(written)) if written > 0 => rest = rest.get(written..).unwrap_or_default(),
            Ok(_) => return Sent::Closed,
            Err(why) if rest.len() == line.len() => return Sent::Held(why),
            Err(_) => return Sent::Half,
        }
    }
    Sent::Whole
}

/// Carries messages both ways until one side is closed; says why, and whether the program holds half a message.
async fn relay(
    input: &mut ChildStdin,
    output: ChildStdout,
    mut messages: mpsc::Receiver<Message>,
    inlet: &Inlet,
    known: &Known,
) -> (Found, bool) {
    let incoming = incoming(output, inlet, known);
    let outgoing = async {
        while let Some(message) = messages.recv().await {
            let mut line = message.line();
            line.push('\n');
            let _held = message.held.clone();
            let write = write(input, line.as_bytes(), || message.held_back());
            let written = match message.not_after {
                Some(not_after) => tokio::time::timeout_at(not_after.into(), write).await.unwrap_or(Sent::Half),
                None => write.await,
            };
            match written {
                Sent::Whole => {}
                Sent::Held(why) => {
                    if let Some(answer) = message.not_sent(why) {
                        inlet.put(Event::Message(answer)).await;
                    }
                }
                Sent::Closed => return Written::Closed,
                Sent::Half => return Written::Stuck,
            }
        }
        Written::All
    };
    tokio::pin!(incoming);
    tokio::select! {
        why = &mut incoming => (why, false),
        // Also where the program reads nothing, so that a write to it never ends.
        () = inlet.closed() => (FoundCode::ClosedHere.alone(), false),
        written = outgoing => match written {
            Written::All => (FoundCode::ClosedHere.alone(), false),
            // What it still has to say is read until it closes its output.
            Written::Closed => (incoming.await, false),
            Written::Stuck => (FoundCode::RequestUnread.alone(), true),
        },
    }
}

async fn incoming(output: ChildStdout, inlet: &Inlet, known: &Known) -> Found {
    let mut lines = Lines::new(output, MESSAGE_BYTES_MAX);
    let mut garbage = 0;
    loop {
        let mut held = inlet.nothing();
        let message = match lines.next(&mut held).await {
            Ok(Some(Line::Text(line))) if line.trim().is_empty() => continue,
            Ok(Some(Line::Text(line))) => match held.parse(&line) {
                Ok(Ok(message)) if inlet.hides_secrets && known.is_in(&line) => {
                    Ok(without_secrets(message, line, known))
                }
                Ok(message) => message.map_err(|error| error.to_string()),
                Err(full) => return full.found(),
            },
            Ok(Some(Line::NotText)) => Err("not UTF-8".to_owned()),
            Ok(Some(Line::NoRoom(full))) => return full.found(),
            Ok(Some(Line::TooLong)) => return FoundCode::AnswerTooLong.number(MESSAGE_BYTES_MAX),
            Ok(None) => return FoundCode::OutputClosed.alone(),
            Err(error) => return FoundCode::OutputUnreadable.said(error),
        };
        match message {
            Ok(message) => {
                garbage = 0;
                if !inlet.put(Event::Message(message)).await {
                    return FoundCode::ClosedHere.alone();
                }
            }
            Err(why) => {
                garbage += 1;
                tracing::warn!(why, "an upstream wrote a line that is no message; it is passed over");
                if garbage >= GARBAGE_MAX {
                    return FoundCode::NoMessages.number(GARBAGE_MAX);
                }
            }
        }
    }
}

fn group(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| Pid::from_raw(id.cast_signed()))
}

fn kill_group(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // A group that is gone already is what was wanted.
        let _ = kill_process_group(group, signal);
    }
}

/// A message without the secrets that the program was started with. One that cannot do without them says that instead.
fn without_secrets(message: Message, line: String, known: &Known) -> Message {
    match (Message::parse(&known.hide(line)), message.id()) {
        (Ok(mut hidden), _) => {
            hidden.held.clone_from(&message.held);
            hidden
        }
        (Err(_), Some(id)) if message.kind() == Kind::Response => {
            Message::unanswered(id, UPSTREAM_FAILED, FoundCode::HoldsSecret.alone())
        }
        (Err(_), _) => Message::notification("notifications/message", None),
    }
}

/// How much of what a program says to people is passed on in a minute.
struct Allowance {
    since: Instant,
    bytes: usize,
    left_out: usize,
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self { since: now, bytes: 0, left_out: 0 }
    }

    /// What is passed on for a line: nothing where there was too much of it, and a word about that when there is room again.
    fn lines(&mut self, line: String, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        if now.duration_since(self.since) >= ERRORS_EVERY {
            lines.extend(self.left_out());
            *self = Self::new(now);
        }
        if self.bytes + line.len() > ERROR_BYTES_MAX {
            self.left_out += line.len();
        } else {
            self.bytes += line.len();
            lines.push(line);
        }
        lines
    }

    fn left_out(&self) -> Option<String> {
        (self.left_out > 0).then(|| format!("({} bytes of what it said were left out)", self.left_out))
    }
}

/// Passes on what a program says to people, as a terminal may be given it: under its name, without secrets, and not without end.
async fn pass_on(errors: ChildStderr, inlet: Inlet, known: Known) {
    let mut lines = Lines::new(errors, ERROR_LINE_BYTES_MAX);
    let mut allowance = Allowance::new(Instant::now());
    let name = &inlet.name;
    loop {
        let line = match lines.next(&mut inlet.nothing()).await {
            Ok(Some(Line::Text(line))) => known.hide(line.trim_end_matches(['\r', '\n']).to_owned()),
            Ok(Some(Line::NotText)) => "(a line that is not UTF-8)".to_owned(),
            // Read on, so that the program does not wait for room in the pipe.
            Ok(Some(Line::TooLong | Line::NoRoom(_))) => "(a line that is too long)".to_owned(),
            Ok(None) | Err(_) => break,
        };
        allowance.lines(line, Instant::now()).iter().for_each(|line| note(format!("{name}: {line}")));
    }
    allowance.left_out().iter().for_each(|line| note(format!("{name}: {line}")));
}

/// Ends a program whose input has been closed: waits, tells it, kills it; with everything in its process group.
async fn end(mut child: Child) {
    let group = group(&child);
    let signal = |signal| kill_group(group, signal);
    for with in [Signal::TERM, Signal::KILL] {
        if tokio::time::timeout(ENDS_WITHIN, child.wait()).await.is_ok() {
            break;
        }
        signal(with);
    }
    // The program itself is gone, or was just killed; what it has started may not be.
    signal(Signal::KILL);
    if let Err(error) = child.wait().await {
        tracing::warn!(%error, "an upstream could not be waited for");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn a_server_says_more_to_people_than_they_can_keep() {
        let begun = Instant::now();
        let mut allowance = Allowance::new(begun);
        let line = "y".repeat(40 << 10);
        let kept: Vec<usize> = (0..100).map(|_| allowance.lines(line.clone(), begun).len()).collect();
        assert_eq!(kept.iter().sum::<usize>(), 1, "in one minute");
        let lines = allowance.lines("later".to_owned(), begun + ERRORS_EVERY);
        let left_out = 99 * line.len();
        assert_eq!(lines, [format!("({left_out} bytes of what it said were left out)"), "later".to_owned()]);
    }

    #[tokio::test]
    async fn a_line_that_waits_for_a_program_to_read_is_not_written_after_a_halt() {
        let (mut input, mut program) = tokio::io::duplex(8);
        input.write_all(b"12345678").await.expect("there is room");
        let (halted, asked) = (Cell::new(false), Cell::new(0));
        let held_back = || {
            asked.set(asked.get() + 1);
            halted.get().then(|| FoundCode::Stopped.about("halted"))
        };
        let reading = async {
            while asked.get() == 0 {
                tokio::task::yield_now().await;
            }
            halted.set(true);
            let mut read = [0; 8];
            program.read_exact(&mut read).await.expect("is there");
        };
        let (sent, ()) = tokio::join!(write(&mut input, b"transfer\n", held_back), reading);
        assert!(matches!(sent, Sent::Held(why) if why.why() == "halted"));
        drop(input);
        let mut rest = Vec::new();
        program.read_to_end(&mut rest).await.expect("ends");
        assert_eq!(rest, b"", "nothing of it was written");
    }
}
