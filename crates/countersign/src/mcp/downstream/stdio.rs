//! One client over standard input and output, a message a line. Nothing else is written to standard output.
//!
//! Both are read and written on threads of their own, because neither can be waited for without holding one.

use super::MESSAGE_BYTES_MAX;
use crate::mcp::Gateway;
use crate::mcp::buffers::{Buffers, Full};
use crate::mcp::delivery::arrivals::Input;
use crate::mcp::message::{INVALID_REQUEST, Message, NOT_SENT, PARSE_ERROR};
use crate::mcp::session::{Ends, Session};
use crate::mcp::upstream::Alive;
use serde_json::value::RawValue;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Serves the client until it closes its side and is answered, or until this process is told to end: its client has not said that it is
/// done then, and may go on with what it has read, so its session is not closed and the next gateway goes on in it.
pub async fn serve(gateway: &Arc<Gateway>, alive: &Alive, told: impl Future<Output = ()>) -> std::io::Result<()> {
    let (seen, input) = (gateway.gate.seen_over_stdio(), Arc::new(Input::default()));
    seen.session.is_over(&input);
    let (began, before) = (Arc::clone(gateway), Arc::clone(&seen));
    tokio::task::spawn_blocking(move || began.gate.take_over(&before));
    let Ends { inbox, outbox, cut_off } = Session::start_having_seen(gateway, alive, seen);
    let (done, mut written) = oneshot::channel();
    let (reads, all_read) = oneshot::channel::<()>();
    let buffers = Arc::clone(&gateway.buffers);
    // Nothing ends a read of standard input that waits, so the thread that reads must not keep the session open.
    let weak = inbox.downgrade();
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        read(&weak, &buffers, &input);
        drop(reads);
    })?;
    std::thread::Builder::new().name("stdout".to_owned()).spawn(move || {
        // Anyone who has stopped waiting needs no word of it.
        let _ = done.send(write_all(outbox));
    })?;
    tokio::select! {
        _ = all_read => {}
        () = told => {
            cut_off.abort();
            return Ok(());
        }
        written = &mut written => {
            // Who does not read any more was cut off, and has not said that it is done.
            tokio::spawn(async move { inbox.closed().await });
            return written.unwrap_or(Ok(()));
        }
    }
    drop(inbox);
    written.await.unwrap_or(Ok(()))
}

fn write_all(mut outbox: mpsc::Receiver<Message>) -> std::io::Result<()> {
    while let Some(message) = outbox.blocking_recv() {
        write(&message)?;
    }
    Ok(())
}

fn write(message: &Message) -> std::io::Result<()> {
    let mut line = message.line();
    line.push('\n');
    let mut output = std::io::stdout().lock();
    message.delivery.iter().for_each(|delivery| delivery.made());
    output.write_all(line.as_bytes())?;
    output.flush()
}

/// What is answered to a message that there is no room for.
fn not_taken(message: &Message, full: &Full) -> Message {
    Message::error(message.id().unwrap_or(RawValue::NULL), NOT_SENT, &full.to_string())
}

/// Reads messages until the client closes its side; what is none is answered with an error.
#[expect(clippy::result_large_err, reason = "the error is the answer, and goes on as it is")]
fn read(inbox: &mpsc::WeakSender<Message>, buffers: &Arc<Buffers>, input: &Input) {
    let most = u64::try_from(MESSAGE_BYTES_MAX).unwrap_or(u64::MAX);
    let mut input = BufReader::new(input);
    let mut end = 0;
    loop {
        let (mut line, place) = (Vec::new(), end);
        match input.by_ref().take(most).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(count) => end += u64::try_from(count).unwrap_or(u64::MAX),
        }
        let whole = line.last() == Some(&b'\n') || line.len() < MESSAGE_BYTES_MAX;
        let refused = |code, why: &str| Err(Message::error(RawValue::NULL, code, why));
        let parsed = match std::str::from_utf8(&line) {
            _ if !whole => {
                refused(INVALID_REQUEST, &format!("more than {MESSAGE_BYTES_MAX} bytes; nothing after it is read"))
            }
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => Message::parse_from_client(text).map_err(|error| error.answer()),
            Err(_) => refused(PARSE_ERROR, "not UTF-8"),
        };
        let parsed = parsed.and_then(|mut message| {
            let mut held = buffers.nothing();
            held.grow_to(line.len()).map_err(|full| not_taken(&message, &full))?;
            (message.held, message.place) = (Some(held), place);
            Ok(message)
        });
        let gone_on = match parsed {
            Ok(message) => inbox.upgrade().is_some_and(|inbox| inbox.blocking_send(message).is_ok()),
            Err(answer) => write(&answer).is_ok() && whole,
        };
        if !gone_on {
            return;
        }
    }
}
