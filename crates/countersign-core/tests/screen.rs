//! Precision and recall of screening on the texts in `tests/screen`, printed with `--nocapture`, with bars that must not sink.

use countersign_core::screen::{Screen, Suspicion};
use std::collections::BTreeMap;
use std::fmt::Write as _;

mod forms;

const BENIGN: &str = include_str!("screen/benign.txt");
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

/// Which suspicions a text gives, as JSON where it is some.
fn suspicions(screen: &Screen, text: &str) -> Vec<Suspicion> {
    let is_json = text.starts_with(['{', '[']);
    let findings = if is_json { screen.json(text) } else { screen.text(text) };
    findings.suspicions().iter().copied().collect()
}

fn expected(class: &str) -> Suspicion {
    match class {
        "hidden" => Suspicion::Hidden,
        "lookalike" => Suspicion::Lookalike,
        "oversized" => Suspicion::Oversized,
        "secret" => Suspicion::Secret,
        _ => Suspicion::Injection,
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
    let mut right: BTreeMap<Suspicion, usize> = BTreeMap::new();
    let mut wrong: BTreeMap<Suspicion, usize> = BTreeMap::new();
    for (class, text) in texts(MALICIOUS) {
        let wanted = expected(class);
        let is_found = suspicions(&screen, &text).contains(&wanted);
        recall.entry(class).or_default().add(is_found);
        if is_found {
            *right.entry(wanted).or_default() += 1;
        } else {
            let _ = writeln!(missed, "missed {class}: {}", text.chars().take(120).collect::<String>());
        }
    }
    let mut benign = Count::default();
    for (class, text) in texts(BENIGN) {
        let found = suspicions(&screen, &text);
        benign.add(found.is_empty());
        for suspicion in &found {
            *wrong.entry(*suspicion).or_default() += 1;
            let rules: Vec<_> = screen.text(&text).found().iter().map(|finding| finding.rule).collect();
            let _ = writeln!(missed, "wrong {class} {}: {rules:?} {text}", suspicion.label());
        }
    }
    let mut paraphrased = Count::default();
    for (_, text) in texts(PARAPHRASED) {
        paraphrased.add(suspicions(&screen, &text).contains(&Suspicion::Injection));
    }
    for (class, count) in &recall {
        let _ = writeln!(table, "recall {class}: {} of {}", count.found, count.of);
    }
    for suspicion in
        [Suspicion::Injection, Suspicion::Hidden, Suspicion::Lookalike, Suspicion::Oversized, Suspicion::Secret]
    {
        let (right, wrong) = (right.get(&suspicion).copied().unwrap_or(0), wrong.get(&suspicion).copied().unwrap_or(0));
        let _ = writeln!(table, "precision {}: {right} of {}", suspicion.label(), right + wrong);
    }
    let _ = writeln!(table, "benign without a finding: {} of {}", benign.found, benign.of);
    let _ = writeln!(table, "paraphrased: {} of {}", paraphrased.found, paraphrased.of);
    println!("{table}{missed}");
    assert!(benign.of >= 150 && recall.values().map(|count| count.of).sum::<usize>() >= 150 && paraphrased.of == 50);
    assert!(benign.percent() >= 97, "{table}{missed}");
    for (class, count) in &recall {
        assert!(count.percent() >= 80, "{class}\n{table}{missed}");
    }
}

#[test]
fn the_safe_form_of_every_text_hides_nothing_and_leaks_nothing() {
    let screen = screen();
    for (class, text) in [BENIGN, MALICIOUS, PARAPHRASED].into_iter().flat_map(texts) {
        let shown = screen.safe(&text, 1 << 20);
        let found = suspicions(&screen, &shown);
        let is_left = found.iter().any(|s| matches!(s, Suspicion::Hidden | Suspicion::Secret));
        assert!(!is_left, "{class}: {text}\n{shown}\n{:?}", screen.text(&shown).found());
    }
}
