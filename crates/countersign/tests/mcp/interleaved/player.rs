//! An agent with a gateway of its own, which notes what it was told and what it wrote on the strength of it.

use super::board::{Board, PLACES};
use crate::mcp::client::Stdio;
use countersign_testing::checker::serial::{self, Places};
use countersign_testing::disk::SplitMix;
use serde_json::{Value, json};
use std::time::Duration;

/// How long an agent thinks at most.
const THINKS_US: u64 = 2000;
/// How often a refused write is made again in one turn.
const TRIES: usize = 3;

/// A write, and whether it was carried out.
#[derive(Debug)]
pub struct Wrote {
    pub wrote: serial::Wrote,
    pub is_committed: bool,
}

/// An agent.
pub struct Player<'a> {
    name: String,
    board: &'a Board,
    /// None only while its gateway is killed and another one started.
    client: Option<Stdio>,
    /// The places that it looks at.
    own: [&'static str; 2],
    knows: Places,
    written: u64,
    /// What a refusal said has to be read again.
    to_read: Vec<&'static str>,
}

/// How seldom its gateway is killed before it does something.
const KILLED_ONE_IN: u64 = 40;

/// What is sent, and what was known then.
enum Sent {
    Look(&'static str),
    Put(serial::Wrote),
}

impl<'a> Player<'a> {
    /// Begins with a look.
    pub fn start(board: &'a Board, number: usize) -> Self {
        let own = [PLACES[number % PLACES.len()], PLACES[(number + 1) % PLACES.len()]];
        let mut player = Self {
            name: format!("agent {number}"),
            board,
            client: Some(board.client()),
            own,
            knows: Places::new(),
            written: 0,
            to_read: Vec::new(),
        };
        // From here on it has a session, and does not take that of one whose gateway is killed.
        player.at_once(&[Some(own[0])]);
        player
    }

    /// Does something: looks, writes until it is not refused, sends two things at once, or loses its gateway.
    pub fn turn(&mut self, seed: u64) -> Vec<Wrote> {
        let mut rng = SplitMix::new(seed);
        std::thread::sleep(Duration::from_micros(rng.below(THINKS_US)));
        let place = self.own[usize::from(rng.below(2) == 1)];
        if rng.below(KILLED_ONE_IN) == 0 {
            self.killed((rng.below(2) == 1).then_some(place));
        }
        match rng.below(8) {
            0 | 1 => self.at_once(&[Some(place)]),
            // A look before a write, without waiting for what it shows.
            2 => self.at_once(&[Some(place), None]),
            3 => self.at_once(&[None, None]),
            _ => {
                let mut wrote = Vec::new();
                for _ in 0..TRIES {
                    wrote.extend(self.at_once(&[None]));
                    if wrote.last().is_some_and(|wrote| wrote.is_committed) {
                        break;
                    }
                    for place in std::mem::take(&mut self.to_read) {
                        self.at_once(&[Some(place)]);
                    }
                    std::thread::sleep(Duration::from_micros(rng.below(THINKS_US)));
                }
                wrote
            }
        }
    }

    /// Its gateway is killed, perhaps with a look on its way that never arrives, and it goes on through another one: in the same session.
    fn killed(&mut self, looking: Option<&'static str>) {
        // One at a time: the next gateway of an agent takes the session of whichever was cut off.
        let _alone = self.board.killing();
        if let Some(place) = looking {
            self.send(&Sent::Look(place));
        }
        self.client.take().unwrap().kill();
        self.client = Some(self.board.client());
        self.at_once(&[Some(self.own[0])]);
    }

    fn client(&mut self) -> &mut Stdio {
        self.client.as_mut().unwrap()
    }

