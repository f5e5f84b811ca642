//! Screening: what in a text or in JSON looks like an attack on an agent, or like a secret that leaves.
//!
//! Screening labels and never edits: it tells of findings as data, a rule and a place, and whoever shows or sends the content decides. It
//! is pure and total, takes time linear in its input, and holds no copy of what it found. Which rules there are, what they find and what
//! they do not is in `docs/screening.md`. No rule recognises a paraphrase; taint and flow rules do not depend on words.

mod derived;
mod encoded;
mod hidden;
mod json;
mod lookalike;
mod picture;
mod profile;
mod rules;
mod safe;
mod secret;
mod terms;
pub mod visible;

use derived::{Origin, folded, plain};
use encoded::decoded;
use profile::Profile;
use secret::Canaries;
use smol_str::SmolStr;
use std::collections::BTreeSet;
use std::ops::Range;
use terms::{GATE_TOOL, Lexicon};

/// A longer text is no message: 128 KiB, twice what a page of a book shop has.
pub const TEXT_BYTES_MAX: usize = 128 * 1024;
/// Deeper JSON is no content. What the gate itself reads is no deeper than [`crate::limits::JSON_DEPTH_MAX`].
pub const DEPTH_MAX: usize = 32;
/// More members and items are no content either.
pub const ITEMS_MAX: usize = 20_000;
/// So many findings are kept of one content; the others are counted.
pub const FINDINGS_MAX: usize = 64;
/// How often what was decoded is decoded again.
const ROUNDS_MAX: usize = 2;

/// What findings say of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Suspicion {
    /// Instructions aimed at a tool or an agent.
    Injection,
    /// Characters that people do not see, or that turn the order of what they see.
    Hidden,
    /// Letters that stand for others.
    Lookalike,
    /// Too large, or nested too deep.
    Oversized,
    /// A secret.
    Secret,
}

impl Suspicion {
    /// The label that content with such a finding gets.
    pub fn label(self) -> &'static str {
        match self {
            Self::Injection => "suspect:injection",
            Self::Hidden => "suspect:hidden",
            Self::Lookalike => "suspect:lookalike",
            Self::Oversized => "suspect:oversized",
            Self::Secret => "leak:secret",
        }
    }
}

/// One finding: which rule, and where. What stands there is not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it says of the content.
    pub suspicion: Suspicion,
    /// The rule, by its name in `docs/screening.md`.
    pub rule: &'static str,
    /// Which text: a JSON pointer, empty for content that is one text.
    pub pointer: SmolStr,
    /// Whether it is in the name that the pointer ends with, and not in the value.
    pub in_name: bool,
    /// Which bytes of that text.
    pub bytes: Range<usize>,
    /// How much it counts towards a finding; 100 for what needs no company.
    pub score: u32,
    /// In what form it was encoded.
    pub via: Option<&'static str>,
}

/// What was found in some content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    found: Vec<Finding>,
    left_out: usize,
    suspicions: BTreeSet<Suspicion>,
}

impl Findings {
    /// The findings, text by text; the first [`FINDINGS_MAX`].
    pub fn found(&self) -> &[Finding] {
        &self.found
    }

    /// How many more there were.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// What all findings say, those left out too.
    pub fn suspicions(&self) -> &BTreeSet<Suspicion> {
        &self.suspicions
    }

    /// The labels that the content gets.
    pub fn labels(&self) -> impl Iterator<Item = &'static str> {
        self.suspicions.iter().map(|suspicion| suspicion.label())
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.suspicions.is_empty()
    }

    fn add(&mut self, finding: Finding) {
        self.suspicions.insert(finding.suspicion);
        // The same may be found in the text and in what was decoded of it.
        let is_same = |known: &Finding| {
            known.rule == finding.rule
                && known.bytes == finding.bytes
                && known.pointer == finding.pointer
                && known.in_name == finding.in_name
        };
        if self.found.iter().any(is_same) {
            return;
        }
        if self.found.len() < FINDINGS_MAX {
            self.found.push(finding);
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
    }
}

/// What content is screened with: the rules, and what is particular to one gate.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    tools: Option<Lexicon>,
    canaries: Canaries,
}

/// One text of some content.
#[derive(Clone, Copy)]
struct Part<'a> {
    text: &'a str,
    pointer: &'a str,
    in_name: bool,
}

