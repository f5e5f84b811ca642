//! Exact decimal numbers: the text of a number as whole units of a power of ten. No float is involved anywhere.
//!
//! `vectors/decimals.json` has examples.

use serde_json::{Map, Value as Json};
use std::borrow::Cow;

/// How many digits a Cedar `decimal` has behind its point.
pub const DECIMAL_SCALE: u8 = 4;

/// Most digits behind the point of money; no currency has more than 4, some tokens have 8 or more, and 2^53-1 has 16 digits.
pub const MONEY_SCALE_MAX: u8 = 12;

/// The member that marks an exact number in JSON that cannot hold one: no parameter and no attribute can have this name.
pub const MARK: &str = "$decimal";

/// Why a text is not so many units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inexact {
    /// It is no number in decimal notation.
    NotANumber,
    /// It has more digits behind its point than there is room for.
    Digits,
    /// It is too large.
    Range,
}

/// A number, as JSON writes numbers, in units of `10^-scale`.
pub fn units(text: &str, scale: u8) -> Result<i64, Inexact> {
    let (is_negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (number, exponent) =
        rest.split_once(['e', 'E']).map_or((rest, None), |(number, exponent)| (number, Some(exponent)));
    let (whole, fraction) = number.split_once('.').map_or((number, None), |(whole, fraction)| (whole, Some(fraction)));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = are_digits(whole) && (whole.len() == 1 || !whole.starts_with('0'));
    if !is_whole || !fraction.is_none_or(are_digits) {
        return Err(Inexact::NotANumber);
    }
    let exponent: i64 = match exponent.map(|text| text.strip_prefix('+').unwrap_or(text)) {
        None => 0,
        Some(text) if are_digits(text.strip_prefix('-').unwrap_or(text)) => text.parse().map_err(|_| Inexact::Range)?,
        Some(_) => return Err(Inexact::NotANumber),
    };
    let fraction = fraction.unwrap_or_default();
    let digits = [whole, fraction].concat();
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Ok(0);
    }
    // How many digits are left behind the point once no zero is at the end; below zero, so many are missing in front of it.
    let zeros = i64::try_from(digits.len() - significant.len()).map_err(|_| Inexact::Range)?;
    let behind =
        i64::try_from(fraction.len()).map_err(|_| Inexact::Range)?.saturating_sub(zeros).saturating_sub(exponent);
    let missing = i64::from(scale).saturating_sub(behind);
    let missing = u32::try_from(missing).map_err(|_| if missing < 0 { Inexact::Digits } else { Inexact::Range })?;
    let power = 10_i64.checked_pow(missing).ok_or(Inexact::Range)?;
    let signed = if is_negative { format!("-{significant}") } else { significant.to_owned() };
    signed.parse::<i64>().ok().and_then(|digits| digits.checked_mul(power)).ok_or(Inexact::Range)
}

/// Units of `10^-scale` as a number with a point, as Cedar reads decimals: at least one digit behind it, and no zero at its end but that.
pub fn text(units: i64, scale: u8) -> String {
    let digits = units.unsigned_abs().to_string();
    let width = usize::from(scale) + 1;
    let digits = format!("{digits:0>width$}");
    let (whole, fraction) = digits.split_at_checked(digits.len() - usize::from(scale)).unwrap_or((&digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let fraction = if fraction.is_empty() { "0" } else { fraction };
    format!("{}{whole}.{fraction}", if units < 0 { "-" } else { "" })
}

/// An exact number where JSON has no room for one.
pub fn marked(text: impl Into<String>) -> Json {
    Json::Object(Map::from_iter([(MARK.to_owned(), Json::String(text.into()))]))
}

/// Whether it is an exact number, marked as one.
pub fn is_marked(json: &Json) -> bool {
    json.as_object().is_some_and(|members| members.len() == 1 && members.contains_key(MARK))
}

/// Whether an object anywhere in JSON has the member that marks exact numbers.
pub fn has_mark(json: &Json) -> bool {
    match json {
        Json::Array(items) => items.iter().any(has_mark),
        Json::Object(members) => members.contains_key(MARK) || members.values().any(has_mark),
        _ => false,
    }
}

/// The text of a number: of a whole one, of one in quotes, or of one that is marked.
pub fn number_text(json: &Json) -> Option<Cow<'_, str>> {
    match json {
        Json::Number(number) => number.as_i64().map(|number| number.to_string().into()),
        Json::String(text) => Some(text.as_str().into()),
        Json::Object(members) if members.len() == 1 => Some(members.get(MARK)?.as_str()?.into()),
        _ => None,
    }
}

/// JSON as it is sent to others: what is marked becomes the number that it is.
pub fn unmarked(json: &Json) -> String {
    let mut out = String::new();
    write(json, &mut out);
    out
}

fn write(json: &Json, out: &mut String) {
    match json {
        Json::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                write(item, out);
            }
            out.push(']');
        }
        Json::Object(members) => {
            // Only what is a number in JSON is written without quotes; a mark around anything else stays what it is.
            let number = members.get(MARK).filter(|_| members.len() == 1).and_then(Json::as_str);
            if let Some(number) = number.filter(|text| units(text, u8::MAX) != Err(Inexact::NotANumber)) {
                out.push_str(number);
                return;
            }
            out.push('{');
            for (at, (name, member)) in members.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                out.push_str(&Json::from(name.as_str()).to_string());
                out.push(':');
                write(member, out);
            }
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_vectors_hold() {
        let vectors: Json = serde_json::from_str(include_str!("../../../vectors/decimals.json")).unwrap();
        for row in vectors["decimals"].as_array().unwrap() {
            let scale = u8::try_from(row["scale"].as_u64().unwrap()).unwrap();
            let found = units(row["number"].as_str().unwrap(), scale);
            let expected = match row["refused"].as_str() {
                None => Ok(row["units"].as_str().unwrap().parse().unwrap()),
                Some("not_a_number") => Err(Inexact::NotANumber),
                Some("digits") => Err(Inexact::Digits),
                Some("range") => Err(Inexact::Range),
                other => panic!("{other:?}"),
            };
            assert_eq!(found, expected, "{row}");
        }
    }

    #[test]
    fn what_is_sent_is_a_number_again() {
        let json = serde_json::json!({"a": [marked("12.340"), 1, "x\"y", null], "b": {"c": marked("-1e-3")}, "d": {"$decimal": "no"}});
        assert_eq!(unmarked(&json), r#"{"a":[12.340,1,"x\"y",null],"b":{"c":-1e-3},"d":{"$decimal":"no"}}"#);
    }

    proptest! {
        #[test]
        fn a_number_is_read_as_it_is_written(value in any::<i64>(), scale in 0_u8..=12) {
            let written = text(value, scale);
            prop_assert_eq!(units(&written, scale.max(1)), value.checked_mul(if scale == 0 { 10 } else { 1 }).ok_or(Inexact::Range));
            // The independent account: move the point by hand.
            let sign = if value < 0 { "-" } else { "" };
            let digits = format!("{:0>width$}", value.unsigned_abs(), width = usize::from(scale) + 1);
            let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
            let moved = if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") };
            prop_assert_eq!(units(&moved, scale), Ok(value));
            if scale > 0 {
                prop_assert_eq!(units(&format!("{moved}1"), scale), Err(Inexact::Digits));
            }
        }
    }
}
