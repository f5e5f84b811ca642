//! The TOML tree of a pact, read key by key.
//!
//! Every value keeps its place in the text. A key that no one asked for is a problem of its own: a mistyped key must never
//! silently switch a rule off.

use super::diagnostic::{Problems, closest, list};
use std::borrow::Cow;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value with its place.
pub(super) type Node<'a> = &'a Spanned<DeValue<'a>>;

/// Keys reserved for later versions; they get their own message, because leaving them out is not a repair.
const LATER: [&str; 4] = ["labels", "approve", "session", "redact"];

/// A string of the pact and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Text<'a> {
    /// The string itself.
    pub(super) value: &'a str,
    /// The place of the whole TOML value, with its quotes.
    pub(super) span: Range<usize>,
    /// Where the content starts, if the content stands in the text byte for byte.
    content: Option<usize>,
}

impl<'a> Text<'a> {
    fn new(source: &str, value: &'a str, span: Range<usize>) -> Self {
        let raw = source.get(span.clone()).unwrap_or_default();
        let quotes = if raw.starts_with("'''") || raw.starts_with("\"\"\"") { 3 } else { 1 };
        let inner = raw.get(quotes..raw.len().saturating_sub(quotes)).unwrap_or_default();
        // A newline right after the opening quotes of a multi-line string is not part of it.
        let trimmed = if quotes == 3 {
            inner.strip_prefix("\r\n").or_else(|| inner.strip_prefix('\n')).unwrap_or(inner)
        } else {
            inner
        };
        let content = (trimmed == value).then(|| span.start + quotes + (inner.len() - trimmed.len()));
        Self { value, span, content }
    }

    /// The place in the text of a part of the string; the whole value where escapes make the two differ.
    pub(super) fn part(&self, range: &Range<usize>) -> Range<usize> {
        match self.content {
            Some(start) if range.start <= range.end && range.end <= self.value.len() => {
                start + range.start..start + range.end
            }
            _ => self.span.clone(),
        }
    }

    /// The place of the string without its quotes.
    pub(super) fn content(&self) -> Range<usize> {
        self.part(&(0..self.value.len()))
    }
}

/// One table that is being read, and the keys that were asked for.
pub(super) struct Table<'a> {
    source: &'a str,
    table: &'a DeTable<'a>,
    /// The place of the table, for problems about what is missing.
    pub(super) span: Range<usize>,
    /// What to call it in messages: `action.refund`.
    pub(super) what: String,
    known: Vec<&'static str>,
}

impl<'a> Table<'a> {
    /// Starts reading a table.
    pub(super) fn new(source: &'a str, table: &'a DeTable<'a>, span: Range<usize>, what: impl Into<String>) -> Self {
        Self { source, table, span, what: what.into(), known: Vec::new() }
    }

    /// The value under a key, which thereby becomes known.
    pub(super) fn get(&mut self, key: &'static str) -> Option<(Range<usize>, Node<'a>)> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        let (name, value) = self.table.get_key_value(key)?;
        Some((name.span(), value))
    }

    /// A string, if there is one.
    pub(super) fn string(&mut self, key: &'static str, problems: &mut Problems) -> Option<Text<'a>> {
        let (_, node) = self.get(key)?;
        string(self.source, node, &format!("`{key}`"), problems)
    }

    /// A string that must be there.
    pub(super) fn required_string(
        &mut self,
        key: &'static str,
        hint: &str,
        problems: &mut Problems,
    ) -> Option<Text<'a>> {
        if self.table.get(key).is_none() {
            self.missing(key, hint, problems);
        }
        self.string(key, problems)
    }

    /// Notes that a key is missing.
    pub(super) fn missing(&mut self, key: &'static str, hint: &str, problems: &mut Problems) {
        problems.error(&self.span, format!("{} has no `{key}`", self.what), hint);
    }

    /// A string as documentation.
    pub(super) fn doc(&mut self, problems: &mut Problems) -> Option<String> {
        self.string("doc", problems).map(|text| text.value.trim().to_owned())
    }

    /// True or false; false if it is not there.
    pub(super) fn flag(&mut self, key: &'static str, problems: &mut Problems) -> bool {
        let Some((_, node)) = self.get(key) else {
            return false;
        };
        match node.get_ref() {
            DeValue::Boolean(flag) => *flag,
            other => {
                let message = format!("`{key}` must be true or false, but is {}", kind(other));
                problems.error(&node.span(), message, format!("write `{key} = true`, or leave it out"));
                false
            }
        }
    }

    /// A whole number within a range.
    pub(super) fn integer(
        &mut self,
        key: &'static str,
        range: std::ops::RangeInclusive<i64>,
        problems: &mut Problems,
    ) -> Option<i64> {
        let (_, node) = self.get(key)?;
        let number = integer(node.get_ref()).filter(|number| range.contains(number));
        if number.is_none() {
            let message = format!("`{key}` must be a whole number from {} to {}", range.start(), range.end());
            problems.error(&node.span(), message, "write a plain whole number, without quotes and without a fraction");
        }
        number
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&'static str, T)],
        problems: &mut Problems,
    ) -> Option<T> {
        let text = self.string(key, problems)?;
        let found = choices.iter().find(|(name, _)| *name == text.value).map(|(_, choice)| *choice);
        if found.is_none() {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let message = format!("`{key}` cannot be `{}`", shorten(text.value));
            problems.error(&text.content(), message, format!("use one of {}", list(&names)));
        }
        found
    }

    /// A duration such as `5m`, in milliseconds.
    pub(super) fn duration(&mut self, key: &'static str, problems: &mut Problems) -> Option<u64> {
        if let Some((_, node)) = self.get(key)
            && let Some(number) = integer(node.get_ref())
        {
            let message = format!("`{key}` must be a duration, but is a number");
            problems.error(&node.span(), message, format!("add a unit, in quotes: \"{number}s\" or \"{number}m\""));
            return None;
        }
        let text = self.string(key, problems)?;
        let ms = duration_ms(text.value);
        if ms.is_none() {
            let message = format!("`{}` is not a duration", shorten(text.value));
            problems.error(&text.content(), message, "write a positive whole number and one of ms, s, m, h, d: \"5m\"");
        }
        ms
    }

    /// A duration that may be nothing: `0s`.
    pub(super) fn duration_or_zero(&mut self, key: &'static str, problems: &mut Problems) -> Option<u64> {
        let is_zero = |(_, node): (Range<usize>, Node<'a>)| {
            let zero = node.get_ref().as_str().and_then(|text| text.strip_prefix('0'));
            zero.is_some_and(|unit| ["ms", "s", "m", "h", "d"].contains(&unit))
        };
        if self.get(key).is_some_and(is_zero) { Some(0) } else { self.duration(key, problems) }
    }

    /// Tables by name under a key: `[facts.X]`, `[action.NAME]`.
    pub(super) fn table(
        &mut self,
        key: &'static str,
        problems: &mut Problems,
    ) -> Option<(Range<usize>, &'a DeTable<'a>)> {
        let (_, node) = self.get(key)?;
        table(node, &format!("`{key}`"), problems).map(|table| (node.span(), table))
    }

    /// Refuses every key that no one asked for.
    pub(super) fn finish(self, problems: &mut Problems) {
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            if self.known.contains(&name) {
                continue;
            }
            if LATER.contains(&name) {
                let message = format!("`{name}` is not supported by this version");
                problems.error(&key.span(), message, "remove it, or run a version of the gate that supports it");
                continue;
            }
            let hint = match closest(name, self.known.iter().copied()) {
                Some(candidate) => format!("did you mean `{candidate}`?"),
                None => format!("known here: {}", list(&self.known)),
            };
            problems.error(&key.span(), format!("{} has an unknown key `{}`", self.what, shorten(name)), hint);
        }
    }
}

