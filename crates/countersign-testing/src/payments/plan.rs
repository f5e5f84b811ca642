//! What a payment service does to the requests under one key, drawn from its seed and that key.

use countersign_core::ids::Digest;

/// What is done to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Pays and answers.
    None,
    /// Waits, pays, answers.
    Late,
    /// Pays and answers twice over.
    Twice,
    /// Pays and never answers.
    Never,
    /// Pays and hangs up.
    ClosesAfterPaying,
    /// Hangs up.
    ClosesBeforePaying,
    /// Pays and answers 500.
    FailsAfterPaying,
    /// Answers 500.
    FailsBeforePaying,
    /// Pays and answers 409.
    ConflictAfterPaying,
    /// Answers 409.
    ConflictBeforePaying,
}

/// The faults, without the one that is none.
pub const FAULTS: [Fault; 9] = [
    Fault::Late,
    Fault::Twice,
    Fault::Never,
    Fault::ClosesAfterPaying,
    Fault::ClosesBeforePaying,
    Fault::FailsAfterPaying,
    Fault::FailsBeforePaying,
    Fault::ConflictAfterPaying,
    Fault::ConflictBeforePaying,
];

/// What is done to the requests under one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// What is done to the first of them.
    pub fault: Fault,
    /// To how many; later ones are paid and answered.
    pub times: u32,
    /// How many questions after the payout are put off first.
    pub silent_gets: u32,
}

impl Plan {
    /// The plan for a key: half of all keys have no fault.
    pub fn of(seed: u64, key: &str) -> Self {
        let Digest(drawn) = Digest::of(&[&seed.to_be_bytes(), key.as_bytes()].concat());
        let fault = match drawn[0] {
            0..=127 => Fault::None,
            other => FAULTS.get(usize::from(other) % FAULTS.len()).copied().unwrap_or(Fault::None),
        };
        Self { fault, times: 1 + u32::from(drawn[1] % 4), silent_gets: u32::from(drawn[2] % 8 == 0) }
    }

    /// Whether the first request under the key is paid.
    pub fn pays_first(self) -> bool {
        !matches!(self.fault, Fault::ClosesBeforePaying | Fault::FailsBeforePaying | Fault::ConflictBeforePaying)
    }
}
