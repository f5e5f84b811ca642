//! Whether a call may still leave is asked when a connection takes it, and no link is opened without need.

use super::*;
use countersign_core::call::FoundCode;
use countersign_engine::outbox::Leave;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicU32, Ordering};

/// Lets a call pass so often, and no more: anyone who asks only before it waits for something does not hear of it.
struct Halted {
    after: u32,
    asked: Arc<AtomicU32>,
}

impl Judge for Halted {
    fn stopped(&self) -> Option<Reason> {
        None
    }
    fn leave(&self) -> Leave {
        let (after, asked) = (self.after, Arc::clone(&self.asked));
        Leave::new(move || (asked.fetch_add(1, Ordering::SeqCst) >= after).then(|| FoundCode::Stopped.about("halted")))
    }
    fn schema(&self, _: &FactId) -> FactSchema {
        FactSchema::default()
    }
    fn judge(&self, _: &[FactAsRead]) -> Result<Send, Reason> {
        Ok(tool("transfer"))
    }
}

#[test]
fn a_halt_that_comes_while_a_call_waits_for_its_connection_is_asked_for_by_the_connection() {
    let world = World::new();
    let call = call("transfer", None);
    for after in [0, 1] {
        let judge = Halted { after, asked: Arc::default() };
        let held =
            world.adapter.attempt(&Job { effect: EffectId(1), call: &call, key: "cs-1", attempt: 1, judge: &judge });
        assert!(matches!(&held, Attempt::NotSent(evidence) if evidence.words().contains("halted")), "{held:?}");
        assert_eq!(judge.asked.load(Ordering::SeqCst), after + 1);
    }
    assert_eq!(world.asked(), Vec::<String>::new(), "nothing arrived");
    let judge = Halted { after: 2, asked: Arc::default() };
    let done = world.adapter.attempt(&Job { effect: EffectId(1), call: &call, key: "cs-1", attempt: 1, judge: &judge });
    assert!(matches!(done, Attempt::Done(_)), "{done:?}");
    assert_eq!(world.asked(), ["transfer"]);
}

/// A server that is a program: says that there is no such account, writes down each start, and takes its time to end.
const PROGRAM: &str = r#"#!/bin/sh
echo started >> "$0.starts"
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
        *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{}}' ;;
        *'"tools/list"'*) result='{"tools":[{"name":"get_account","inputSchema":{"type":"object"}}]}' ;;
        *'"tools/call"'*) result='{"isError":true,"content":[{"type":"text","text":"no such account"}]}' ;;
        *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
sleep 1
"#;

#[test]
fn each_fact_that_is_not_there_starts_a_program() {
    let folder = tempfile::tempdir().expect("there is room");
    let program = folder.path().join("server");
    std::fs::write(&program, PROGRAM).expect("is written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("may be run");
    let threads = Threads::new(1 << 30).expect("there are threads");
    let words = vec![program.display().to_string()];
    let adapter = adapter(Place::Command(Program { words, env: Vec::new() }), threads);
    let read = call("transfer", Some(("none", "/structuredContent"))).outside.remove(0);
    for _ in 0..40 {
        let refused = adapter.observe(&read, &FactSchema::default()).expect_err("is not there").to_string();
        assert!(refused.contains("no such account"), "{refused}");
    }
    let starts = std::fs::read_to_string(program.with_extension("starts")).expect("was started");
    assert_eq!(starts.lines().count(), 1, "one program is asked all of it");
}

#[test]
fn a_read_that_takes_long_is_cancelled_and_only_a_server_that_is_silent_is_ended() {
    let world = World::new();
    let link = world.adapter.connection().expect("opens");
    let ask = |tool: &str, ms: u64| {
        let asked =
            world.adapter.call(&link, tool, &json!({"id": "42"}), None, Instant::now() + Duration::from_millis(ms));
        asked.map(drop).inspect_err(|lost| world.adapter.unanswered(&link, lost))
    };
    ask("hangs", 50).expect_err("takes long");
    assert!(link.is_open(), "others have it open, and what they did is in its memory");
    ask("get_account", 20_000).expect("answers");
    for _ in 0..2 {
        ask("hangs", 50).expect_err("takes long");
        assert!(link.is_open());
    }
    ask("hangs", 50).expect_err("takes long");
    assert!(!link.is_open(), "it answers nothing any more");
}
