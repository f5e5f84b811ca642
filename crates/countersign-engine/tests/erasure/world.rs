//! A gate with a clock that tests turn, and everything that can be done to one person's fact.

use countersign_core::call::{EffectId, Evidence, FoundCode, Outcome};
use countersign_core::fence::ClaimId;
use countersign_core::identity::Auth;
use countersign_core::ids::{AgentId, FactId};
use countersign_core::record::Leaf;
use countersign_core::review::ReviewId;
use countersign_engine::audit::{AuditReport, audit};
use countersign_engine::gate::{Environment, EraseError, Gate, Options};
use countersign_engine::request::{Answer, Refusal, Request, Settlement};
use countersign_engine::storage::disk::RealDisk;
use countersign_testing::gate::{ORIGIN, feed, log_key, on_folder_by, operator, publish};
use countersign_testing::hands::Hands;
use serde_json::{Value as Json, json};
use std::path::Path;
use std::sync::Arc;

/// The id of a fact that nothing may be left of.
pub const MAIL: &str = "ada@example.com";
pub const DAY_MS: u64 = 24 * 60 * 60 * 1000;

const PACT: &str = r#"
pact = "crm"
version = 1

[facts.Customer]
attributes = { name = "String", open = "Bool" }

[observe.Customer]
who = 'true'
attributes = "*"

[claim.Customer]
who = 'true'
max = "10s"

[action.rename]
resource = 'Customer::"{mail}"'
allow = 'true'
set = { name = "context.name" }

[action.rename.params]
type = "object"
additionalProperties = false
required = ["mail", "name"]
properties.mail = { type = "string", maxLength = 64 }
properties.name = { type = "string", maxLength = 64 }

[[action.rename.require]]
id = "is-open"
that = 'resource.open'

[action.quietly]
mode = "shadow"
resource = 'Customer::"{mail}"'
allow = 'true'
set = { name = '"quiet"' }

[[action.quietly.require]]
id = "is-closed"
that = '!resource.open'

[action.close]
resource = 'Customer::"{mail}"'
allow = 'true'
set = { open = "false" }

[[action.close.require]]
id = "is-closed"
that = '!resource.open'
on_fail = "review"

[action.write]
resource = 'Customer::"{mail}"'
allow = 'true'
budget = { count = true, max = 100, per = "1d", by = "agent" }
call.http = "mail"
call.path = "/send/{mail}"
call.body = { to = "context.mail", name = "resource.name" }
call.after = "1ms"
call.probe = { path = "/sent/{call.key}" }

[[action.write.require]]
id = "is-open"
that = 'resource.open'
"#;

pub struct World {
    pub dir: tempfile::TempDir,
    clock: Arc<Hands>,
    gate: Option<Gate>,
    opened: u8,
    keys: std::cell::Cell<u64>,
}

