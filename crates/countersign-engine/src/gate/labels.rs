//! Labels of what is handed out: an entry says that an agent is shown them before it is.

use super::Gate;
use super::read::NotObservable;
use super::tainted::screened;
use crate::request::{Refusal, Request};
use countersign_core::action::Action;
use countersign_core::decision::Decision;
use countersign_core::ids::AgentId;
use countersign_core::labels::{LabelSet, shown_in, told};
use countersign_core::record::{Entry, Event};
use countersign_core::session::SessionId;
use smol_str::SmolStr;

/// Why nothing was observed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotObserved {
    /// The agent may not.
    #[error(transparent)]
    NotObservable(#[from] NotObservable),
    /// What it is shown has labels, and that could not be entered.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Gate {
    /// Whether what is shown may have labels, so that showing it can mean waiting for the disk.
    pub fn has_labels(&self) -> bool {
        !self.view().rest.labels.is_unused()
    }

    /// The labels that an agent is asked for actions under: in a session, or outside of one.
    pub fn labels_of(&self, agent: &AgentId, session: Option<SessionId>) -> LabelSet {
        let now_ms = self.now_ms();
        self.view().rest.labels.in_force(agent, session, now_ms)
    }

    /// Enters that an agent is shown content with these labels, unless it has them all. Returns once that is durable; if it is not, nothing
    /// must be shown.
    pub(super) fn show_labels(
        &self,
        who: (&AgentId, Option<SessionId>),
        labels: LabelSet,
        from: Vec<SmolStr>,
    ) -> Result<(), Refusal> {
        let now_ms = self.now_ms();
        if labels.is_empty() || shown_in(who, &labels, &self.view(), now_ms).given().is_none() {
            return Ok(());
        }
        let (agent, session) = (who.0.clone(), who.1);
        self.call(Request::Labels { agent, session, labels, from }).map(drop)
    }

    /// Notes what an agent is told of an action in the answer to it. Its entry says that it is shown labels.
    pub fn note_entered(&self, entry: &Entry) {
        match &entry.event {
            Event::Action(decided) => self.note_told(&decided.action, &decided.decision),
            Event::Group(group) => {
                if let Some(action) = group.actions.get(group.failed) {
                    self.note_told(action, &group.decision);
                }
            }
            _ => {}
        }
    }

    /// The same for what an agent is told of a decision that no entry holds.
    pub(super) fn show_checked(&self, action: &Action, decision: &Decision) -> Result<(), Refusal> {
        // What would be done is not: nothing is told of it but that.
        if decision.blocked().is_none() && decision.shadowed.is_none() {
            return Ok(());
        }
        let labels = told(action, decision, &self.view());
        if labels.is_empty() {
            return Ok(());
        }
        self.will_show(&action.agent);
        self.note_told(action, decision);
        self.show_labels((&action.agent, action.session.map(|session| session.id)), labels, Vec::new())
    }

    /// The same for what an agent is told again of an action, by its entry and by the latest that speaks of it.
    ///
    /// # Errors
    /// If it cannot be entered; then nothing must be told.
    pub fn show_again(&self, intent: &Entry, latest: &Entry) -> Result<(), Refusal> {
        let action = match &intent.event {
            Event::Action(decided) => &*decided.action,
            Event::Approval(approved) => &*approved.action,
            Event::Group(group) => match group.actions.get(group.failed) {
                Some(action) => action,
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        let mut labels = LabelSet::new();
        for decision in intent.event.decision().into_iter().chain(latest.event.decision()) {
            labels.extend(told(action, decision, &self.view()));
        }
        if labels.is_empty() {
            return Ok(());
        }
        self.will_show(&action.agent);
        for decision in intent.event.decision().into_iter().chain(latest.event.decision()) {
            self.note_told(action, decision);
        }
        if let Event::Settle(settle) = &latest.event {
            let said = settle.evidence.result.as_deref().into_iter().chain(settle.evidence.found.said.as_deref());
            for said in said {
                labels.extend(screened(&labels, said));
                self.note_shown(&action.agent, &labels, said);
            }
        }
        self.show_labels((&action.agent, action.session.map(|session| session.id)), labels, Vec::new())
    }
}
