//! Servers behind the gateway: a link to one, whatever it is spoken to over.
//!
//! Every session has links of its own, so what a server keeps for a client (log level, subscriptions, questions back) is kept
//! for that client and no one else. A link ends when its sender is dropped, and nothing of it stays behind.

mod http;
mod process;

use super::buffers::{Buffers, Held};
use super::message::Message;
use super::settings::Place;
use countersign_core::call::Found;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// How many messages may wait on a link in each direction.
const WAITING_MAX: usize = 256;

/// The largest message of a server that is accepted. Results larger than this end the link: no one should have to hold them.
pub const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// What comes from a link.
#[derive(Debug)]
pub enum Event {
    Message(Message),
    /// The link has ended, for this reason; nothing more comes.
    Ended(Found),
}

/// Where the events of many links come together: the link's number, which time it was opened, and what came.
#[derive(Debug, Clone)]
pub struct Inlet {
    /// The server's name, for people.
    name: Arc<str>,
    /// Whether secrets that the server was given are taken out of what it says.
    hides_secrets: bool,
    link: usize,
    generation: u64,
    buffers: Arc<Buffers>,
    events: mpsc::Sender<(usize, u64, Event)>,
}

impl Inlet {
    /// For a link with this number, opened for this time; what it says takes room here.
    pub fn new(
        name: &str,
        (link, generation): (usize, u64),
        buffers: Arc<Buffers>,
        events: mpsc::Sender<(usize, u64, Event)>,
    ) -> Self {
        Self { name: name.into(), hides_secrets: false, link, generation, buffers, events }
    }

    /// The same, for what goes on to a client.
    pub fn hiding_secrets(self) -> Self {
        Self { hides_secrets: true, ..self }
    }

    /// What the next message is held by.
    pub(super) fn nothing(&self) -> Held {
        self.buffers.nothing()
    }

    /// Hands an event on; `false` where no one listens any more.
    pub(super) async fn put(&self, event: Event) -> bool {
        self.events.send((self.link, self.generation, event)).await.is_ok()
    }

    /// Done when no one listens any more.
    pub(super) async fn closed(&self) {
        self.events.closed().await;
    }
}

/// Held by whatever must end before the gateway may: it waits until all are dropped.
#[derive(Debug, Clone)]
pub struct Alive {
    _held: Arc<Holds>,
}

#[derive(Debug)]
enum Holds {
    Waited(#[expect(dead_code, reason = "dropping it is what it is for")] mpsc::Sender<()>),
    Counted(#[expect(dead_code, reason = "dropping it is what it is for")] OwnedSemaphorePermit),
}

impl Alive {
    /// One, and what to wait on.
    pub fn new() -> (Self, mpsc::Receiver<()>) {
        let (held, all_dropped) = mpsc::channel(1);
        (Self { _held: Arc::new(Holds::Waited(held)) }, all_dropped)
    }

    /// One that nothing waits for, and that takes a place until it ends.
    pub fn counted(place: OwnedSemaphorePermit) -> Self {
        Self { _held: Arc::new(Holds::Counted(place)) }
    }
}

/// Opens a link. What is sent to the server goes into the sender; the link ends when that is dropped.
pub fn open(place: &Place, inlet: Inlet, alive: Alive) -> Result<mpsc::Sender<Message>, Found> {
    let (outgoing, messages) = mpsc::channel(WAITING_MAX);
    match place {
        Place::Command(program) => process::open(program, messages, inlet, alive)?,
        Place::Url(address) => http::open(address, messages, inlet, alive)?,
    }
    Ok(outgoing)
}
