//! The adapter on a real server of its own: races in every window, broken connections at every statement, crashes, receipts.

mod faults;
mod gate;
mod proxy;
mod receipts;
mod rights;
mod setting;
mod tls;
mod values;
mod windows;
mod world;
