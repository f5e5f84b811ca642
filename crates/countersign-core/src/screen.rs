//! Screening: what in a text or in JSON looks like an attack on an agent, or like a secret that leaves.
//!
//! Screening labels and never edits: it tells of findings as data, a rule and a place, and whoever shows or sends the content decides. It
//! is pure and total, takes time linear in its input, and holds no copy of what it found. Which rules there are, what they find and what
//! they do not is in `docs/screening.md`. No rule recognises a paraphrase; taint and flow rules do not depend on words.

mod derived;
mod encoded;
mod hidden;
pub mod known;
mod lookalike;
mod picture;
mod rules;
mod safe;
mod secret;
mod size;
pub mod visible;
mod words;

use derived::{Derived, Origin, folded, plain};
use known::{Known, ROUNDS_MAX};
use rules::{ENOUGH, ENOUGH_ENCODED};
use size::Size;
use std::collections::BTreeSet;
use std::ops::Range;
use words::{GATE_TOOL, Hit, Lexicon};

/// A longer text is no message: 128 KiB, twice what a page of a book shop has.
pub const TEXT_BYTES_MAX: usize = 128 * 1024;
/// Deeper JSON is no content. What the gate itself reads is no deeper than [`crate::limits::JSON_DEPTH_MAX`].
pub const DEPTH_MAX: usize = 32;
/// More members and items are no content either.
pub const ITEMS_MAX: usize = 20_000;
/// So many findings are kept of one content; the others are counted.
pub const FINDINGS_MAX: usize = 64;

/// The label of content with instructions aimed at a tool or an agent.
pub const INJECTION: &str = "suspect:injection";
/// The label of content with characters that people do not see, or that turn the order of what they see.
pub const HIDDEN: &str = "suspect:hidden";
/// The label of content with letters that stand for others.
pub const LOOKALIKE: &str = "suspect:lookalike";
/// The label of content that is too large, or nested too deep.
pub const OVERSIZED: &str = "suspect:oversized";
/// The label of content with a secret.
pub const SECRET: &str = "leak:secret";

/// One finding: which rule, and where. What stands there is not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The label that the content gets.
    pub label: &'static str,
    /// The rule, by its name in `docs/screening.md`.
    pub rule: &'static str,
    /// Which bytes of the content.
    pub bytes: Range<usize>,
    /// In what form it was encoded.
    pub via: Option<&'static str>,
}

/// What was found in some content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    found: Vec<Finding>,
    left_out: usize,
    labels: BTreeSet<&'static str>,
}

impl Findings {
    /// The findings; the first [`FINDINGS_MAX`].
    pub fn found(&self) -> &[Finding] {
        &self.found
    }

    /// How many more there were.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The labels that the content gets, those of findings that were left out too.
    pub fn labels(&self) -> &BTreeSet<&'static str> {
        &self.labels
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    fn add(&mut self, finding: Finding) {
        self.labels.insert(finding.label);
        if self.found.len() == FINDINGS_MAX {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        // The same may be found in the text and in what was decoded of it.
        if !self.found.iter().any(|known| known.rule == finding.rule && known.bytes == finding.bytes) {
            self.found.push(finding);
        }
    }
}

/// What content is screened with: the rules, and what is particular to one gate.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    tools: Option<Lexicon>,
    canaries: Known,
}

