//! Races between real clients of a real server process, judged by checkers that share no code with the gate.

mod grants;
mod messages;
mod refunds;
mod server;
