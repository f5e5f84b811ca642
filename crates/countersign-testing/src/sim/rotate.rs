//! Now and then the operator replaces the log's key, at some place in a batch.

use super::Simulation;
use super::record::Slot;
use countersign_engine::gate::Parts;
use countersign_engine::log_key::RotateError;
use countersign_engine::request::Submission;

impl Simulation<'_> {
    /// Adds a rotation to what is asked, sometimes. Gives why the life ends, if so.
    pub(super) fn ask_to_rotate(
        &mut self,
        parts: &Parts,
        slot: &Slot,
        submissions: &mut Vec<Submission>,
    ) -> Result<Option<&'static str>, String> {
        if self.rng.below(16) > 0 {
            return Ok(None);
        }
        let mut seed = [0; 32];
        seed.fill_with(|| (self.rng.next() & 0xff) as u8);
        match parts.log_keys().prepare(seed) {
            Ok(next) => {
                self.keys.push(next.public().clone());
                let at = usize::try_from(self.rng.below(submissions.len() as u64 + 1)).unwrap_or_default();
                let rotation = self.submit_rotation(slot, next)?;
                submissions.insert(at, rotation);
                Ok(None)
            }
            // The files of the rotation before are not in line yet.
            Err(RotateError::UnderWay) => Ok(None),
            Err(error) => {
                self.say(|| format!("no key could be made: {error}"));
                Ok(self.disk.is_down().then_some("the power failed while a key was made"))
            }
        }
    }

    /// Brings the key files in line, sometimes late, which must do no harm. Gives why the life ends, if so.
    pub(super) fn finish_rotation(&mut self, parts: &Parts) -> Option<&'static str> {
        if self.rng.below(3) == 0 {
            return None;
        }
        let before = self.disk.contents("log");
        if let Err(error) = parts.log_keys().settle() {
            self.say(|| format!("the key files could not be brought in line: {error}"));
        } else if self.disk.contents("log") != before {
            self.stats.rotations += 1;
            self.say(|| "has replaced its key".to_owned());
        }
        self.disk.is_down().then_some("the power failed while the key files were brought in line")
    }
}
