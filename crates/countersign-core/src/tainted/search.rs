//! Which parameters of an action carry labelled values: one pass over each text, and one over each place where two meet.

use super::spelled::decoded;
use super::table::{Table, key, mask, next};
use super::values::{bare, exact};
use super::{BARE_MIN, Index, SHORT_MIN, SPLIT_MIN, Tainted, Trusted, Value};
use crate::carried::{joined, normal, numbers};
use crate::labels::LabelSet;
use crate::limits::TAINTED_WORK_MAX;
use smol_str::SmolStr;

/// Most texts of which each is looked at beside each other; of more, those beside each other as they stand.
const JOINED_MAX: usize = 12;
/// Most values that begin at the end of a text and may go on in another.
const OPEN_MAX: usize = 64;

/// A text of a parameter, bare.
#[derive(Debug)]
struct Piece {
    param: usize,
    bare: String,
}

/// A value that begins with the end of a text.
#[derive(Debug, Clone, Copy)]
struct Open {
    piece: usize,
    value: usize,
    /// How much of it is there.
    matched: usize,
}

/// One search, for one action.
#[derive(Debug)]
pub struct Search<'a> {
    index: &'a Index,
    trusted: &'a [&'a Trusted],
    /// The labels that count now: of content whose values are not known, no other is carried.
    in_force: Option<&'a LabelSet>,
    now_ms: u64,
    params: Vec<SmolStr>,
    pieces: Vec<Piece>,
    open: Vec<Open>,
    found: Tainted,
    /// Whether a parameter says anything that could be a value of content that is not known.
    says: Vec<bool>,
    work: usize,
    buffer: String,
}

