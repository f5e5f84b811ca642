//! Replaces what differs from run to run by its name.

/// Replaces everything that differs between runs.
pub fn redact(text: &str, dir: &str) -> String {
    let text = text.replace(dir, "<dir>");
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let text = runs(
        &text,
        |c| c.is_ascii_alphanumeric() || "+/=._-".contains(c),
        |run| {
            let key = run.contains("/log+").then_some("<key>");
            key.or(run.starts_with("obs1.").then_some("<observation>"))
                .or(run.starts_with("rct1.").then_some("<receipt>"))
        },
    );
    let text =
        runs(&text, |c| c.is_ascii_alphanumeric() || c == ':', |run| run.starts_with("did:key:").then_some("<did>"));
    let text = runs(
        &text,
        |c| c.is_ascii_digit() || "-T:.Z".contains(c),
        |run| (run.len() == 24 && run.ends_with('Z') && run.contains('T')).then_some("<time>"),
    );
    let text = runs(&text, hex, |run| match run.len() {
        64 => Some("<hash>"),
        32 => Some("<key>"),
        24 => Some("<tag>"),
        13 if run.starts_with("17") || run.starts_with("18") => Some("<ms>"),
        _ => None,
    });
    let text = after(&text, "127.0.0.1:", "<port>", |port| port != "8420" && port != "9000");
    let text = after(&text, "process ", "<pid>", |_| true);
    let text = after(&text, "\"gap_ms\":", "<gap>", |_| true);
    gaps(&text)
}

/// Replaces maximal runs of characters of one class where `name` gives them one.
fn runs(text: &str, class: impl Fn(char) -> bool, name: impl Fn(&str) -> Option<&'static str>) -> String {
    let (mut out, mut run) = (String::new(), String::new());
    for c in text.chars().chain(['\0']) {
        if c != '\0' && class(c) {
            run.push(c);
            continue;
        }
        out.push_str(name(&run).unwrap_or(&run));
        run.clear();
        if c != '\0' {
            out.push(c);
        }
    }
    out
}

/// Replaces the number after a word.
fn after(text: &str, word: &str, name: &str, wanted: impl Fn(&str) -> bool) -> String {
    let mut parts = text.split(word);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.chars().take_while(char::is_ascii_digit).count();
        out.push_str(word);
        let (number, rest) = part.split_at(digits);
        out.push_str(if digits > 0 && wanted(number) { name } else { number });
        out.push_str(rest);
    }
    out
}

/// Replaces spans of time in sentences, such as `12 ms after` and `12 ms before`.
fn gaps(text: &str) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for at in 1..words.len() {
        let unit = words[at].trim_end_matches([',', ';', '.', ')', '\n']).to_owned();
        let number = words[at - 1].trim_start_matches('(').to_owned();
        let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.');
        if is_number && ["ms", "s"].contains(&unit.as_str()) {
            words[at - 1] = words[at - 1].replace(&number, "<n>");
            if unit == "s" {
                words[at] = words[at].replacen('s', "ms", 1);
            }
        }
    }
    words.join(" ")
}

#[test]
fn what_differs_is_named_and_the_rest_stays() {
    let hash = "a".repeat(64);
    let text = format!("entry 3 at 2026-11-15T09:30:00.123Z sha256 {hash}, 15 ms after; obs1.AAb_ /x/y 127.0.0.1:4711");
    assert_eq!(
        redact(&text, "/x"),
        "entry 3 at <time> sha256 <hash>, <n> ms after; <observation> <dir>/y 127.0.0.1:<port>"
    );
}
