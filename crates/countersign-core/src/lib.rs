//! The pure domain of Countersign: facts, pacts, decide, and the canonical bytes of records.
