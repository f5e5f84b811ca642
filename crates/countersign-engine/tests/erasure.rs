//! Erasing a person from a gate, seen from the disk: every kind of entry that can speak of one, and what is in force meanwhile.

mod attacked;
mod everything;
mod in_force;
mod world;
