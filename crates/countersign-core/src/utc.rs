//! Ledger time for people: moments, and spans of time.

use std::fmt;
use std::str::FromStr;

/// Ledger milliseconds as people read them: `2026-11-15T09:30:00.123Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utc(pub u64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, in_day) = (self.0 / 86_400_000, self.0 % 86_400_000);
        // Days to a civil date, by eras of 400 years that start in March, so that the leap day comes last.
        let z = days + 719_468;
        let (era, day_of_era) = (z / 146_097, z % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
        let (second, milli) = (in_day / 1_000 % 60, in_day % 1_000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

/// A span of milliseconds as people read it, in its two largest units: `150 ms`, `3.2 s`, `5 min`, `2 h 5 min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SECOND: u64 = 1_000;
        const MINUTE: u64 = 60 * SECOND;
        const HOUR: u64 = 60 * MINUTE;
        const DAY: u64 = 24 * HOUR;
        let ms = self.0;
        let (large, unit, small, small_unit) = match ms {
            0..SECOND => return write!(f, "{ms} ms"),
            SECOND..MINUTE => {
                let (seconds, tenths) = (ms / SECOND, ms % SECOND / 100);
                return if tenths == 0 { write!(f, "{seconds} s") } else { write!(f, "{seconds}.{tenths} s") };
            }
            MINUTE..HOUR => (ms / MINUTE, "min", ms % MINUTE / SECOND, "s"),
            HOUR..DAY => (ms / HOUR, "h", ms % HOUR / MINUTE, "min"),
            DAY.. => (ms / DAY, "d", ms % DAY / HOUR, "h"),
        };
        write!(f, "{large} {unit}")?;
        if small == 0 { Ok(()) } else { write!(f, " {small} {small_unit}") }
    }
}

/// A text is not a time of this form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid time; use the form 2026-11-15T09:30:00Z")]
pub struct NotATime;

impl FromStr for Utc {
    type Err = NotATime;

    /// Reads the form that it is shown in; seconds and their fraction may be left out.
    fn from_str(text: &str) -> Result<Self, NotATime> {
        let (date, time) = text.strip_suffix('Z').and_then(|text| text.split_once('T')).ok_or(NotATime)?;
        let numbers = |text: &str, separator: char| -> Result<Vec<u64>, NotATime> {
            let is_number =
                |part: &str| !part.is_empty() && part.len() <= 4 && part.bytes().all(|b| b.is_ascii_digit());
            let number = |part: &str| if is_number(part) { part.parse().map_err(|_| NotATime) } else { Err(NotATime) };
            text.split(separator).map(number).collect()
        };
        let (clock, milli) = match time.split_once('.') {
            Some((clock, milli)) if milli.len() == 3 => (clock, milli.parse().map_err(|_| NotATime)?),
            Some(_) => return Err(NotATime),
            None => (time, 0_u64),
        };
        let &[year, month, day] = numbers(date, '-')?.as_slice() else { return Err(NotATime) };
        let (hour, minute, second) = match *numbers(clock, ':')?.as_slice() {
            [hour, minute, second] => (hour, minute, second),
            [hour, minute] => (hour, minute, 0),
            _ => return Err(NotATime),
        };
        if year < 1970
            || !(1..=12).contains(&month)
            || !(1..=31).contains(&day)
            || hour > 23
            || minute > 59
            || second > 59
        {
            return Err(NotATime);
        }
        // The reverse of what is shown: years that start in March.
        let (year, shifted) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let (era, year_of_era) = (year / 400, year % 400);
        let day_of_year = (153 * shifted + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        let parsed = Self((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + milli);
        // What is not a day of its month comes out as another.
        if parsed.to_string().starts_with(date) { Ok(parsed) } else { Err(NotATime) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Span, Utc};

    #[test]
    fn spans_have_their_two_largest_units() {
        let spans = [150, 1_000, 1_250, 125_000, 300_000, 10_800_000, 11_100_000, 86_400_000, 190_800_000];
        let texts = ["150 ms", "1 s", "1.2 s", "2 min 5 s", "5 min", "3 h", "3 h 5 min", "1 d", "2 d 5 h"];
        assert_eq!(spans.map(|ms| Span(ms).to_string()), texts);
    }

    #[test]
    fn it_is_the_calendar_in_utc() {
        let text = |ms: u64| Utc(ms).to_string();
        assert_eq!(text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(text(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(text(1_794_700_000_123), "2026-11-14T23:46:40.123Z");
        assert_eq!(text(4_107_542_399_999), "2100-02-28T23:59:59.999Z");
        for ms in [0, 951_782_400_000, 1_794_700_000_123, 4_107_542_399_999] {
            assert_eq!(text(ms).parse(), Ok(Utc(ms)));
        }
        assert_eq!("2026-11-14T23:46Z".parse(), Ok(Utc(1_794_699_960_000)));
        for wrong in
            ["", "2026-11-14", "2026-02-30T00:00Z", "2026-13-01T00:00Z", "2026-11-14T24:00Z", "2026-1-1T00:00Z"]
        {
            assert!(wrong.parse::<Utc>().is_err(), "{wrong}");
        }
        // However absurd a time is, it is shown.
        assert!(text(u64::MAX).ends_with('Z'));
    }
}