impl Screen {
    /// With the names of the gate's own tools, and with planted values that must never leave. A name that is one ordinary word, such as
    /// `search`, is not looked for, and neither is a canary with fewer than six letters and digits.
    pub fn new<'a>(tools: impl IntoIterator<Item = &'a str>, canaries: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<String> =
            tools.into_iter().filter(|name| is_distinctive(name)).map(|name| folded(name).text).collect();
        let tools = Lexicon::new(names.iter().map(|name| (GATE_TOOL, name.as_str()))).filter(|_| !names.is_empty());
        let mut known = Known::default();
        canaries.into_iter().for_each(|canary| known.plant(canary));
        Self { tools, canaries: known }
    }

    /// Screens a text.
    pub fn text(&self, text: &str) -> Findings {
        self.screened(text, text, &Origin::Sent, Size::default())
    }

    /// Screens JSON: what all of it says once its escapes are taken off, names too, and how large and deep it is.
    pub fn json(&self, json: &str) -> Findings {
        match encoded::unescaped(json, encoded::OF_JSON) {
            Some(says) => self.screened(json, &says.text, &Origin::From(&says, &Origin::Sent), Size::of(json)),
            None => self.screened(json, json, &Origin::Sent, Size::of(json)),
        }
    }

    /// A form of a text that is safe to show, of so many bytes at most: what is hidden is spelled out, look-alikes too, and secrets are
    /// masked. It has one line.
    pub fn safe(&self, text: &str, bytes_max: usize) -> String {
        let (mut secrets, mut alike) = (Vec::new(), Vec::new());
        self.look(text, &Origin::Sent, &mut |label, rule, bytes, _| match label {
            SECRET => secrets.push((rule, bytes_in(text, bytes))),
            LOOKALIKE => alike.push(bytes_in(text, bytes)),
            // Marks are hidden by nothing but their number.
            HIDDEN if rule == hidden::MARKS => alike.push(bytes_in(text, bytes)),
            _ => {}
        });
        safe::safe(text, secrets, alike, bytes_max)
    }

    fn screened(&self, content: &str, says: &str, origin: &Origin<'_>, size: Size) -> Findings {
        let mut findings = Findings::default();
        let mut tell = |label, rule, bytes, via| {
            findings.add(Finding { label, rule, bytes: bytes_in(content, bytes), via });
        };
        let sizes = [
            ("oversized_text", content.len() > TEXT_BYTES_MAX),
            ("oversized_depth", size.depth > DEPTH_MAX),
            ("oversized_items", size.items > ITEMS_MAX),
        ];
        for (rule, _) in sizes.into_iter().filter(|(_, is_over)| *is_over) {
            tell(OVERSIZED, rule, 0..content.len(), None);
        }
        self.look(says, origin, &mut tell);
        findings
    }

    /// Everything in a text, but for its size.
    fn look(&self, text: &str, origin: &Origin<'_>, tell: &mut Tell<'_>) {
        hidden::look(text, &mut |rule, range| tell(HIDDEN, rule, origin.of(range), None));
        lookalike::look(text, &mut |rule, range| tell(LOOKALIKE, rule, origin.of(range), None));
        for spelled in hidden::spelled(text) {
            self.read(&spelled.text, &Origin::From(&spelled, origin), Some("hidden"), ENOUGH_ENCODED, tell);
        }
        self.layers(text, origin, None, ENOUGH, 0, tell);
    }

    /// What a text says, and what it says decoded. Each layer is no longer than the one above it, and there are few.
    fn layers(&self, text: &str, origin: &Origin<'_>, via: Via, least: u32, depth: usize, tell: &mut Tell<'_>) {
        let unescaped = if depth < ROUNDS_MAX { encoded::unescaped(text, encoded::ESCAPES) } else { None };
        // What is between what was sent and what it says without escapes says nothing of its own.
        let is_between = via == ESCAPED && unescaped.is_some();
        let hits = if is_between { Vec::new() } else { self.read(text, origin, via, least, tell) };
        let deeper = depth.saturating_add(1);
        if let Some(inner) = unescaped {
            // What is not escaped counts as it does in the text itself.
            return self.layers(&inner.text, &Origin::From(&inner, origin), ESCAPED, least, deeper, tell);
        }
        if depth == ROUNDS_MAX {
            return;
        }
        if let Some(inner) = encoded::runs(text) {
            self.layers(&inner.text, &Origin::From(&inner, origin), Some("encoded"), ENOUGH_ENCODED, deeper, tell);
        }
        if least == ENOUGH {
            for (via, inner) in encoded::disguised(text, &hits) {
                let origin = Origin::From(&inner, origin);
                if via == encoded::SPACED {
                    self.read_secrets(&inner.text, &origin, Some(via), tell);
                }
                self.read_words(&inner.text, &origin, Some(via), least, tell);
            }
        }
    }

    /// Secrets and instructions in one text as it is. Gives the words in it.
    fn read(&self, text: &str, origin: &Origin<'_>, via: Via, least: u32, tell: &mut Tell<'_>) -> Vec<Hit> {
        self.read_secrets(text, origin, via, tell);
        self.read_words(text, origin, via, least, tell)
    }

    fn read_secrets(&self, text: &str, origin: &Origin<'_>, via: Via, tell: &mut Tell<'_>) {
        let made: Derived;
        let (shown, way) = match text.is_ascii() {
            true => (text, *origin),
            false => {
                made = plain(text);
                (made.text.as_str(), Origin::From(&made, origin))
            }
        };
        secret::look(shown, &mut |rule, range| tell(SECRET, rule, way.of(range), via));
        // The search for canaries takes escapes off by itself.
        let canaries = if via == ESCAPED { Vec::new() } else { self.canaries.find(shown) };
        canaries.into_iter().for_each(|range| tell(SECRET, "secret_canary", way.of(range), via));
    }

    fn read_words(&self, text: &str, origin: &Origin<'_>, via: Via, least: u32, tell: &mut Tell<'_>) -> Vec<Hit> {
        let folded = folded(text);
        let mut hits = words::hits(&folded.text);
        if let Some(tools) = &self.tools {
            hits.extend(tools.hits(&folded.text));
            hits.sort_by_key(|hit| (hit.from, hit.to));
        }
        let signs = rules::signs(&folded.text, &hits);
        for sign in rules::enough(&signs, least) {
            tell(INJECTION, sign.rule, origin.of(folded.origin(&sign.range)), via);
        }
        hits
    }
}

/// In what form something was encoded.
type Via = Option<&'static str>;
const ESCAPED: Via = Some("escaped");
/// Takes a finding: the label, the rule, the place in what was sent, and the form.
type Tell<'a> = dyn FnMut(&'static str, &'static str, Range<usize>, Via) + 'a;

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

#[cfg(test)]
mod tests;
