//! How an explanation stands in a record.

use super::{Blocked, Expected, FailedPrecondition, FailedRead, WaivedBy, Why};
use crate::canonical::Canonical;

impl WaivedBy {
    pub(super) fn write(&self, out: &mut Canonical) {
        out.open('{');
        out.key("preconditions");
        out.open('[');
        for precondition in &self.preconditions {
            out.element();
            out.string(precondition);
        }
        out.close(']');
        out.key("review");
        out.u64(self.review);
        out.key("reviewer");
        out.string(self.reviewer.as_str());
        out.close('}');
    }
}

impl Blocked {
    /// Writes it as it stands in a record.
    pub fn write(&self, out: &mut Canonical) {
        out.open('{');
        out.key("code");
        out.string(self.code.as_str());
        if !self.failed.is_empty() {
            out.key("failed");
            out.open('[');
            for failed in &self.failed {
                out.element();
                failed.write(out);
            }
            out.close(']');
        }
        out.key("hint");
        out.string(&self.hint);
        out.key("message");
        out.string(&self.message);
        out.close('}');
    }
}

impl FailedPrecondition {
    fn write(&self, out: &mut Canonical) {
        out.open('{');
        if self.as_observed {
            out.key("as_observed");
            out.bool(true);
        }
        if let Why::Error(error) = &self.why {
            out.key("error");
            out.string(error);
        }
        if let Some(gap_ms) = self.gap_ms {
            out.key("gap_ms");
            out.u64(gap_ms);
        }
        out.key("hint");
        out.string(&self.hint);
        if let Some(limit_ms) = self.limit_ms {
            out.key("limit_ms");
            out.u64(limit_ms);
        }
        out.key("precondition");
        out.string(&self.id);
        out.key("reads");
        out.open('[');
        for read in &self.reads {
            out.element();
            read.write(out);
        }
        out.close(']');
        out.key("that");
        out.string(&self.that);
        out.key("why");
        out.string(self.why.as_str());
        out.close('}');
    }
}

impl FailedRead {
    fn write(&self, out: &mut Canonical) {
        out.open('{');
        if let Some(actual) = &self.actual {
            out.key("actual");
            actual.write(out);
        }
        if let Some(attribute) = &self.attribute {
            out.key("attribute");
            out.string(attribute);
        }
        let changed = self.changed_here();
        if let Some(changed) = changed {
            out.key("changed_at");
            out.u64(changed.at_ms);
            out.key("changed_by");
            out.string(changed.by.as_str());
        }
        if let Some(confirmed) = &self.confirmed {
            out.key("confirmed_at");
            out.u64(confirmed.at_ms);
            out.key("confirmed_by");
            out.string(confirmed.by.as_str());
            out.key("confirmed_in");
            out.u64(confirmed.entry);
        }
        self.version.write_digest(out, "digest");
        if let Some(changed) = changed {
            out.key("entry");
            out.u64(changed.entry);
        }
        match &self.expected {
            Expected::Value(value) => {
                out.key("expected");
                value.write(out);
            }
            Expected::NotObserved | Expected::Absent => {}
        }
        out.key("fact");
        out.fact(&self.fact);
        out.key("observed");
        out.bool(self.expected != Expected::NotObserved);
        if let Some(observed) = self.observed_version {
            observed.write_digest(out, "observed_digest");
            observed.write_number(out, "observed_version");
        }
        if let Some(read) = self.read_outside() {
            out.key("read_at");
            out.u64(read.at_ms);
            out.key("read_in");
            out.string(read.by.as_str());
        }
        self.version.write_number(out, "version");
        out.close('}');
    }
}
