//! Ledger time for people.

use std::fmt;

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

#[cfg(test)]
mod tests {
    use super::Utc;

    #[test]
    fn it_is_the_calendar_in_utc() {
        let text = |ms: u64| Utc(ms).to_string();
        assert_eq!(text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(text(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(text(1_794_700_000_123), "2026-11-14T23:46:40.123Z");
        assert_eq!(text(4_107_542_399_999), "2100-02-28T23:59:59.999Z");
        // However absurd a time is, it is shown.
        assert!(text(u64::MAX).ends_with('Z'));
    }
}