impl<'a> Search<'a> {
    /// A search for what an index holds, apart from what is in trusted content too.
    pub fn new(index: &'a Index, trusted: &'a [&'a Trusted], now_ms: u64) -> Self {
        Self {
            index,
            trusted,
            in_force: None,
            now_ms,
            params: Vec::new(),
            pieces: Vec::new(),
            open: Vec::new(),
            found: Tainted::new(),
            says: Vec::new(),
            work: TAINTED_WORK_MAX,
            buffer: String::new(),
        }
    }

    /// The same where only these labels count.
    pub fn in_force(self, labels: &'a LabelSet) -> Self {
        Self { in_force: Some(labels), ..self }
    }

    /// The texts that follow are said by this parameter.
    pub fn param(&mut self, name: &str) {
        self.params.push(name.into());
        self.says.push(false);
    }

    /// A text or a number that the parameter says.
    pub fn text(&mut self, text: &str) {
        self.say(text);
        decoded(text, &mut |text| self.say(text));
    }

    fn say(&mut self, text: &str) {
        if !self.may(text.len()) {
            return;
        }
        let Some(param) = self.params.len().checked_sub(1) else { return };
        let mut buffer = std::mem::take(&mut self.buffer);
        bare(text, &mut buffer);
        self.note_unknown(param, text, &buffer);
        self.long(param, &buffer);
        self.short(param, &buffer, text);
        self.numbers(param, text);
        if !buffer.is_empty() {
            self.pieces.push(Piece { param, bare: buffer.clone() });
        }
        self.buffer = buffer;
    }

    /// Whether so much more may be looked at. If not, everything counts as carried: an agent chooses what is looked at.
    fn may(&mut self, steps: usize) -> bool {
        self.work = self.work.saturating_sub(steps);
        self.work > 0
    }

    /// Where a value begins in a text, it goes on to its end in it, or up to the end of the text.
    fn long(&mut self, param: usize, text: &str) {
        let (index, bytes, mask) = (self.index, text.as_bytes(), mask(BARE_MIN));
        let mut window = 0;
        for (at, byte) in bytes.iter().enumerate() {
            window = next(window, *byte, mask);
            let Some(from) = (at + 1).checked_sub(BARE_MIN) else { continue };
            for place in index.long.at(window) {
                let Some(value) = index.values.get(*place) else { continue };
                let rest = bytes.get(from..).unwrap_or_default();
                if !self.may(1) {
                    return;
                }
                if rest.starts_with(value.bare.as_bytes()) {
                    self.carry(param, value);
                } else if value.bare.as_bytes().starts_with(rest) && self.open.len() < OPEN_MAX {
                    self.open.push(Open { piece: self.pieces.len(), value: *place, matched: rest.len() });
                }
            }
        }
    }

    /// Values of few letters and digits, which must be there with their separators.
    fn short(&mut self, param: usize, bare: &str, text: &str) {
        let (index, mask) = (self.index, mask(SHORT_MIN));
        if index.short.is_empty() {
            return;
        }
        let mut window = 0;
        let mut said = None;
        for (at, byte) in bare.bytes().enumerate() {
            window = next(window, byte, mask);
            if at + 1 < SHORT_MIN {
                continue;
            }
            for value in index.short.at(window).iter().filter_map(|place| index.values.get(*place)) {
                if !self.may(1) {
                    return;
                }
                let said = said.get_or_insert_with(|| exact(text));
                if value.exact.as_ref().is_some_and(|value| said.contains(value.as_str())) {
                    self.carry(param, value);
                }
            }
        }
    }

    fn numbers(&mut self, param: usize, text: &str) {
        if self.index.numbers.is_empty() || text.bytes().filter(u8::is_ascii_digit).count() < 4 && text.is_ascii() {
            return;
        }
        let text = normal(text);
        self.look_up(param, &text);
        joined(&text, |text, is_number| {
            if is_number {
                self.look_up(param, text);
            }
            self.may(text.len())
        });
    }

    fn look_up(&mut self, param: usize, text: &str) {
        for number in numbers(text) {
            if let Some((bits, _)) = self.index.numbers.get(&number)
                && !self.trusted.iter().any(|trusted| trusted.has_number(&number))
            {
                self.label(param, *bits);
            }
        }
    }

    fn carry(&mut self, param: usize, value: &Value) {
        if !self.is_clean(value) {
            self.label(param, value.labels);
        }
    }

    fn is_clean(&self, value: &Value) -> bool {
        self.trusted.iter().any(|trusted| trusted.has(&value.bare, value.exact.as_ref()))
    }

    fn label(&mut self, param: usize, bits: u32) {
        let Some(name) = self.params.get(param) else { return };
        let labels = self.index.names_of(bits).cloned();
        self.found.entry(name.clone()).or_default().extend(labels);
    }

    /// Content that is not known may have said this, unless trusted content did.
    fn note_unknown(&mut self, param: usize, text: &str, bare: &str) {
        if self.index.unknown.is_empty() {
            return;
        }
        let has_letters = bare.len() >= SHORT_MIN;
        let is_clean = || {
            let whole = SmolStr::from(bare);
            let is_number = |trusted: &&Trusted| {
                let numbers = numbers(&normal(text));
                !numbers.is_empty() && numbers.iter().all(|number| trusted.has_number(number))
            };
            let is_digits = bare.bytes().all(|byte| byte.is_ascii_digit());
            self.trusted.iter().any(|it| it.has(&whole, None) || is_digits && is_number(it))
        };
        if has_letters
            && !is_clean()
            && let Some(says) = self.says.get_mut(param)
        {
            *says = true;
        }
    }

    /// Values that begin in one text and end in another.
    fn across(&mut self) {
        let pieces = std::mem::take(&mut self.pieces);
        for open in std::mem::take(&mut self.open) {
            let Some(value) = self.index.values.get(open.value) else { continue };
            let left = value.bare.as_bytes().get(open.matched..).unwrap_or_default();
            for (at, other) in pieces.iter().enumerate().filter(|(at, _)| are_near(*at, open.piece, pieces.len())) {
                if at != open.piece && value.bare.len() >= SPLIT_MIN && other.bare.as_bytes().starts_with(left) {
                    self.carry_both(pieces.get(open.piece), Some(other), value);
                }
            }
        }
        let index = self.index;
        for (first_at, first) in pieces.iter().enumerate() {
            let skipped = first.bare.len().saturating_sub(BARE_MIN - 1);
            let tail = first.bare.as_bytes().get(skipped..).unwrap_or_default();
            for (second_at, second) in pieces.iter().enumerate() {
                if first_at == second_at || !are_near(first_at, second_at, pieces.len()) {
                    continue;
                }
                let second_bytes = second.bare.as_bytes();
                for from in 0..tail.len() {
                    let front = tail.get(from..).unwrap_or_default();
                    let back = second_bytes.get(..BARE_MIN.saturating_sub(front.len())).unwrap_or_default();
                    let Some(window) = window(front, back) else { continue };
                    for value in at(&index.long, window).iter().filter_map(|place| index.values.get(*place)) {
                        let left = value.bare.as_bytes().get(front.len()..).unwrap_or_default();
                        if value.bare.len() >= SPLIT_MIN && second_bytes.starts_with(left) {
                            self.carry_both(Some(first), Some(second), value);
                        }
                    }
                }
            }
        }
    }

    fn carry_both(&mut self, first: Option<&Piece>, second: Option<&Piece>, value: &Value) {
        for piece in first.into_iter().chain(second) {
            self.carry(piece.param, value);
        }
    }

    /// The parameters that carry labelled values.
    pub fn finish(mut self) -> Tainted {
        if !self.index.long.is_empty() {
            self.across();
        }
        if self.work == 0 {
            let all: Vec<SmolStr> = self.index.names.clone();
            for param in &self.params {
                self.found.entry(param.clone()).or_default().extend(all.iter().cloned());
            }
        }
        let is_in_force = |label: &&SmolStr| self.in_force.is_none_or(|labels| labels.contains(*label));
        let unknown: Vec<&SmolStr> = self.index.unknown(self.now_ms).filter(is_in_force).collect();
        if !unknown.is_empty() {
            let says = self.params.iter().zip(&self.says).filter(|(_, says)| **says);
            for (param, _) in says {
                self.found.entry(param.clone()).or_default().extend(unknown.iter().map(|label| (*label).clone()));
            }
        }
        self.found
    }
}

fn at(table: &Table, window: u64) -> &[usize] {
    table.at(window)
}

/// The window over the end of one text and the beginning of another.
fn window(front: &[u8], back: &[u8]) -> Option<u64> {
    let mut bytes = [0_u8; BARE_MIN];
    let all = front.iter().chain(back);
    (front.len().saturating_add(back.len()) == BARE_MIN).then_some(())?;
    bytes.iter_mut().zip(all).for_each(|(byte, of)| *byte = *of);
    key(&bytes, BARE_MIN)
}

fn are_near(one: usize, other: usize, count: usize) -> bool {
    count <= JOINED_MAX || one.abs_diff(other) == 1
}