impl Screen {
    /// With the names of the gate's own tools, and with planted values that must never leave. A name that is one ordinary word, such as
    /// `search`, is not looked for, and neither is a canary with fewer than six letters and digits.
    pub fn new<'a>(tools: impl IntoIterator<Item = &'a str>, canaries: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<String> =
            tools.into_iter().filter(|name| is_distinctive(name)).map(|name| folded(name).text).collect();
        let tools = Lexicon::new(names.iter().map(|name| (GATE_TOOL, name.as_str()))).filter(|_| !names.is_empty());
        Self { tools, canaries: Canaries::new(canaries) }
    }

    /// Screens a text.
    pub fn text(&self, text: &str) -> Findings {
        let mut findings = Findings::default();
        self.part(&Part { text, pointer: "", in_name: false }, &mut findings);
        findings
    }

    /// Screens every text and long number in JSON, names too, and how large and deep it is. What is no JSON is screened as a text.
    pub fn json(&self, json: &str) -> Findings {
        let mut findings = Findings::default();
        let whole = |rule| Finding {
            suspicion: Suspicion::Oversized,
            rule,
            pointer: SmolStr::default(),
            in_name: false,
            bytes: 0..json.len(),
            score: 100,
            via: None,
        };
        let walked =
            json::walk(json, |text, pointer, in_name| self.part(&Part { text, pointer, in_name }, &mut findings));
        let Some(extent) = walked else { return self.text(json) };
        if json.len() > TEXT_BYTES_MAX {
            findings.add(whole("oversized_text"));
        }
        if extent.depth > DEPTH_MAX {
            findings.add(whole("oversized_depth"));
        }
        if extent.items > ITEMS_MAX {
            findings.add(whole("oversized_items"));
        }
        findings
    }

    /// A form of a text that is safe to show, of so many bytes at most: what is hidden is spelled out, look-alikes too, and secrets are
    /// masked. It has one line.
    pub fn safe(&self, text: &str, bytes_max: usize) -> String {
        safe::safe(text, &self.places(text), bytes_max)
    }

    /// Where secrets, look-alikes and piles of marks stand in a text, all of them.
    fn places(&self, text: &str) -> Vec<(Suspicion, &'static str, Range<usize>)> {
        let mut places = Vec::new();
        self.look(text, &Origin::Sent, 0, &mut |suspicion, rule, bytes, _, _| {
            // Marks are hidden by nothing but their number.
            if matches!(suspicion, Suspicion::Secret | Suspicion::Lookalike) || rule == "hidden_marks" {
                places.push((suspicion, rule, bytes_in(text, bytes)));
            }
        });
        places
    }

    fn part(&self, part: &Part<'_>, findings: &mut Findings) {
        let Part { text, pointer, in_name } = *part;
        let mut add = |suspicion, rule, bytes, score, via| {
            let bytes = bytes_in(text, bytes);
            findings.add(Finding { suspicion, rule, pointer: pointer.into(), in_name, bytes, score, via });
        };
        if text.len() > TEXT_BYTES_MAX {
            add(Suspicion::Oversized, "oversized_text", 0..text.len(), 100, None);
        }
        self.look(text, &Origin::Sent, 0, &mut add);
    }

    fn look(&self, text: &str, origin: &Origin<'_>, round: usize, tell: &mut Tell<'_>) {
        self.look_via(text, origin, None, rules::ENOUGH, round, tell);
    }

    fn look_via(&self, text: &str, origin: &Origin<'_>, via: Via, least: u32, round: usize, tell: &mut Tell<'_>) {
        let profile = Profile::of(text);
        if profile.is_odd && round == 0 {
            hidden::look(text, &mut |rule, range| tell(Suspicion::Hidden, rule, range, 100, via));
            lookalike::look(text, &mut |rule, range| tell(Suspicion::Lookalike, rule, range, 100, via));
        }
        self.look_for_secrets(text, &profile, origin, via, tell);
        let folded = folded(text);
        let mut hits = terms::hits(&folded.text);
        if let Some(tools) = &self.tools {
            hits.extend(tools.hits(&folded.text));
            hits.sort_by_key(|hit| (hit.from, hit.to));
        }
        let mut deeper = if round < ROUNDS_MAX { decoded(text, &profile, &hits) } else { Vec::new() };
        let signs = rules::signs(&folded.text, hits);
        for sign in rules::enough(&signs, least) {
            tell(Suspicion::Injection, sign.rule, origin.of(folded.origin(&sign.range)), sign.score, via);
        }
        if profile.is_odd && round == 0 {
            let spelled = hidden::spelled(text);
            deeper.extend(spelled.into_iter().map(|derived| encoded::Decoded { via: "hidden", derived, is_all: true }));
        }
        for inner in deeper {
            // A part that is not encoded counts as it does in the text itself.
            let least = if inner.is_all { rules::ENOUGH_ENCODED } else { least };
            let origin = Origin::From(&inner.derived, origin);
            self.look_via(&inner.derived.text, &origin, Some(inner.via), least, round.saturating_add(1), tell);
        }
    }

    fn look_for_secrets(&self, text: &str, profile: &Profile, origin: &Origin<'_>, via: Via, tell: &mut Tell<'_>) {
        if text.is_ascii() {
            return secret::look(text, profile, &self.canaries, &mut |rule, range| {
                tell(Suspicion::Secret, rule, origin.of(range), 100, via);
            });
        }
        let plain = plain(text);
        let profile = Profile::of(&plain.text);
        secret::look(&plain.text, &profile, &self.canaries, &mut |rule, range| {
            tell(Suspicion::Secret, rule, origin.of(plain.origin(&range)), 100, via);
        });
    }
}

/// In what form something was encoded.
type Via = Option<&'static str>;
/// Takes a finding: what it says, the rule, the place in what was sent, the score and the form.
type Tell<'a> = dyn FnMut(Suspicion, &'static str, Range<usize>, u32, Via) + 'a;

/// The range as whole characters of a text, one at least.
fn bytes_in(text: &str, bytes: Range<usize>) -> Range<usize> {
    let from = text.floor_char_boundary(bytes.start.min(text.len().saturating_sub(1)));
    let to = text.ceil_char_boundary(bytes.end.max(from.saturating_add(1)).min(text.len()));
    from..to.max(from)
}

/// Whether a name of a tool is no ordinary word: it has parts, a digit or a capital within.
fn is_distinctive(name: &str) -> bool {
    let is_part = |char: char| "_-./:".contains(char) || char.is_ascii_digit();
    name.len() >= 5 && (name.contains(is_part) || name.chars().skip(1).any(char::is_uppercase))
}

/// The safe form of a text for a gate without tools and canaries.
pub fn safe(text: &str, bytes_max: usize) -> String {
    Screen::default().safe(text, bytes_max)
}

#[cfg(test)]
mod tests;