/// A value as a string.
pub(super) fn string<'a>(source: &str, node: Node<'a>, what: &str, problems: &mut Problems) -> Option<Text<'a>> {
    match node.get_ref() {
        DeValue::String(Cow::Borrowed(value)) => Some(Text::new(source, value, node.span())),
        DeValue::String(Cow::Owned(value)) => Some(Text::new(source, value, node.span())),
        other => {
            problems.error(
                &node.span(),
                format!("{what} must be a string, but is {}", kind(other)),
                "put it in quotes",
            );
            None
        }
    }
}

/// A value as a table.
pub(super) fn table<'a>(node: Node<'a>, what: &str, problems: &mut Problems) -> Option<&'a DeTable<'a>> {
    match node.get_ref() {
        DeValue::Table(table) => Some(table),
        other => {
            let message = format!("{what} must be a table, but is {}", kind(other));
            problems.error(&node.span(), message, "write it as [name] with keys below, or as { key = value }");
            None
        }
    }
}

/// A value as a list.
pub(super) fn array<'a>(node: Node<'a>, what: &str, problems: &mut Problems) -> Option<&'a [Spanned<DeValue<'a>>]> {
    match node.get_ref() {
        DeValue::Array(items) => Some(items),
        other => {
            problems.error(&node.span(), format!("{what} must be a list, but is {}", kind(other)), "write it as [ … ]");
            None
        }
    }
}

/// A value as an integer.
pub(super) fn integer(value: &DeValue<'_>) -> Option<i64> {
    match value {
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    }
}

/// What a value is, in a sentence.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// Keeps what an author wrote from drowning the message.
pub(super) fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    match text.char_indices().nth(CHARS_MAX) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Milliseconds of a span of time, written as pacts write them: a number and a unit.
pub fn duration_ms(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        "d" => 24 * 60 * 60 * 1000,
        _ => return None,
    };
    let ms = number.parse::<u64>().ok()?.checked_mul(unit_ms)?;
    (1..=crate::limits::INTEGER_MAX.unsigned_abs()).contains(&ms).then_some(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        assert_eq!(duration_ms("250ms"), Some(250));
        assert_eq!(duration_ms("5m"), Some(300_000));
        assert_eq!(duration_ms("1d"), Some(86_400_000));
        for bad in ["", "5", "m", "-5m", "5 m", "0s", "1.5h", "5min", "99999999999999999999d", "5é"] {
            assert_eq!(duration_ms(bad), None, "{bad}");
        }
    }

    #[test]
    fn parts_of_strings_are_found_in_every_kind_of_quotes() {
        let cases = [
            ("'abc'", "abc", Some(1)),
            ("\"abc\"", "abc", Some(1)),
            ("\"a\\tc\"", "a\tc", None),
            ("'''\nabc'''", "abc", Some(4)),
            ("\"\"\"abc\"\"\"", "abc", Some(3)),
        ];
        for (raw, value, start) in cases {
            let text = Text::new(raw, value, 0..raw.len());
            let expected = start.map_or(0..raw.len(), |start| start + 1..start + 2);
            assert_eq!(text.part(&(1..2)), expected, "{raw}");
        }
    }
}
