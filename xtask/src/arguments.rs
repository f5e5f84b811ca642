//! What may be written after `cargo xtask`, parsed once into a [`Task`].
//!
//! Unknown words are refused: a mistyped `--only` that silently ran nothing would look like success.

use anyhow::{Context, Result, bail};

/// The text of `cargo xtask help`.
pub const HELP: &str = "\
cargo xtask <task>

  test [--long] [--only STEP]   everything CI runs, in order; stops at the first step that fails
                                --long adds the soaks and sweeps, --only runs one step (and its set-up)
  tidy                          style checks that rustfmt and clippy do not know
  requirements                  writes docs/requirements.md from the rows that `countersign conform` reports on
  sim  [--seed N] [--seeds A..B]  one simulated schedule again, or a range of them
  fuzz [--seconds N]            every fuzz target for N seconds (10 unless told)
";

/// How long each fuzz target runs unless told otherwise.
pub const FUZZ_SECONDS: u64 = 10;

/// One parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Task {
    /// Print [`HELP`].
    Help,
    /// Run the steps of CI.
    Test { long: bool, only: Option<String> },
    /// Run the style checks alone.
    Tidy,
    /// Write the document of requirements.
    Requirements,
    /// Run the simulator; the words are checked here and read there.
    Sim { passed_on: Vec<String> },
    /// Run the fuzz targets.
    Fuzz { seconds: u64 },
}

/// Reads a command line.
pub fn parse(words: &[String]) -> Result<Task> {
    let mut rest = words.iter().map(String::as_str);
    let task = rest.next().unwrap_or("help");
    match task {
        "help" | "--help" | "-h" => Ok(Task::Help),
        "test" => parse_test(rest),
        "tidy" => alone(Task::Tidy, rest.next()),
        "requirements" => alone(Task::Requirements, rest.next()),
        "sim" => parse_sim(rest),
        "fuzz" => parse_fuzz(rest),
        word => unknown(word),
    }
}

/// A task that takes no words.
fn alone(task: Task, next: Option<&str>) -> Result<Task> {
    match next {
        None => Ok(task),
        Some(word) => unknown(word),
    }
}

fn parse_test<'a>(mut rest: impl Iterator<Item = &'a str>) -> Result<Task> {
    let (mut long, mut only) = (false, None);
    while let Some(word) = rest.next() {
        match word {
            "--long" => long = true,
            "--only" => only = Some(value(word, rest.next())?.to_owned()),
            word => return unknown(word),
        }
    }
    Ok(Task::Test { long, only })
}

fn parse_sim<'a>(mut rest: impl Iterator<Item = &'a str>) -> Result<Task> {
    let mut passed_on = Vec::new();
    while let Some(word) = rest.next() {
        let value = match word {
            "--seed" => number(word, rest.next()).map(|seed| seed.to_string())?,
            "--seeds" => range(word, rest.next())?,
            word => return unknown(word),
        };
        passed_on.extend([word.to_owned(), value]);
    }
    Ok(Task::Sim { passed_on })
}

fn parse_fuzz<'a>(mut rest: impl Iterator<Item = &'a str>) -> Result<Task> {
    let mut seconds = FUZZ_SECONDS;
    while let Some(word) = rest.next() {
        match word {
            "--seconds" => seconds = number(word, rest.next())?,
            word => return unknown(word),
        }
    }
    Ok(Task::Fuzz { seconds })
}

fn range(flag: &str, given: Option<&str>) -> Result<String> {
    let text = value(flag, given)?;
    let ends = text.split_once("..").map(|(a, b)| (a.parse::<u64>(), b.parse::<u64>()));
    match ends {
        Some((Ok(first), Ok(end))) if first < end => Ok(text.to_owned()),
        _ => bail!("{flag} {text:?} is not a range of seeds\nhint: write it as 0..1000, the end is not included"),
    }
}

fn number(flag: &str, given: Option<&str>) -> Result<u64> {
    let text = value(flag, given)?;
    text.parse().with_context(|| format!("{flag} needs a whole number, not {text:?}"))
}

fn value<'a>(flag: &str, given: Option<&'a str>) -> Result<&'a str> {
    given.with_context(|| format!("{flag} needs a value\nhint: see `cargo xtask help`"))
}

fn unknown(word: &str) -> Result<Task> {
    bail!("{word:?} is not known here\nhint: see `cargo xtask help`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn every_documented_form_is_read() {
        let only = Some("docs".to_owned());
        assert_eq!(parsed("").unwrap(), Task::Help);
        assert_eq!(parsed("test --long --only docs").unwrap(), Task::Test { long: true, only });
        assert_eq!(parsed("tidy").unwrap(), Task::Tidy);
        assert_eq!(parsed("requirements").unwrap(), Task::Requirements);
        let passed_on = vec!["--seeds".to_owned(), "3..9".to_owned()];
        assert_eq!(parsed("sim --seeds 3..9").unwrap(), Task::Sim { passed_on });
        assert_eq!(parsed("fuzz --seconds 2").unwrap(), Task::Fuzz { seconds: 2 });
    }

    #[test]
    fn mistakes_are_refused() {
        for line in [
            "tests",
            "test --olny docs",
            "test --only",
            "tidy now",
            "requirements all",
            "sim --seed x",
            "sim --seeds 9..3",
            "sim --seeds 9",
            "fuzz --seconds -1",
        ] {
            assert!(parsed(line).is_err(), "{line:?} was accepted");
        }
    }
}
