//! Reviews through the gate: an approval executes exactly what was shown, once, and in every other case says why not.

mod executing;
mod reviewers;
mod voiding;
mod world;
