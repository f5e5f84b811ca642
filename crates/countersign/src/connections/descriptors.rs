//! Descriptors: the system gives a process so many, and the ledger must never wait for one that a client holds.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The most that a gate asks for: more than it uses, and within what systems allow.
const WANTED: u64 = 65_536;
/// For the log, its anchor and snapshots, the runtime, the terminal, and what is not counted one by one.
const RESERVED: u64 = 96;

/// Raises the limit to what the system lets this process have. Gives the limit, whatever it is then.
pub fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let allowed = maximum.unwrap_or(WANTED).min(WANTED);
    let is_lower = current.is_some_and(|current| current < allowed);
    // What cannot be raised is lived with: the number of connections follows from it.
    if is_lower && setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), maximum }).is_ok() {
        return allowed;
    }
    current.unwrap_or(WANTED)
}

/// How many connections there can be at most, of so many descriptors, if so many more are needed for other things. Where
/// descriptors are few, a quarter are for connections.
pub fn connections_max(descriptors: u64, others: u64) -> usize {
    let room = descriptors.saturating_sub(RESERVED.saturating_add(others)).max(descriptors / 4);
    usize::try_from(room).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_everything_else() {
        assert_eq!(connections_max(1024, 300), 628);
        assert_eq!(connections_max(256, 300), 64);
        assert_eq!(connections_max(65_536, 300), 65_140);
    }
}
