//! Agents that read and write at one server at the same time, with random delays everywhere: is there an order of what was written in
//! which every write rested on what was there?
//!
//! Gate, gateways and server are processes. The server holds a number in each of a few places and writes down every change that it
//! makes. Each agent has a gateway of its own, which is killed now and then, and notes what it was told. A checker that knows none of the
//! product's code (`countersign_testing::checker::serial`) then looks for the order, round by round. The same run without the guard shows
//! that it would notice.
//!
//! `COUNTERSIGN_SEED=N` begins with another seed; `COUNTERSIGN_LONG=1`, which `cargo xtask test --long` sets, makes twenty times as many
//! rounds.

mod board;
mod player;

use self::board::Board;
use self::player::{Player, Wrote};
use countersign_testing::checker::serial::{Places, serial_order};
use countersign_testing::disk::SplitMix;
use std::time::Instant;

/// What came of some rounds.
#[derive(Debug, Default)]
struct Tally {
    rounds: usize,
    committed: usize,
    refused: usize,
    at_fault: Vec<String>,
}

fn seed() -> u64 {
    std::env::var("COUNTERSIGN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(13)
}

fn many(rounds: usize) -> usize {
    if std::env::var_os("COUNTERSIGN_LONG").is_some() { rounds * 20 } else { rounds }
}

/// Lets so many agents go on for some rounds; what each committed is judged at the end of each round.
fn play(board: &Board, agents: usize, rounds: usize) -> Tally {
    let mut rng = SplitMix::new(seed());
    let began = Instant::now();
    let mut players: Vec<Player<'_>> = (0..agents).map(|number| Player::start(board, number)).collect();
    let mut tally = Tally { rounds, ..Tally::default() };
    for round in 0..rounds {
        let first = board.places();
        let turns: Vec<u64> = players.iter().map(|_| rng.next()).collect();
        let wrote: Vec<Vec<Wrote>> = std::thread::scope(|scope| {
            let playing: Vec<_> =
                players.iter_mut().zip(turns).map(|(player, seed)| scope.spawn(move || player.turn(seed))).collect();
            playing.into_iter().map(|playing| playing.join().unwrap()).collect()
        });
        let wrote: Vec<Wrote> = wrote.into_iter().flatten().collect();
        let (last, book) = (board.places(), board.take_book());
        let (done, not): (Vec<Wrote>, Vec<Wrote>) = wrote.into_iter().partition(|wrote| wrote.is_committed);
        tally.committed += done.len();
        tally.refused += not.len();
        let complaint = judge(&first, &done, &not, &last, &book);
        tally.at_fault.extend(complaint.map(|why| format!("round {round} of seed {}: {why}", seed())));
    }
    println!("{agents} agents, {:?} in {:?}", (tally.rounds, tally.committed, tally.refused), began.elapsed());
    tally
}

/// What the server's book and the order of the writes have to say about one round.
fn judge(first: &Places, done: &[Wrote], not: &[Wrote], last: &Places, book: &[String]) -> Option<String> {
    for wrote in done {
        let times = book.iter().filter(|value| **value == wrote.wrote.value).count();
        if times != 1 {
            return Some(format!("{wrote:?} was committed, and the server did it {times} times"));
        }
    }
    if let Some(wrote) = not.iter().find(|wrote| book.contains(&wrote.wrote.value)) {
        return Some(format!("{wrote:?} was refused, and the server did it"));
    }
    let writes: Vec<_> = done.iter().map(|wrote| wrote.wrote.clone()).collect();
    serial_order(first, &writes, last).err()
}

fn all_are_explained(agents: usize, rounds: usize) {
    let board = Board::guarded();
    let tally = play(&board, agents, many(rounds));
    assert_eq!(tally.at_fault, Vec::<String>::new());
    // Agents were in each other's way, and still got on.
    assert!(tally.committed > tally.rounds / 2 && tally.refused > tally.rounds / 20, "{tally:?}");
    let audit = board.audit();
    assert!(audit.contains("same"), "{audit}");
}

#[test]
fn an_order_explains_everything_that_two_agents_wrote() {
    all_are_explained(2, 500);
}

#[test]
fn an_order_explains_everything_that_five_agents_wrote() {
    all_are_explained(5, 200);
}

#[test]
fn without_the_guard_no_order_explains_what_was_written() {
    let board = Board::unguarded();
    let tally = play(&board, 5, 40);
    assert!(tally.at_fault.len() > 3 && tally.refused == 0, "the checker notices nothing: {tally:?}");
}
