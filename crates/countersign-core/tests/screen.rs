//! Precision and recall of screening on the texts in `tests/screen`, printed with `--nocapture`, with bars that must not sink.

use countersign_core::screen::{Findings, HIDDEN, INJECTION, LOOKALIKE, OVERSIZED, SECRET, Screen};
use std::collections::BTreeMap;
use std::fmt::Write as _;

mod forms;

const BENIGN: &str = include_str!("screen/benign.txt");
const BUSINESS: &str = include_str!("screen/business.txt");
const MAIL: &str = include_str!("screen/mail.txt");
const MALICIOUS: &str = include_str!("screen/malicious.txt");
const PARAPHRASED: &str = include_str!("screen/paraphrased.txt");

/// A text of the corpus: its class and what it is once its directives are carried out.
fn texts(file: &str) -> Vec<(&str, String)> {
    let lines = file.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| line.split_once(" | ").expect("a class and a text"))
        .map(|(class, text)| (class, forms::made(text)))
        .collect()
}

fn screen() -> Screen {
    Screen::new(["transfer_funds", "delete_records"], [forms::CANARY])
}

/// What a text is found to be, as JSON where it is some.
fn screened(screen: &Screen, text: &str) -> Findings {
    if text.starts_with(['{', '[']) { screen.json(text) } else { screen.text(text) }
}

fn expected(class: &str) -> &'static str {
    match class {
        "hidden" => HIDDEN,
        "lookalike" => LOOKALIKE,
        "oversized" => OVERSIZED,
        "secret" => SECRET,
        _ => INJECTION,
    }
}

/// How many of how many, as the table of the documentation has it.
#[derive(Default)]
struct Count {
    found: usize,
    of: usize,
}

impl Count {
    fn add(&mut self, is_found: bool) {
        self.found += usize::from(is_found);
        self.of += 1;
    }

    fn percent(&self) -> usize {
        100 * self.found / self.of.max(1)
    }
}

#[test]
fn what_screening_finds_and_what_it_does_not() {
    let screen = screen();
    let mut table = String::new();
    let mut missed = String::new();
    let mut recall: BTreeMap<&str, Count> = BTreeMap::new();
    let mut right: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong: BTreeMap<&str, usize> = BTreeMap::new();
    for (class, text) in texts(MALICIOUS) {
        let wanted = expected(class);
        let is_found = screened(&screen, &text).labels().contains(wanted);
        recall.entry(class).or_default().add(is_found);
        if is_found {
            *right.entry(wanted).or_default() += 1;
        } else {
            let _ = writeln!(missed, "missed {class}: {}", text.chars().take(120).collect::<String>());
        }
    }
    let mut benign: BTreeMap<&str, Count> = BTreeMap::new();
    for (name, file) in [("benign", BENIGN), ("business", BUSINESS), ("mail", MAIL)] {
        for (class, text) in texts(file) {
            let findings = screened(&screen, &text);
            benign.entry(name).or_default().add(findings.is_empty());
            findings.labels().iter().for_each(|label| *wrong.entry(label).or_default() += 1);
            if !findings.is_empty() {
                let rules: Vec<_> = findings.found().iter().map(|finding| finding.rule).collect();
                let _ = writeln!(missed, "wrong {class}: {rules:?} {text}");
            }
        }
    }
    let mut paraphrased = Count::default();
    for (_, text) in texts(PARAPHRASED) {
        paraphrased.add(screened(&screen, &text).labels().contains(INJECTION));
    }
    for (class, count) in &recall {
        let _ = writeln!(table, "recall {class}: {} of {}", count.found, count.of);
    }
    for label in [INJECTION, HIDDEN, LOOKALIKE, OVERSIZED, SECRET] {
        let (right, wrong) = (right.get(label).copied().unwrap_or(0), wrong.get(label).copied().unwrap_or(0));
        let _ = writeln!(table, "precision {label}: {right} of {}", right + wrong);
    }
    for (name, count) in &benign {
        let _ = writeln!(table, "{name} without a finding: {} of {}", count.found, count.of);
    }
    let _ = writeln!(table, "paraphrased: {} of {}", paraphrased.found, paraphrased.of);
    println!("{table}{missed}");
    assert!(recall.values().map(|count| count.of).sum::<usize>() >= 150 && paraphrased.of == 50);
    for count in benign.values() {
        assert!(count.of >= 40 && count.percent() >= 95, "{table}{missed}");
    }
    for (class, count) in &recall {
        assert!(count.percent() >= 80, "{class}\n{table}{missed}");
    }
}

#[test]
fn the_safe_form_of_every_text_hides_nothing_and_leaks_nothing() {
    let screen = screen();
    for (class, text) in [BENIGN, BUSINESS, MAIL, MALICIOUS, PARAPHRASED].into_iter().flat_map(texts) {
        let shown = screen.safe(&text, 1 << 20);
        let findings = screened(&screen, &shown);
        let is_left = findings.labels().iter().any(|label| [HIDDEN, SECRET].contains(label));
        assert!(!is_left, "{class}: {text}\n{shown}\n{:?}", findings.found());
    }
}
