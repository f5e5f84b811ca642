//! The rules, one a row: what has to stand near what, how near, and how much it counts.

use crate::screen::words::*;
use std::ops::Range;

/// In which order meanings have to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::screen) enum Shape {
    /// In this order, each within so many bytes of the one before.
    InOrder,
    /// In any order, all within so many bytes of the first that is named.
    Near,
}
use Shape::{InOrder, Near};

/// A rule.
#[derive(Debug)]
pub(in crate::screen) struct Rule {
    pub name: &'static str,
    pub score: u32,
    pub shape: Shape,
    pub bytes: usize,
    pub needs: &'static [Meaning],
}

const fn rule(name: &'static str, score: u32, shape: Shape, bytes: usize, needs: &'static [Meaning]) -> Rule {
    Rule { name, score, shape, bytes, needs }
}

/// What an agent is told to do.
const DO: Meaning = ACT | CALL | SEND | OVERRIDE | REVEAL;

pub(in crate::screen) const RULES: &[Rule] = &[
    // To set aside what the agent was told.
    rule("override_orders", 100, Near, 48, &[OVERRIDE, PRIOR_ORDERS]),
    rule("override_everything", 80, Near, 32, &[OVERRIDE, EVERYTHING]),
    rule("override_prompt", 80, Near, 32, &[OVERRIDE, PROMPT]),
    rule("override_some_orders", 40, Near, 24, &[OVERRIDE, ORDERS]),
    rule("override_safety", 80, Near, 32, &[OVERRIDE | VOID, SAFETY]),
    rule("orders_void", 40, Near, 40, &[PRIOR_ORDERS, VOID]),
    rule("new_task", 40, Near, 0, &[TASK]),
    rule("new_task_named", 40, InOrder, 50, &[TASK, DO]),
    // To be someone else.
    rule("role_without_rules", 70, Near, 70, &[NOW, FREE]),
    rule("role_agent", 60, InOrder, 30, &[NOW, AGENT]),
    rule("agent_without_rules", 60, Near, 50, &[FREE, AGENT]),
    rule("mode", 40, InOrder, 12, &[NOW | ON, MODE]),
    rule("mode_on", 40, InOrder, 8, &[MODE, ON]),
    rule("jailbreak", 60, Near, 0, &[JAILBREAK]),
    rule("authority", 40, Near, 0, &[AUTHORITY]),
    rule("authority_orders", 30, Near, 120, &[AUTHORITY, DO]),
    // To be spoken to.
    rule("addressed", 30, Near, 0, &[ADDRESSED]),
    rule("addressed_orders", 50, InOrder, 60, &[ADDRESSED, DO | MUST | SAY | BEFORE]),
    rule("before_answering", 30, Near, 0, &[BEFORE]),
    rule("before_answering_do", 30, Near, 60, &[BEFORE, ACT | CALL | SEND]),
    // To keep it from a person.
    rule("conceal_from_user", 70, Near, 40, &[CONCEAL, USER]),
    rule("conceal_orders", 60, Near, 24, &[CONCEAL, ORDERS]),
    rule("conceal", 20, Near, 0, &[CONCEAL]),
    rule("unasked", 20, Near, 0, &[UNASKED]),
    rule("unasked_user", 50, Near, 30, &[UNASKED, USER]),
    rule("unasked_act", 30, Near, 60, &[UNASKED, ACT | CALL | SEND]),
    // To get something out.
    rule("reveal_prompt", 80, Near, 32, &[REVEAL, PROMPT]),
    rule("reveal_everything", 60, Near, 12, &[REVEAL, EVERYTHING]),
    rule("send_private", 40, Near, 60, &[SEND, PRIVATE]),
    rule("send_sensitive", 20, Near, 40, &[SEND, SENSITIVE]),
    rule("send_sensitive_to", 30, Near, 80, &[SEND, SENSITIVE, PLACE]),
    rule("send_private_to", 30, Near, 80, &[SEND, PRIVATE, PLACE]),
    // To use tools.
    rule("tool_named", 30, Near, 0, &[GATE_TOOL]),
    rule("tool_asked_for", 50, InOrder, 24, &[CALL, GATE_TOOL]),
    rule("call_some_tool", 20, InOrder, 24, &[CALL, TOOL]),
    // What the machinery around a model writes.
    rule("markup", 60, Near, 0, &[MARKUP]),
    rule("frame", 30, Near, 0, &[FRAME]),
    rule("frame_orders", 30, Near, 100, &[FRAME, DO | BEFORE]),
    rule("unseen_orders", 30, InOrder, 100, &[UNSEEN, DO | AGENT]),
    // To steer what it says, now and later.
    rule("memory", 40, Near, 0, &[MEMORY]),
    rule("memory_do", 30, Near, 80, &[MEMORY, DO | SAY]),
    rule("answer_must", 30, Near, 50, &[ANSWER, MUST, SAY]),
    rule("only", 20, Near, 0, &[ONLY]),
    rule("agent_told", 30, InOrder, 50, &[AGENT, DO | SAY]),
];

impl Rule {
    /// Tells every place at which the rule holds: once for each of the hits that it begins with.
    pub fn find(&self, hits: &[Hit], mut tell: impl FnMut(Range<usize>)) {
        let Some((first, rest)) = self.needs.split_first() else { return };
        for (at, hit) in hits.iter().enumerate().filter(|(_, hit)| hit.says & first != 0) {
            let place = match self.shape {
                InOrder => self.in_order(hits, at, rest),
                Near => self.near(hits, at, rest),
            };
            if let Some(place) = place {
                tell(hit.from.min(place.start)..hit.to.max(place.end));
            }
        }
    }

    fn in_order(&self, hits: &[Hit], at: usize, needs: &[Meaning]) -> Option<Range<usize>> {
        let begins = hits.get(at)?;
        let (mut at, mut end) = (at, begins.to);
        for need in needs {
            let mut following = hits.iter().enumerate().skip(at.saturating_add(1));
            let near = |hit: &Hit| hit.from.saturating_sub(end) <= self.bytes;
            let (found, hit) = following
                .by_ref()
                .take_while(|(_, hit)| near(hit))
                .find(|(_, hit)| hit.says & need != 0 && hit.from >= end)?;
            (at, end) = (found, hit.to);
        }
        Some(begins.from..end)
    }

    fn near(&self, hits: &[Hit], at: usize, needs: &[Meaning]) -> Option<Range<usize>> {
        let begins = hits.get(at)?;
        let mut place = begins.range();
        for need in needs {
            let is_other = |hit: &&Hit| hit.says & need != 0 && (hit.from >= begins.to || hit.to <= begins.from);
            let after = hits.iter().skip(at.saturating_add(1));
            let after = after.take_while(|hit| hit.from.saturating_sub(begins.to) <= self.bytes).find(is_other);
            let before = hits.get(..at).unwrap_or_default().iter().rev();
            // Words that were put together begin earlier than others before them, so the order is that of beginnings.
            let before = before
                .take_while(|hit| begins.from.saturating_sub(hit.from) <= self.bytes.saturating_add(MADE_BYTES))
                .find(is_other);
            let before = before.filter(|hit| begins.from.saturating_sub(hit.to) <= self.bytes);
            let other = after.or(before)?;
            place = place.start.min(other.from)..place.end.max(other.to);
        }
        Some(place)
    }
}

/// How long words are that were put together, at most.
const MADE_BYTES: usize = 60;
