//! What a person does where no call helps, as commands that can be run as they are.

use crate::call::FoundCode;
use crate::reason::UnreadReading;
use std::fmt;

/// How a command ends that says what became of a call in doubt. Whoever knows how operators reach the gate puts that behind it.
pub const RESOLVED_BY: &str = "--reason TEXT";
/// What to do where a reading cannot be made again as long as this session goes on.
pub const NEW_SESSION: &str = "nothing was sent; begin a new session, which rests on nothing that was read in this one, and read there \
                               what the call rests on";

/// The commands that say what became of a call in doubt.
pub fn resolving(effect: impl fmt::Display) -> String {
    format!(
        "`countersign effect resolve {effect} settled {RESOLVED_BY}` if it was carried out, else `countersign effect resolve {effect} \
         failed {RESOLVED_BY}`"
    )
}

/// Whether a reading failed because its tool is not approved for that any more. To wait does not help.
pub(super) fn is_withdrawn(unread: &UnreadReading) -> bool {
    let code = unread.why.as_ref().map(|why| why.code);
    code.is_some_and(|code| {
        matches!(code, FoundCode::NoTool | FoundCode::ToolChanged | FoundCode::ToolNotRead | FoundCode::ToolUnapproved)
    })
}

/// What to do where a fact is fenced by a call.
pub(super) fn fenced(effect: impl fmt::Display) -> String {
    format!(
        "retry when it has; `countersign effect show {effect}` says where it is. One that is in doubt is ended by a probe, or by an \
         operator who finds out: {}",
        resolving(&effect)
    )
}
