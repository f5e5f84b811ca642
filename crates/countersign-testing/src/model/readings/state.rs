//! A state of the model: the servers, the sessions as the gate has them, the clients with their gateway, and the writes.

use super::config::Config;

/// Everything at one instant. A value names who wrote it: 0 was there at first, the writes follow, then strangers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// What each place holds.
    pub server: [u8; 2],
    /// What each session has of each place.
    pub sessions: [[Option<Held>; 2]; 2],
    pub clients: [Client; 2],
    pub writes: [Write; 3],
    /// How many changes past the gate are left.
    pub strangers: u8,
    /// How many answers may still be lost.
    pub losses: u8,
    /// How many crashes are left.
    pub crashes: u8,
    /// How many kills of a gateway are left.
    pub kills: u8,
}

/// A reading as a session has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Held {
    /// Counts up.
    pub version: u8,
    /// What was read.
    pub value: u8,
    /// What the version before held.
    pub before: Option<u8>,
    /// How many versions right before this one held the same.
    pub same: u8,
}

/// A client, and what its gateway remembers of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client {
    /// The read of each place that is under way.
    pub reads: [Read; 2],
    /// How many reads are left.
    pub left: [u8; 2],
    /// What the client knows of each place: the newest version that reached it. Answers name their entry, so it can tell.
    pub knows: [Option<(u8, u8)>; 2],
    /// How many answers about each place were lost since one that was asked for later arrived.
    pub lost: [u8; 2],
    /// What a gateway that was killed had asked for, and the gate has not entered.
    pub left_behind: [Option<Read>; 2],
    /// How many of them were lost before the read that is under way was asked for.
    pub lost_before: [u8; 2],
}

/// A read of one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Read {
    /// There is none.
    None,
    /// It arrived at the gateway when these writes of its client, as bits, were not over.
    Asked(u8),
    /// The server has answered, and it is not entered yet.
    Answered(u8),
    /// It is entered, and on its way to the client.
    Entered(u8, u8),
}

/// How far a write is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Not sent.
    New,
    /// On its way to the gateway.
    Piped,
    /// The gateway has it.
    Arrived,
    /// Its intent is entered.
    Intended,
    /// It has its turn, and reads again.
    Turn,
    /// Its dispatch is entered, and its request sent.
    Sent,
    /// The server's answer has reached the worker.
    Answered,
    /// What it may have changed was read once more.
    Refreshed,
    /// A crash interrupted it after its dispatch.
    Cut,
    /// No one knows.
    InDoubt,
    /// It was done.
    Settled,
    /// It was not done.
    Failed,
    /// A reading differs.
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Write {
    /// How far it is.
    pub phase: Phase,
    /// What its client knew when it sent it, of what it rests on. Kept for the properties only.
    pub basis: [Option<u8>; 2],
    /// How many answers about each place may not have reached the client.
    pub unsure: [u8; 2],
    /// Writes of its client that were not over when it arrived, as bits: it is passed on after them.
    pub after: u8,
    /// Writes of its client whose results had not arrived then.
    pub untold: u8,
    /// The versions that its intent notes.
    pub rests_on: [Option<u8>; 2],
    /// What was read again.
    pub reread: [Option<u8>; 2],
    /// What was read after the call.
    pub refreshed: [Option<u8>; 2],
    /// What its result tells: the version, the value, and the value that it is told to differ from.
    pub told: [Option<(u8, u8, u8)>; 2],
    /// Whether its result is on its way to the client.
    pub result: bool,
    /// Whether the gateway that asked for it was killed: its result reaches no one.
    pub left_behind: bool,
    /// Whether its turn is held.
    pub turn: bool,
    /// Whether its request is on its way to the server.
    pub request: bool,
    /// Whether the server did it.
    pub done: bool,
    /// Whether it says that it was made beside a call in doubt.
    pub beside: bool,
    /// The places that a stranger changed after they were read again. For the properties only.
    pub touched: [bool; 2],
    /// Whether it was done on a reading that had changed, and nothing excuses it. For the properties only.
    pub stale: bool,
    /// Whether its result tells what another changed as its own. For the properties only.
    pub claims_others: bool,
    /// Whether it was done after its turn was given back. For the properties only.
    pub was_late: bool,
}

impl State {
    pub(super) fn new(config: &Config) -> Self {
        let client = |left| Client {
            reads: [Read::None; 2],
            left,
            knows: [None; 2],
            lost: [0; 2],
            left_behind: [None; 2],
            lost_before: [0; 2],
        };
        Self {
            server: [0; 2],
            sessions: [[None; 2]; 2],
            clients: config.reads.map(client),
            writes: [Write::new(); 3],
            strangers: config.strangers,
            losses: config.losses,
            crashes: config.crashes,
            kills: config.kills,
        }
    }

    /// Keeps what was read in a session; gives its version.
    pub(super) fn keep(&mut self, session: usize, place: usize, value: u8) -> u8 {
        let held = &mut self.sessions[session][place];
        let version = held.map_or(1, |held| held.version + 1);
        let same = held.filter(|held| held.value == value).map_or(0, |held| held.same + 1);
        *held = Some(Held { version, value, before: held.map(|held| held.value), same });
        version
    }
}

impl Write {
    fn new() -> Self {
        Self {
            phase: Phase::New,
            basis: [None; 2],
            unsure: [0; 2],
            after: 0,
            untold: 0,
            rests_on: [None; 2],
            reread: [None; 2],
            refreshed: [None; 2],
            told: [None; 2],
            result: false,
            left_behind: false,
            turn: false,
            request: false,
            done: false,
            beside: false,
            touched: [false; 2],
            stale: false,
            claims_others: false,
            was_late: false,
        }
    }

    /// Whether the gateway has it, and no result yet.
    pub(super) fn is_open(&self) -> bool {
        use Phase::{Answered, Arrived, Cut, Intended, Refreshed, Sent, Turn};
        matches!(self.phase, Arrived | Intended | Turn | Sent | Answered | Refreshed | Cut)
    }
}

impl Client {
    /// An answer reaches the client.
    pub(super) fn learn(&mut self, place: usize, version: u8, value: u8) {
        if self.knows[place].is_none_or(|(known, _)| known < version) {
            self.knows[place] = Some((version, value));
        }
    }

    /// The read of a place is over; where its answer arrived, what was lost before it was asked for matters no more.
    pub(super) fn end_read(&mut self, place: usize, has_arrived: bool) {
        if has_arrived {
            self.lost[place] -= self.lost_before[place];
        }
        (self.reads[place], self.lost_before[place]) = (Read::None, 0);
    }
}
