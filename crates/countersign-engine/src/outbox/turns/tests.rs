//! Tests of turns: who is let in, in which order, and who is told that it takes too long. No thread waits in them but one.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use super::*;
use countersign_core::ids::Digest;
use crossbeam_channel::{Receiver, TryRecvError};

/// Turns, and where they are sent.
struct World {
    turns: Arc<Turns>,
    to: Sender<Ready>,
    ready: Receiver<Ready>,
}

const HOUR: Duration = Duration::from_secs(3600);

/// `bank` is changed, `bank?` is relied on, `bank#1` is one part of it.
fn touches(words: &[&str]) -> Vec<Touch> {
    let touch = |word: &&str| {
        let changes = !word.ends_with('?');
        let word = word.trim_end_matches('?');
        let (server, part) = word.split_once('#').map_or((word, None), |(server, part)| (server, Some(part)));
        Touch { server: server.into(), part: part.map(|part| Digest::of(part.as_bytes())), changes }
    };
    words.iter().map(touch).collect()
}

impl World {
    fn new() -> Self {
        let (to, ready) = unbounded();
        Self { turns: Arc::default(), to, ready }
    }

    fn ask(&self, agent: &str, effect: u64, words: &[&str]) {
        let ask = Ask {
            effect: EffectId(effect),
            agent: AgentId::new(agent).unwrap(),
            touches: touches(words),
            thread_at: None,
        };
        self.turns.ask(ask, &self.to);
    }

