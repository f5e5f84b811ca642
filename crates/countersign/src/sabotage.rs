//! Which control this process does without, read where the process begins: only in builds for the test of `conform`.

use countersign_core::pact::diagnostic::Diagnostic;
use countersign_core::pact::load;
use countersign_engine::sabotage::{Control, VARIABLE, load_without};

/// The control that the environment names. A name that is none ends the process: a test that disables nothing would pass for one that
/// does.
pub fn control() -> Option<Control> {
    let name = std::env::var(VARIABLE).ok()?;
    let control = Control::named(&name);
    if control.is_none() {
        crate::terminal::note(format_args!("error: {VARIABLE} names no control: {name}"));
        std::process::exit(3);
    }
    control
}

/// Loads a pact, with or without the rule that every action type has preconditions.
pub fn load(source: &str) -> Result<load::Loaded, Vec<Diagnostic>> {
    match control() {
        Some(control) => load_without(source, control),
        None => load::load(source),
    }
}
