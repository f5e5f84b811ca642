//! Output as a guide shows it, compared with what was printed.

use anyhow::{Result, bail};

/// Each line that is shown was printed, in that order. `…` stands for anything, and what differs from run to run (times, durations,
/// keys, hashes) may differ here too. Entries, versions and codes may not: they follow from the guide.
pub fn compare(shown: &str, printed: &str) -> Result<()> {
    let mut rest = printed.lines();
    for line in shown.lines().filter(|line| !line.trim().is_empty() && line.trim() != "…") {
        if !rest.any(|candidate| fits(line.trim_end(), candidate.trim_end())) {
            bail!("the guide shows this line, and it was not printed there:\n  {line}\nwhat was printed:\n{printed}");
        }
    }
    Ok(())
}

fn fits(shown: &str, printed: &str) -> bool {
    let printed = without_what_varies(printed);
    let parts: Vec<String> = shown.split('…').map(without_what_varies).collect();
    let Some((first, others)) = parts.split_first() else { return false };
    let Some(mut rest) = printed.strip_prefix(first.as_str()) else { return false };
    let Some((last, middle)) = others.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some((_, after)) = rest.split_once(part.as_str()) else { return false };
        rest = after;
    }
    rest.ends_with(last.as_str())
}

/// Replaces times of day, durations, process ids and long runs of random letters.
fn without_what_varies(line: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in line.chars().chain([' ']) {
        if c.is_alphanumeric() || matches!(c, '-' | ':' | '.' | '+' | '_') {
            word.push(c);
            continue;
        }
        let tail = word.trim_start_matches(|c: char| !c.is_alphanumeric());
        out.push_str(if is_time(tail) || is_random(tail) { "~" } else { &word });
        word.clear();
        out.push(c);
    }
    out.pop();
    durations(&out)
}

/// `2026-11-15T09:30:00.123Z`
fn is_time(word: &str) -> bool {
    word.len() >= 20 && word.contains('T') && word.ends_with('Z') && word.starts_with(|c: char| c.is_ascii_digit())
}

/// A hash, a key or a token: long, with digits and letters mixed.
fn is_random(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    word.len() >= 32 && digits >= 4 && word.chars().any(char::is_alphabetic)
}

/// `150 ms` and `1.2 s` become `~ ms` and `~ s`.
fn durations(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let numeric = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let unit = |word: Option<&&str>| {
        word.is_some_and(|word| matches!(word.trim_end_matches([',', ';', ':', ')']), "ms" | "s"))
    };
    let shown = |(at, word): (usize, &&str)| {
        if numeric(word) && unit(words.get(at + 1)) { "~".to_owned() } else { (*word).to_owned() }
    };
    words.iter().enumerate().map(shown).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_varies_may_differ_and_the_rest_may_not() {
        let shown = "rejected in entry 7, 150 ms after it was observed\n      changed by fraud at 2026-11-15T09:30:00.140Z in entry 6\n";
        let printed = shown.replace("150 ms", "3 ms").replace("2026-11-15T09:30", "2027-01-01T00:00");
        let printed = format!("log line\n{}", printed.replace("observed\n", "observed\nmore\n"));
        assert!(compare(shown, &printed).is_ok());
        assert!(compare(shown, &printed.replace("entry 6", "entry 5")).is_err());
        assert!(compare(shown, &printed.replace("fraud", "ada")).is_err());
    }

    #[test]
    fn an_ellipsis_stands_for_anything_and_order_counts() {
        assert!(compare("a … c\n…\nlast\n", "a b c\nx\nlast\n").is_ok());
        assert!(compare("a … c\n", "a b d\n").is_err());
        assert!(compare("second\nfirst\n", "first\nsecond\n").is_err());
    }
}
