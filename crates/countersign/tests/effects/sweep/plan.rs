//! Where gates are killed: what kinds of calls one run makes, and how many of each.

use super::Shop;
use super::lane::Lane;
use super::traced::Point;
use std::collections::BTreeMap;
use std::fmt;

/// Calls that leave something behind: on the disk, or with somebody else. Every one of them gets its kill.
const LASTING: [&str; 13] = [
    "pwrite64",
    "fdatasync",
    "fsync",
    "rename",
    "unlink",
    "ftruncate",
    "fallocate",
    "connect",
    "sendto",
    "recvfrom",
    "accept4",
    "writev",
    "shutdown",
];
/// What a process does before it is a gate; killed there, it has not yet begun.
const BEFORE: [&str; 4] = ["execve", "arch_prctl", "set_tid_address", "brk"];

/// Calls that a count by kind seldom reaches, because another thread makes the same call first: each is named with its file.
const RARE: [(&str, &str); 2] = [("rename", "log/anchor.tmp"), ("unlink", "log/clean")];

/// The points of all runs: one while clients ask, one while the gate picks up what it finds.
pub struct Plan {
    points: Vec<(Point, Point)>,
    kinds: [usize; 2],
    most: [usize; 2],
}

impl Plan {
    pub fn len(&self) -> usize {
        self.points.len()
    }

    pub fn get(&self, run: usize) -> Option<(&Point, &Point)> {
        self.points.get(run).map(|(first, second)| (first, second))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (runs, [asked, found], [asking, finding]) = (self.len(), self.most, self.kinds);
        write!(
            f,
            "{runs} runs; a gate that is asked makes {asked} calls of {asking} kinds, one that picks up {found} of {finding}"
        )
    }
}

/// Counts the calls of one run that nobody kills, and spreads the kills of so many runs over them.
pub fn measure(shop: &Shop, runs: usize) -> Plan {
    let counted = Lane::open(shop, "measured".to_owned()).count(shop);
    let [first, second] = counted.each_ref().map(|counts| spread(counts, runs));
    // Any two kills meet in time, not always the same two.
    let second = (0..runs).map(|run| second[run * 7919 % runs].clone());
    Plan {
        points: first.into_iter().zip(second).collect(),
        kinds: counted.each_ref().map(BTreeMap::len),
        most: counted.each_ref().map(|counts| counts.values().map(|count| *count as usize).sum()),
    }
}

/// Three of four kills are at calls that leave something behind, the others at any call there is.
fn spread(counts: &BTreeMap<String, u32>, runs: usize) -> Vec<Point> {
    let points = |is_lasting: bool| -> Vec<Point> {
        let kinds = counts.iter().filter(|(call, _)| !BEFORE.contains(&call.as_str()));
        let kinds = kinds.filter(|(call, _)| LASTING.contains(&call.as_str()) == is_lasting);
        kinds.flat_map(|(call, most)| (1..=*most).map(|nth| Point { call: call.clone(), nth, file: None })).collect()
    };
    let others = runs / 4;
    let mut spread = evenly(&points(true), runs - others - RARE.len());
    spread.extend(evenly(&points(false), others));
    spread.extend(RARE.map(|(call, file)| Point { call: call.to_owned(), nth: 1, file: Some(file) }));
    spread
}

/// So many of them, as evenly as can be; all of them, again and again, where there are fewer.
fn evenly(points: &[Point], count: usize) -> Vec<Point> {
    let rounds = (count / points.len()).max(1) * points.len();
    let whole = if count >= points.len() { rounds } else { 0 };
    let left = count - whole;
    let again = (0..whole).map(|number| points[number % points.len()].clone());
    again.chain((0..left).map(|number| points[number * points.len() / left].clone())).collect()
}
