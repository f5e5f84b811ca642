//! What the system says of a process: what it has started, what it has open, and how much memory it holds.

use crate::mcp::client::PATIENCE;
use std::time::{Duration, Instant};

/// The processes below one, by id.
pub fn children(of: u32) -> Vec<u32> {
    let path = format!("/proc/{of}/task");
    let tasks = std::fs::read_dir(path).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>()).collect()
}

/// How many descriptors it has open.
pub fn open_files(of: u32) -> usize {
    std::fs::read_dir(format!("/proc/{of}/fd")).map_or(0, Iterator::count)
}

/// How many threads it has.
pub fn threads(of: u32) -> usize {
    std::fs::read_dir(format!("/proc/{of}/task")).map_or(0, Iterator::count)
}

/// Its resident memory.
pub fn resident_kib(of: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{of}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Whether it has ended. One that nobody has waited for yet counts: where its parent is gone, that is the system's business.
pub fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| stat.rsplit_once(')').is_some_and(|(_, state)| state.trim_start().starts_with('Z')))
}

/// Waits until something holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