    /// What was sent next, if anything was.
    fn next(&self) -> Option<(u64, Result<Turn, Holder>)> {
        match self.ready.try_recv() {
            Ok(ready) => Some((ready.effect.0, ready.got)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => panic!("it is held here"),
        }
    }

    /// Asks, and has the turn at once.
    fn take(&self, effect: u64, words: &[&str]) -> Turn {
        self.ask("one", effect, words);
        let (whose, got) = self.next().unwrap();
        assert_eq!(whose, effect);
        got.unwrap()
    }

    /// Asks, and has to wait; then gives up.
    fn waits(&self, words: &[&str]) -> bool {
        self.ask("one", 99, words);
        let waits = self.next().is_none();
        self.turns.0.lock().waiting.retain(|waiter| waiter.ask.effect.0 != 99);
        waits
    }
}

#[test]
fn a_server_is_changed_by_one_and_not_while_others_rely_on_it() {
    let world = World::new();
    let first = world.take(1, &["bank", "mail?"]);
    assert!(world.waits(&["bank"]), "it is changed already");
    assert!(world.waits(&["mail"]), "it is relied on");
    let beside = world.take(2, &["notes", "mail?"]);
    assert!(world.waits(&["files", "bank?"]), "what is being changed is not relied on");
    drop(first);
    assert!(world.waits(&["mail"]));
    drop(beside);
    drop(world.take(3, &["mail", "bank?"]));
}

#[test]
fn parts_of_a_server_are_changed_beside_each_other_and_all_of_it_by_one() {
    let world = World::new();
    let one = world.take(1, &["bank#1"]);
    let two = world.take(2, &["bank#2", "bank#3?"]);
    assert!(world.waits(&["bank#1?"]) && world.waits(&["bank#3"]), "the same part");
    assert!(world.waits(&["bank"]) && world.waits(&["bank?"]), "all of it");
    let three = world.take(3, &["bank#3?"]);
    drop((one, two, three));
    let all = world.take(4, &["bank"]);
    assert!(world.waits(&["bank#1?"]));
    drop(all);
}

#[test]
fn what_may_still_have_its_effect_keeps_its_turn_for_a_while_and_others_are_told_at_once() {
    let world = World::new();
    world.take(1, &["bank"]).keep_for(HOUR);
    world.turns.linger(EffectId(2), touches(&["mail"]), HOUR);
    world.ask("one", 3, &["bank"]);
    let (effect, told) = world.next().unwrap();
    let holder = told.unwrap_err();
    assert_eq!((effect, holder.effect, holder.lingers), (3, EffectId(1), true));
    assert_eq!(holder.server, "bank");
    world.ask("one", 4, &["notes", "mail?"]);
    assert_eq!(world.next().unwrap().1.unwrap_err().effect, EffectId(2));
    drop(world.take(1, &["bank"]));
    world.turns.linger(EffectId(5), touches(&["files"]), Duration::ZERO);
    drop(world.take(6, &["files"]));
    world.turns.over(EffectId(2));
    drop(world.take(7, &["mail"]));
}

#[test]
fn a_doubt_keeps_only_what_may_change() {
    let world = World::new();
    world.take(1, &["mail", "bank?"]).keep_for(HOUR);
    drop(world.take(2, &["bank"]));
    world.ask("one", 3, &["mail?"]);
    assert_eq!(world.next().unwrap().1.unwrap_err().effect, EffectId(1));
    // Whoever waited for what was only relied on is let in at once.
    let held = world.take(4, &["files", "bank?"]);
    world.ask("one", 5, &["bank"]);
    assert!(world.next().is_none());
    held.keep_for(HOUR);
    assert_eq!(world.next().unwrap().0, 5);
}

#[test]
fn one_who_waits_to_change_goes_before_those_who_come_later_and_rely() {
    let world = World::new();
    let held = world.take(1, &["notes", "bank?"]);
    world.ask("one", 2, &["bank"]);
    // It could share with what is held, and would starve the writer if it did.
    world.ask("one", 3, &["files", "bank?"]);
    assert!(world.next().is_none());
    drop(held);
    let (effect, turn) = world.next().unwrap();
    assert_eq!(effect, 2);
    assert!(world.next().is_none());
    drop(turn.unwrap());
    assert_eq!(world.next().unwrap().0, 3);
}

#[test]
fn agents_take_turns_however_many_calls_one_of_them_waits_with() {
    let world = World::new();
    let mut held = world.take(1, &["bank"]);
    for effect in 10..20 {
        world.ask("greedy", effect, &["bank"]);
    }
    world.ask("modest", 30, &["bank"]);
    world.ask("modest", 31, &["bank"]);
    let mut order = Vec::new();
    for _ in 0..6 {
        drop(held);
        let (effect, turn) = world.next().unwrap();
        order.push(effect);
        held = turn.unwrap();
    }
    assert_eq!(order, [10, 30, 11, 31, 12, 13]);
}

#[test]
fn one_agent_waits_with_so_many_calls_and_no_more_and_leaves_the_others_theirs() {
    let world = World::new();
    let held = world.take(1, &["bank"]);
    let most = u64::try_from(WAITING_PER_AGENT_MAX).unwrap();
    for effect in 100..100 + most {
        world.ask("greedy", effect, &["bank"]);
    }
    assert!(world.next().is_none());
    world.ask("greedy", 99, &["bank"]);
    let (effect, told) = world.next().unwrap();
    assert_eq!((effect, told.unwrap_err().effect), (99, EffectId(1)));
    world.ask("modest", 200, &["bank"]);
    assert!(world.next().is_none(), "another one waits");
    drop(held);
    assert_eq!(world.next().unwrap().0, 100);
}

#[test]
fn one_who_waits_for_too_long_is_told_who_has_the_turn() {
    let world = World::new();
    let held = world.take(1, &["bank"]);
    world.ask("one", 2, &["bank"]);
    let told = world.turns.0.lock().look(Instant::now() + WAIT_MAX);
    let [(_, effect, Err(holder))] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((effect.0, holder.effect, holder.lingers), (2, EffectId(1), false));
    assert!(world.turns.0.lock().waiting.is_empty());
    drop(held);
    assert!(world.turns.0.lock().held.is_empty());
}

#[test]
fn one_who_waits_on_a_thread_can_end() {
    let world = World::new();
    let held = world.take(1, &["bank"]);
    let ask =
        Ask { effect: EffectId(2), agent: AgentId::new("one").unwrap(), touches: touches(&["bank"]), thread_at: None };
    assert!(world.turns.take(ask.clone(), || true).is_none());
    drop(held);
    let turn = world.turns.take(ask, || true).unwrap().unwrap();
    drop(turn);
    assert!(world.turns.0.lock().held.is_empty() && world.turns.0.lock().rounds.len() <= 1);
}

#[test]
fn a_call_without_a_thread_has_no_turn_yet_and_keeps_no_one_at_another_server_waiting() {
    let world = World::new();
    let ask = |effect: u64, server: &str, words: &[&str]| {
        let thread_at = Some(server.into());
        let ask =
            Ask { effect: EffectId(effect), agent: AgentId::new("one").unwrap(), touches: touches(words), thread_at };
        world.turns.ask(ask, &world.to);
        world.next().map(|(_, got)| got.unwrap())
    };
    let mut slow: Vec<Turn> = (0..16).map(|effect| ask(effect, "bank", &[]).unwrap()).collect();
    assert!(ask(16, "bank", &["mail?"]).is_none(), "every thread for the bank is taken");
    let mail = ask(17, "mail", &["mail"]).unwrap();
    drop(slow.pop());
    assert!(world.next().is_none(), "now it waits for the turn");
    drop(mail);
    let (effect, got) = world.next().unwrap();
    assert_eq!(effect, 16);
    // A turn that lingers has no thread any more.
    got.unwrap().keep_for(HOUR);
    assert!(ask(18, "bank", &[]).is_some());
}
