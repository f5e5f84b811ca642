//! Facts and calls outside the gate: short digests, resources that vanish, conditions that are only claimed.
