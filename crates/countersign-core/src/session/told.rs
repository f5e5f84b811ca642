//! What is told in full with the outcome of a write, and so counts as read from then on.

use super::{Held, Reading};
use crate::decide::{Snapshot, rested_on};
use crate::decision::Write;
use crate::difference::{Pair, TOLD_BYTES_MAX, tell};
use crate::effect::Effect;

/// Which of these readings, made again for an effect, are told in full with its outcome. The effect has to rest on the reading, its agent
/// has to have what the session has of it, that and what was read now has to be kept, and the differences have to fit together.
pub fn told(effect: &Effect, readings: &[Reading], snapshot: &dyn Snapshot) -> Vec<bool> {
    let before: Vec<Option<Held>> = readings.iter().map(|reading| known(effect, reading, snapshot)).collect();
    let pairs: Vec<Pair<'_>> = readings.iter().zip(&before).map(|(now, before)| pair(now, before.as_ref())).collect();
    let differences = tell(&pairs, TOLD_BYTES_MAX);
    let is_known = |reading: &Reading| reading.content.is_some() || !reading.changes.is_empty();
    readings.iter().zip(differences).map(|(reading, told)| is_known(reading) && told.is_whole).collect()
}

fn pair<'a>(now: &'a Reading, before: Option<&'a Held>) -> Pair<'a> {
    let kept = before.and_then(|held| held.reading.content.as_deref());
    let are_kept = kept.is_some() && now.content.is_some();
    // What was made from contents that are not kept holds for one who has the reading before, and for no one else.
    let made = Some(now.changes.as_slice()).filter(|made| !are_kept && !made.is_empty() && before.is_some());
    let after = now.content.as_deref().unwrap_or_default();
    Pair { name_bytes: now.place.called_bytes(), before: kept, after, made }
}

/// The reading as the session of an effect has it, if the effect rests on it and the agent is known to have it.
fn known(effect: &Effect, reading: &Reading, snapshot: &dyn Snapshot) -> Option<Held> {
    let fact = effect.action.session?.id.reading(&reading.place)?;
    let (_, version) = effect.rests_on.iter().find(|(noted, _)| *noted == fact)?;
    let held = Held::of(snapshot.fact(&fact)?)?;
    // A difference says what there is only to one who has what it differs from.
    let is_sure = !effect.action.unsure.contains(&reading.place.name()) || held.before == Some(held.digest);
    (is_sure && rested_on(&effect.action, &held, *version) == Some(held.digest)).then_some(held)
}

/// Whether what a reading writes says how it differs: by its content, or where that is too long to keep, by what was told of it.
pub fn keeps_told(writes: &[Write]) -> bool {
    let value = writes.first().and_then(|write| write.value.as_ref());
    value.is_some_and(|value| value.get("content").is_some() || value.get("changes").is_some())
}