impl World {
    /// A gate with a pact and an agent.
    pub fn new() -> Self {
        let clock = Hands::at(1_700_000_000_000);
        let mut world =
            Self { dir: tempfile::tempdir().unwrap(), clock, gate: None, opened: 0, keys: std::cell::Cell::new(0) };
        world.open();
        world.call(publish(PACT)).unwrap();
        world.call(feed("Agent::\"clerk\"", r#"{"roles":[],"standing":"active","org":"a","trust":1}"#)).unwrap();
        world
    }

    pub fn open_again(&mut self) {
        self.open();
    }

    fn open(&mut self) {
        self.opened += 1;
        // Other randomness each time, as a real gate has: tags must not come twice.
        let environment =
            Environment { seed: [self.opened; 32], ..on_folder_by(self.dir.path(), Arc::<Hands>::clone(&self.clock)) };
        self.gate =
            Some(Gate::open(environment, Options { segment_bytes: 1 << 20, ..Options::new(ORIGIN) }).unwrap().0);
    }

    pub fn gate(&self) -> &Gate {
        self.gate.as_ref().unwrap()
    }

    pub fn close(&mut self) {
        self.gate.take().unwrap().close().unwrap();
    }

    /// Ends and starts again, from the newest snapshot or from the log alone.
    pub fn restart(&mut self, without_snapshots: bool) {
        self.close();
        for file in std::fs::read_dir(self.dir.path()).unwrap() {
            let path = file.unwrap().path();
            if without_snapshots && path.extension().is_some_and(|extension| extension == "snap") {
                std::fs::remove_file(path).unwrap();
            }
        }
        self.open();
    }

    pub fn pass(&self, ms: u64) {
        self.clock.pass(ms);
    }

    pub fn call(&self, request: Request) -> Result<Answer, Refusal> {
        self.gate().call(request)
    }

    pub fn entered(&self, request: Request) -> u64 {
        index(self.call(request).unwrap())
    }

    pub fn feed(&self, mail: &str, name: &str) -> u64 {
        self.entered(feed(&customer(mail).to_string(), &json!({"name": name, "open": true}).to_string()))
    }

    pub fn delete(&self, mail: &str) -> u64 {
        let fact = customer(mail);
        self.entered(Request::Feed { by: operator(), auth: Auth::None, fact, value: None, if_match: None })
    }

    pub fn act(&self, action: &str, params: Json) -> u64 {
        self.keys.set(self.keys.get() + 1);
        let token = self.gate().observe(clerk(), vec![customer(MAIL)]).unwrap().token;
        let body = json!({
            "pact": "crm", "action": action, "idempotency_key": format!("{:032}", self.keys.get()),
            "params": params, "observations": [token],
        });
        let action = self.gate().admit(clerk(), Auth::None, body.to_string().into()).unwrap();
        self.entered(Request::Act(Box::new(action)))
    }

    pub fn claim(&self, mail: &str) -> u64 {
        let reason = format!("{mail} has called").into();
        self.entered(Request::Claim {
            by: clerk(),
            auth: Auth::None,
            facts: vec![customer(mail)],
            for_ms: 5000,
            reason,
        })
    }

    pub fn withdraw(&self, claim: u64) -> u64 {
        self.entered(Request::WithdrawClaim { by: clerk(), auth: Auth::None, claim: ClaimId(claim) })
    }

    /// Begins a call; it has left.
    pub fn sent(&self, mail: &str) -> EffectId {
        let effect = EffectId(self.act("write", json!({"mail": mail})));
        self.pass(2);
        self.entered(Request::Dispatch { effect });
        effect
    }

    pub fn settle(&self, effect: EffectId, outcome: Outcome, answer: &str) -> u64 {
        let evidence = Evidence {
            status: Some(201),
            result: Some(answer.into()),
            ..Evidence::of(FoundCode::Resolved.said("answered"))
        };
        self.entered(Request::Settle(Box::new(Settlement {
            effect,
            outcome,
            evidence,
            judged: None,
            is_stopped: false,
            found: Default::default(),
            beside: Vec::new(),
        })))
    }

    pub fn resolve(&self, effect: EffectId) -> u64 {
        let reason = format!("{MAIL} says that it came").into();
        let outcome = Outcome::Settled;
        self.entered(Request::Resolve { by: operator(), auth: Auth::None, effect, outcome, attempts: 1, reason })
    }

    pub fn approve(&self, review: u64) -> u64 {
        let shown = self.gate().show_review(ReviewId(review), &operator()).unwrap().shown;
        let until_ms = shown.at_ms + 60_000;
        self.entered(Request::Approve { by: operator(), auth: Auth::None, shown: Box::new(shown), until_ms })
    }

    pub fn refuse(&self, review: u64) -> u64 {
        let reason = format!("{MAIL} does not want it").into();
        self.entered(Request::Refuse { by: operator(), auth: Auth::None, review: ReviewId(review), reason })
    }

    pub fn erase(&self, entries: &[u64]) -> Result<u64, EraseError> {
        self.gate().erase(operator(), Auth::None, entries, "request 7".into())
    }

    pub fn kind(&self, entry: u64) -> String {
        Leaf::decode(&self.gate().read_log(entry).unwrap().leaf).unwrap().kind.to_string()
    }

    /// The files of the folder that hold a text, whole or as JSON or a URL write it.
    pub fn files_with(&self, text: &str) -> Vec<String> {
        let forms = [text.to_owned(), text.replace('@', "%40"), text.replace('@', "\\u0040")];
        let files = std::fs::read_dir(self.dir.path()).unwrap().map(|file| file.unwrap().path());
        let holds = |path: &Path| {
            // What is being written has a name of its own for a moment.
            let bytes = std::fs::read(path).unwrap_or_default();
            // The rest of a segment is reserved, and zero.
            let bytes = &bytes[..bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)];
            forms.iter().any(|form| bytes.windows(form.len()).any(|window| window == form.as_bytes()))
        };
        files.filter(|path| holds(path)).map(|path| path.display().to_string()).collect()
    }

    pub fn audit(&self) -> AuditReport {
        audit(&RealDisk::open(self.dir.path()).unwrap(), &log_key(), &mut |_| ()).unwrap()
    }
}

pub fn customer(mail: &str) -> FactId {
    format!("Customer::\"{mail}\"").parse().unwrap()
}

fn clerk() -> AgentId {
    AgentId::new("clerk").unwrap()
}

pub fn index(answer: Answer) -> u64 {
    let Answer::Entered(entered) = answer else { panic!("{answer:?}") };
    entered.entry.index
}
