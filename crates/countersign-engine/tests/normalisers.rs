//! Spellings of one thing are one fact: in what is compared, fenced and recorded.

use countersign_core::code::Code;
use countersign_core::decision::Verdict;
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::reason::{IdProblem, Reason, SpellingProblem};
use countersign_core::record::{Decided, Event};
use countersign_engine::audit::audit;
use countersign_engine::gate::Gate;
use countersign_engine::request::{Answer, Request};
use countersign_engine::storage::disk::RealDisk;
use countersign_testing::gate::{feed, log_key, open, publish};

const PACT: &str = r#"
pact = "files"
version = 1

[facts.File]
attributes = { size = "Long", owner = "String" }

[facts.Contact]
attributes = { blocked = "Bool" }

[observe.File]
who = 'true'
attributes = "*"

[action.cut]
resource = { fact = 'File::"{path|normal}"', unchanged = true }
reads.owner = 'Contact::"{resource.owner|lower}"'
allow = 'true'
set = { size = "0" }

[[action.cut.require]]
id = "owner-may"
that = '!context.owner.blocked'

[action.send]
resource = 'File::"{path|normal}"'
allow = 'true'
set = { size = "resource.size + 1" }
call = { http = "mail", path = "/send" }

[[action.send.require]]
id = "not-empty"
that = 'resource.size > 0'
"#;

const PARAMS: &str =
    "type = \"object\"\nadditionalProperties = false\nrequired = [\"path\"]\nproperties.path = { type = \"string\" }\n";

fn act(gate: &Gate, number: u32, kind: &str, path: &str, token: Option<&str>) -> Decided {
    let body = serde_json::json!({
        "pact": "files", "action": kind, "idempotency_key": format!("{number:032}"),
        "params": {"path": path}, "observations": token.into_iter().collect::<Vec<_>>(),
    });
    let action = gate.admit(AgentId::new("ann").unwrap(), Auth::None, body.to_string().into()).unwrap();
    let Answer::Entered(entered) = gate.call(Request::Act(Box::new(action))).unwrap() else { panic!() };
    let Event::Action(decided) = &entered.entry.event else { panic!() };
    (**decided).clone()
}

#[test]
fn every_spelling_of_one_thing_is_compared_fenced_and_recorded_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    let params = |name: &str| format!("\n[action.{name}.params]\n{PARAMS}");
    gate.call(publish(&format!("{PACT}{}{}", params("cut"), params("send")))).unwrap();
    gate.call(feed("Agent::\"ann\"", r#"{"roles":[],"standing":"active","org":"a","trust":1}"#)).unwrap();
    gate.call(feed("File::\"notes/today.md\"", r#"{"size":3,"owner":"Ann@Example.com"}"#)).unwrap();
    gate.call(feed("Contact::\"ann@example.com\"", r#"{"blocked":false}"#)).unwrap();
    let observed =
        gate.observe(AgentId::new("ann").unwrap(), vec!["File::\"notes/today.md\"".parse().unwrap()]).unwrap();
    let token = Some(observed.token.as_str());

    let first = act(&gate, 1, "cut", "./notes//drafts/../today.md", token);
    assert_eq!(first.decision.verdict, Verdict::Committed);
    assert_eq!(first.decision.writes[0].fact.to_string(), "File::\"notes/today.md\"");
    assert_eq!(first.decision.reads.iter().filter(|it| it.fact.ty().as_str() == "Contact").count(), 1);
    // Under another spelling, it has still changed since it was observed.
    let second = act(&gate, 2, "cut", "notes/./today.md/", token);
    assert_eq!(second.decision.reason().map(Reason::code), Some(Code::PreconditionFailed));

    // A fence on one spelling is a fence on all.
    gate.call(feed("File::\"notes/today.md\"", r#"{"size":3,"owner":"Ann@Example.com"}"#)).unwrap();
    assert!(matches!(act(&gate, 3, "send", "notes/today.md", None).decision.verdict, Verdict::InFlight(_)));
    let fenced = act(&gate, 4, "send", "notes//today.md", None);
    assert_eq!(fenced.decision.reason().map(Reason::code), Some(Code::FactFenced));

    for (number, path, why) in [
        (5, "../today.md", SpellingProblem::AboveRoot),
        (6, "notes\\today.md", SpellingProblem::Backslash),
        (7, "", SpellingProblem::NoPath),
    ] {
        let refused = act(&gate, number, "send", path, None);
        let Some(Reason::InvalidFactId { why: found, .. }) = refused.decision.reason() else { panic!("{refused:?}") };
        assert_eq!(*found, IdProblem::Spelling { why });
    }
    gate.close().unwrap();
    let report = audit(&RealDisk::open(dir.path()).unwrap(), &log_key(), &mut |_| ()).unwrap();
    assert_eq!((report.verified, &report.differing), (report.entries, &vec![]), "{report:?}");
}
