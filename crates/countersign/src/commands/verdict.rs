//! A verdict as people read it: what was decided, and for a rejection what changed, by whom, when and what to do.

use crate::client::in_commands;
use crate::terminal::{Paint, Stream, Tone, inline, note, say, time};
use countersign_api::{FailedPrecondition, FailedRead, Verdict, VerdictKind, Why};
use countersign_core::utc::Span;
use serde_json::Value;

/// Shows a verdict: the answer on stdout, where to look next on stderr.
pub fn show(verdict: &Verdict) {
    let paint = Paint::of(Stream::Out);
    let (tone, word) = match verdict.verdict {
        VerdictKind::Committed => (Tone::Good, "committed"),
        VerdictKind::Rejected => (Tone::Bad, "rejected"),
        VerdictKind::Review => (Tone::Warn, "review"),
        VerdictKind::InFlight => (Tone::Warn, "in flight"),
        VerdictKind::Settled => (Tone::Good, "settled"),
        VerdictKind::Failed => (Tone::Bad, "failed"),
        VerdictKind::InDoubt => (Tone::Bad, "in doubt"),
    };
    say(format_args!("{}{}", paint.word(tone, word), place(verdict)));
    let wrote = if verdict.checked { "would write" } else { "wrote" };
    for write in &verdict.wrote {
        say(format_args!("  {wrote} {} version {}", write.fact, write.version));
    }
    if let (Some(code), Some(message)) = (&verdict.code, &verdict.message) {
        say(format_args!("  {}: {}", paint.word(Tone::Strong, code), in_commands(&inline(message))));
    }
    // What waits for a person is not for its agent to repair.
    let is_parked = verdict.verdict == VerdictKind::Review;
    for failed in &verdict.failed {
        show_precondition(failed, paint, !is_parked);
    }
    // The hint of the first failed precondition is that of the verdict, and is said only once.
    let is_new = |hint: &&String| verdict.failed.iter().all(|failed| failed.hint != **hint);
    if let Some(hint) = verdict.hint.as_ref().filter(is_new).filter(|_| !is_parked) {
        say(format_args!("  hint: {}", in_commands(hint)));
    }
    if let Some(shadowed) = &verdict.shadowed {
        say(format_args!(
            "  in shadow mode; enforced, it would be rejected: {}: {}",
            shadowed.code,
            inline(&shadowed.message)
        ));
        for failed in &shadowed.failed {
            show_failed(failed, paint);
        }
    }
    if let Some(waived) = &verdict.waived_by {
        let what = waived.preconditions.join(", ");
        say(format_args!("  approved by {}, who waived: {what}", waived.reviewer));
    }
    if let (Some(review), Some(expires)) = (&verdict.review, verdict.expires_at) {
        say(format_args!("  waits for a person as {review} until {}", time(expires)));
        note(format_args!("A reviewer decides with `countersign review approve {review}` or `… refuse {review}`."));
    }
    if let Some(evidence) = &verdict.evidence {
        let times = if evidence.attempts == 1 { "once".to_owned() } else { format!("{} times", evidence.attempts) };
        say(format_args!("  tried {times}: {}", inline(&evidence.summary)));
    }
    match (&verdict.effect, verdict.dispatch_at) {
        (Some(effect), Some(at)) => say(format_args!("  {effect} cools until {}, then it is decided again", time(at))),
        (Some(effect), None) => note(format_args!("See `countersign effect show {effect}`.")),
        (None, _) => {}
    }
    if verdict.erased {
        note("The reasons of this verdict have been erased since.");
    }
    if let Some(entry) = verdict.entry {
        note(format_args!("See `countersign ledger show {entry}`; with `--receipt` it prints proof to keep."));
    }
}

fn place(verdict: &Verdict) -> String {
    let mut text = match verdict.entry {
        Some(entry) => format!(" in entry {entry}"),
        None => " if it were done now; nothing was written".to_owned(),
    };
    if let Some(pact) = &verdict.pact {
        text.push_str(&format!(", under {} version {}", pact.name, pact.version));
    }
    if let Some(gap) = verdict.gap_ms {
        text.push_str(&format!(", {} after it was observed", Span(gap)));
    }
    if verdict.repeated {
        text.push_str(" (decided before, under the same key)");
    }
    text
}

/// Shows a precondition that failed: what it says, what it rested on, and what to do.
pub fn show_failed(failed: &FailedPrecondition, paint: Paint) {
    show_precondition(failed, paint, true);
}

fn show_precondition(failed: &FailedPrecondition, paint: Paint, with_hint: bool) {
    let why = match failed.why {
        Why::False if failed.as_observed => "does not hold, and did not when it was observed",
        Why::False => "does not hold",
        Why::Error => "could not be evaluated",
        Why::Stale => "rests on an observation that is too old",
        Why::Unobserved => "needs an observation, and none was sent",
        Why::Unconfirmed => "rests on a fact that its source has not confirmed in time",
        Why::Changed => "rests on a version that is no longer current",
    };
    let gap = failed.gap_ms.map(|gap| format!(", {} after it was observed", Span(gap))).unwrap_or_default();
    say(format_args!("  {} {} {why}{gap}", paint.word(Tone::Bad, "✗"), paint.word(Tone::Strong, &failed.precondition)));
    say(format_args!("      that: {}", failed.that));
    if let Some(error) = &failed.error {
        say(format_args!("      {error}"));
    }
    for read in &failed.reads {
        say(format_args!("      {}: {}", read.attribute, change(read, paint)));
        if let (Some(by), Some(at), Some(entry)) = (&read.changed_by, read.changed_at, read.entry) {
            say(format_args!("        changed by {by} at {} in entry {entry}", time(at)));
        }
        if let (Some(by), Some(at), Some(entry)) = (&read.confirmed_by, read.confirmed_at, read.confirmed_in) {
            say(format_args!("        last confirmed by {by} at {} in entry {entry}", time(at)));
        }
        if let (Some(place), Some(at)) = (&read.read_in, read.read_at) {
            say(format_args!("        read in {place} at {}", time(at)));
        }
    }
    if with_hint {
        say(format_args!("      hint: {}", in_commands(&failed.hint)));
    }
}

/// What an agent had seen, and what is there: `"active" -> "frozen"`.
fn change(read: &FailedRead, paint: Paint) -> String {
    if read.withheld {
        return "withheld from this agent".to_owned();
    }
    let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "absent".to_owned(), Value::to_string);
    // Without an attribute it is about the fact as a whole, of which only the version has changed.
    if let (None, None, Some(seen), Some(now)) = (&read.expected, &read.actual, read.observed_version, read.version) {
        return format!("version {seen} -> {}", paint.word(Tone::Strong, format!("version {now}")));
    }
    let expected = if read.observed { shown(&read.expected) } else { "not observed".to_owned() };
    format!("{expected} -> {}", paint.word(Tone::Strong, shown(&read.actual)))
}