    /// Sends some calls without waiting for answers, looks at places and writes in turn; then takes all answers.
    fn at_once(&mut self, calls: &[Option<&'static str>]) -> Vec<Wrote> {
        let sent: Vec<Sent> = calls.iter().map(|look| look.map_or_else(|| Sent::Put(self.put()), Sent::Look)).collect();
        let ids: Vec<u64> = sent.iter().map(|sent| self.send(sent)).collect();
        let mut answers: Vec<Option<Value>> = vec![None; ids.len()];
        while answers.iter().any(Option::is_none) {
            let message = self.client().message();
            if let Some(at) = ids.iter().position(|id| message["id"] == *id) {
                answers[at] = Some(message["result"].clone());
            }
        }
        let is_alone = calls.len() == 1;
        let mut wrote = Vec::new();
        for (sent, answer) in sent.into_iter().zip(answers) {
            let answer = answer.unwrap();
            match sent {
                Sent::Look(place) => {
                    let value = answer["structuredContent"]["value"].as_str();
                    self.learn(place, value.unwrap_or_else(|| panic!("{place} was not read: {answer}")), is_alone);
                }
                Sent::Put(put) => {
                    let is_committed = self.told(&answer, &put, is_alone);
                    wrote.push(Wrote { wrote: put, is_committed });
                }
            }
        }
        wrote
    }

    fn put(&mut self) -> serial::Wrote {
        self.written += 1;
        let value = format!("{} {}", self.name, self.written);
        let place = self.own[usize::from(self.written.is_multiple_of(2))].to_owned();
        serial::Wrote { by: self.name.clone(), knew: self.knows.clone(), place, value }
    }

    fn send(&mut self, sent: &Sent) -> u64 {
        let params = match sent {
            Sent::Look(place) => json!({"name": "look", "arguments": {"place": place}}),
            Sent::Put(put) => json!({"name": "put", "arguments": {"place": put.place, "value": put.value}}),
        };
        self.client().ask("tools/call", &params)
    }

    /// What an answer tells of a place. Of two at once it cannot say which is newer: where they differ it knows nothing.
    fn learn(&mut self, place: &str, value: &str, is_alone: bool) {
        if is_alone || self.knows.get(place).is_none_or(|known| known == value) {
            self.knows.insert(place.to_owned(), value.to_owned());
        } else {
            self.knows.remove(place);
        }
    }

    /// Whether a write was carried out, with what its answer tells of places.
    fn told(&mut self, answer: &Value, put: &serial::Wrote, is_alone: bool) -> bool {
        let said = &answer["_meta"]["countersign"];
        if said["verdict"].is_null() {
            // Not guarded: nothing is told, and it knows what it wrote itself.
            assert_ne!(answer["isError"], true, "{answer}");
            self.learn(&put.place, &put.value, is_alone);
            return true;
        }
        let changed = said["readings"]["changed"].as_array().cloned().unwrap_or_default();
        for changed in changed.iter().filter(|changed| changed["told"] == true) {
            let arguments: Value = serde_json::from_str(changed["arguments"].as_str().unwrap()).unwrap();
            // Nothing differs from what it was told in another answer.
            let Some(changes) = changed["changes"].as_array() else { continue };
            let value = changes.iter().find(|change| change["path"] == "/value");
            let value = value.and_then(|change| change["after"].as_str());
            let value = value.unwrap_or_else(|| panic!("it is not said what there is: {changed}"));
            let value: String = serde_json::from_str(value).unwrap_or_else(|_| value.to_owned());
            self.learn(arguments["place"].as_str().unwrap(), &value, is_alone);
        }
        let calls = said["retry"]["calls"].as_array().cloned().unwrap_or_default();
        let to_read = |call: &Value| PLACES.into_iter().find(|place| call["arguments"]["place"] == **place);
        self.to_read.extend(calls.iter().filter_map(to_read));
        match (said["verdict"].as_str(), said["code"].as_str()) {
            (Some("settled"), _) => true,
            (Some("rejected" | "failed"), Some("reading_changed")) => false,
            _ => panic!("neither done nor refused: {answer}"),
        }
    }
}
