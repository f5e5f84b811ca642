//! Instructions aimed at tools and agents: which meanings have to stand near each other for a text to give an agent orders.
//!
//! A rule is a name, a score, and meanings within some bytes of each other. Rules whose places are near each other add up; from
//! [`ENOUGH`] on they are findings. So a strong sign is enough by itself, and weak ones, each of which ordinary texts have, are not.
//! Which rules there are and what they find is in `docs/screening.md`; what no rule says, such as a paraphrase, is not found (taint and
//! flow rules are there for that).

mod table;

use super::picture;
use super::words::{
    ADDRESS, ADDRESSED, AGENT, GATE_TOOL, Hit, MATTER, Meaning, ORDERS, PICTURE, PRIOR, PRIOR_ORDERS, ROLE,
};
use std::ops::Range;
use table::RULES;

/// From which sum of scores on signs are findings.
pub(super) const ENOUGH: u32 = 60;
/// The same for what was encoded: no one encodes an ordinary sentence.
pub(super) const ENOUGH_ENCODED: u32 = 40;
/// Signs within so many bytes add up.
const NEAR_BYTES: usize = 400;
/// How far from each other "previous" and "instructions" may stand to belong together, in bytes.
const PRIOR_GAP: usize = 18;
/// The same for "note to" and "assistant".
const ADDRESS_GAP: usize = 16;

/// One sign of instructions: a rule, and where in the folded text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sign {
    pub rule: &'static str,
    pub score: u32,
    pub range: Range<usize>,
}

/// All signs that words of a folded text give, in order.
pub(super) fn signs(folded: &str, hits: &[Hit]) -> Vec<Sign> {
    let mut signs = Vec::new();
    if hits.is_empty() {
        return signs;
    }
    let hits = composed(folded, hits);
    let says = hits.iter().fold(0, |all, hit| all | hit.says);
    for rule in RULES.iter().filter(|rule| rule.needs.iter().all(|need| says & need != 0)) {
        rule.find(&hits, |range| signs.push(Sign { rule: rule.name, score: rule.score, range }));
    }
    signs.extend(calls_with_arguments(folded, &hits));
    if says & PICTURE != 0 {
        signs.extend(picture::signs(folded));
    }
    signs.sort_by_key(|sign| (sign.range.start, sign.range.end));
    signs
}

/// Those that have enough others near them.
pub(super) fn enough(signs: &[Sign], least: u32) -> Vec<&Sign> {
    let mut kept = vec![false; signs.len()];
    let mut begins = 0_usize;
    for (at, sign) in signs.iter().enumerate() {
        while signs.get(begins).is_some_and(|first| first.range.start.saturating_add(NEAR_BYTES) < sign.range.start) {
            begins = begins.saturating_add(1);
        }
        let window = signs.get(begins..=at).unwrap_or_default();
        if score(window) >= least {
            kept.iter_mut().take(at.saturating_add(1)).skip(begins).for_each(|kept| *kept = true);
        }
    }
    signs.iter().zip(kept).filter(|(_, kept)| *kept).map(|(sign, _)| sign).collect()
}

/// What signs come to; a rule counts once.
fn score(signs: &[Sign]) -> u32 {
    let mut counted: Vec<&str> = Vec::new();
    let mut sum = 0_u32;
    // There are fewer rules than this window could hold signs, so it is not looked at further than to a sum that is enough.
    for sign in signs.iter().rev() {
        if !counted.contains(&sign.rule) {
            counted.push(sign.rule);
            sum = sum.saturating_add(sign.score);
        }
        if sum >= ENOUGH || counted.len() >= RULES.len() {
            break;
        }
    }
    sum
}

/// The words, and what they say together: "previous" and "instructions" are the previous instructions, "note to" and "assistant" speak to
/// one.
fn composed(folded: &str, hits: &[Hit]) -> Vec<Hit> {
    let mut composed = hits.to_vec();
    for (at, hit) in hits.iter().enumerate() {
        let mut between = 0;
        for next in hits.iter().skip(at.saturating_add(1)) {
            let gap = next.from.saturating_sub(hit.to);
            if gap > PRIOR_GAP.max(ADDRESS_GAP) {
                break;
            }
            let both = Hit { from: hit.from, to: next.to, says: 0 };
            let says = |first: Meaning, second: Meaning| hit.says & first != 0 && next.says & second != 0;
            let is_matter = (between | hit.says | next.says) & MATTER != 0;
            if gap <= PRIOR_GAP && !is_matter && (says(PRIOR, ORDERS) || says(ORDERS, PRIOR)) {
                composed.push(Hit { says: PRIOR_ORDERS, ..both });
            }
            if gap <= ADDRESS_GAP && (says(ADDRESS, AGENT) || says(AGENT, ADDRESS)) {
                composed.push(Hit { says: ADDRESSED, ..both });
            }
            between |= next.says;
        }
        if is_spoken_to(folded, hit) {
            composed.push(Hit { says: ADDRESSED, ..*hit });
        }
    }
    composed.sort_by_key(|hit| (hit.from, hit.to));
    composed
}

/// "Assistant, …" at the beginning of a sentence, and "AI agents: …".
fn is_spoken_to(folded: &str, hit: &Hit) -> bool {
    if hit.says & (AGENT | ROLE) == 0 {
        return false;
    }
    let before = folded.get(..hit.from).unwrap_or_default().trim_end();
    let begins = before.is_empty() || before.ends_with(['.', '!', '?', ':', '"', '>', '-', '*', '。', '；', '，']);
    let follows = folded.get(hit.to..).and_then(|rest| rest.chars().next());
    begins && (follows == Some(',') || follows == Some(':') && hit.says & AGENT != 0)
}

/// A tool of the gate with an argument list: `transfer_funds(to=…)`.
fn calls_with_arguments(folded: &str, hits: &[Hit]) -> Vec<Sign> {
    let is_call = |hit: &&Hit| {
        let mut rest = folded.get(hit.to..).unwrap_or_default().bytes();
        hit.says & GATE_TOOL != 0 && rest.next() == Some(b'(') && rest.next().is_some_and(|byte| byte != b')')
    };
    let sign = |hit: &Hit| Sign { rule: "tool_call", score: ENOUGH, range: hit.range() };
    hits.iter().filter(is_call).map(sign).collect()
}

#[cfg(test)]
mod tests;
