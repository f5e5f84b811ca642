//! Tools that run past the gate.
