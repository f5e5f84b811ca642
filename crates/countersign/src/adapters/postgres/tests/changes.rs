//! Calls that say which rows they change, and calls that do not: who is kept waiting, and by whom. The database's rows are what counts.

use super::world::{Other, World};
use crate::adapters::postgres::Postgres;
use crate::data::DataFolder;
use countersign_core::call::{EffectId, Outcome};
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::pact::load::load;
use countersign_core::record::Event;
use countersign_engine::request::{Answer, Request};
use countersign_testing::paying::Bank;
use serde_json::{Value, json};
use std::sync::Arc;

const ORIGIN: &str = "bench.example/changes";

/// `move` says that it changes another account as well. `sit` says nothing of what it changes, and rests on a seat being free.
const PACT: &str = r#"
pact = "desk"
version = 1

[facts.Row]
attributes = { status = "String", balance = "Long" }
source = { postgres = "bank", query = "select status, balance from accounts where id = $1" }

[facts.Seat]
attributes = { holder = "String" }
source = { postgres = "bank", query = "select holder from seats where id = $1" }

[action.move]
resource = 'Row::"{id}"'
allow = 'true'
changes = ['Row::"{to}"']

[action.move.call]
postgres = "bank"
run = [
    { sql = "update accounts set balance = balance - 1 where id = $1", params = ["context.id"] },
    { sql = "update accounts set balance = balance + 1 where id = $1", params = ["context.goal"] },
]

[action.move.params]
type = "object"
additionalProperties = false
required = ["id", "to", "goal"]
properties.id = { type = "string", maxLength = 16 }
properties.to = { type = "string", maxLength = 16 }
properties.goal = { type = "string", maxLength = 16 }

[[action.move.require]]
id = "covered"
that = 'resource.balance >= 1'

[action.sit]
resource = 'Row::"{id}"'
reads.neighbour = { fact = 'Seat::"{beside}"', optional = true }
allow = 'true'
call = { postgres = "bank", run = [{ sql = "insert into seats (id, holder) values ($1, $2)", params = ["context.seat", "context.id"] }] }

[action.sit.params]
type = "object"
additionalProperties = false
required = ["id", "seat", "beside"]
properties.id = { type = "string", maxLength = 16 }
properties.seat = { type = "string", maxLength = 16 }
properties.beside = { type = "string", maxLength = 16 }

[[action.sit.require]]
id = "the-seat-beside-it-is-free"
that = '!(context has neighbour)'
"#;

struct Desk {
    bank: Bank,
    world: World,
    _folder: tempfile::TempDir,
    keys: u64,
}

impl Desk {
    fn new(tables: &str) -> Self {
        let world = World::new();
        world.sql(tables);
        let folder = tempfile::tempdir().unwrap();
        let data = DataFolder::create(&folder.path().join("gate"), ORIGIN).unwrap();
        let gate = data.open(data.options()).unwrap().0;
        let bank = Bank::create(gate, Postgres::new(world.settings(), ORIGIN)).unwrap();
        let pact = Arc::new(load(PACT).unwrap_or_else(|problems| panic!("{problems:#?}")).pact);
        let by = AgentId::new("operator").unwrap();
        bank.gate.call(Request::Publish { by, auth: Auth::None, pact }).unwrap();
        Self { bank, world, _folder: folder, keys: 0 }
    }

    /// Acts; what became of it so far, and its entry.
    fn act(&mut self, action: &str, params: &Value) -> (String, u64) {
        self.keys += 1;
        let key = format!("desk-{:032}", self.keys);
        let body = json!({"pact": "desk", "action": action, "params": params, "idempotency_key": key}).to_string();
        let action = self.bank.gate.admit(AgentId::new("payer-1").unwrap(), Auth::None, body.into()).unwrap();
        let answer = self.bank.gate.call(Request::Act(Box::new(action))).unwrap();
        let Answer::Entered(entered) = answer else { panic!("{answer:?}") };
        let Event::Action(decided) = &entered.entry.event else { panic!("not an action") };
        let decision = &decided.decision;
        let word = decision.blocked().map_or(decision.verdict.as_str(), |blocked| blocked.code().as_str());
        (word.to_owned(), entered.entry.index)
    }

    fn ended(&self, effect: u64) -> Option<Outcome> {
        let view = self.bank.gate.view();
        view.whole_state().effects.ended().find(|(id, ..)| *id == EffectId(effect)).map(|(_, outcome, _)| outcome)
    }

    fn balance(&self, account: &str) -> i64 {
        self.world.count(&format!("select balance from accounts where id = '{account}'"))
    }
}

#[test]
fn a_row_that_a_call_changes_beside_its_own_is_fenced_for_as_long_as_it_takes_and_others_are_not() {
    let mut desk = Desk::new("");
    // Someone who knows nothing of gates keeps the first call from ending.
    let other = Other::connect(&desk.world.server.config()).unwrap();
    other.sql("begin; select 1 from accounts where id = 'a1' for update").unwrap();
    let (verdict, first) = desk.act("move", &json!({"id": "a1", "to": "a2", "goal": "a2"}));
    assert_eq!(verdict, "in_flight");
    desk.world.until_somebody_waits();
    for (id, to) in [("a2", "a3"), ("a3", "a2"), ("a1", "a3")] {
        let (verdict, _) = desk.act("move", &json!({"id": id, "to": to, "goal": to}));
        assert_eq!(verdict, "fact_fenced", "from {id} to {to}");
    }
    let (verdict, beside) = desk.act("move", &json!({"id": "a4", "to": "a5", "goal": "a5"}));
    assert_eq!(verdict, "in_flight", "nothing of it is changed by the other");
    desk.world.until("select count(*) from accounts where id = 'a5' and balance = 1001");
    assert_eq!((desk.balance("a1"), desk.balance("a2")), (1000, 1000), "the first is still at it");
    other.sql("commit").unwrap();
    desk.bank.drain().unwrap();
    assert_eq!([first, beside].map(|effect| desk.ended(effect)), [Some(Outcome::Settled); 2]);
    let balances = ["a1", "a2", "a3", "a4", "a5"].map(|account| desk.balance(account));
    assert_eq!(balances, [999, 1001, 1000, 999, 1001], "what was refused changed nothing");
    let (verdict, _) = desk.act("move", &json!({"id": "a2", "to": "a3", "goal": "a3"}));
    assert_eq!(verdict, "in_flight", "it is over");
    desk.bank.drain().unwrap();
    assert_eq!(desk.balance("a3"), 1001);
    desk.bank.close().unwrap();
}

#[test]
fn of_two_calls_at_once_that_each_rest_on_the_absence_of_what_the_other_inserts_one_is_refused() {
    let mut desk = Desk::new(
        "create table seats (id text primary key, holder text not null);
         grant all on seats to countersign;
         create function wait_for_it() returns trigger language plpgsql as $$
             begin perform pg_advisory_xact_lock_shared(7); return new; end $$;
         create trigger wait before insert on seats for each row execute function wait_for_it();",
    );
    for round in 0..5 {
        let (left, right) = (format!("left-{round}"), format!("right-{round}"));
        let other = Other::connect(&desk.world.server.config()).unwrap();
        other.sql("select pg_advisory_lock(7)").unwrap();
        // They say nothing of what they change, so neither waits for the other at the gate.
        let calls = [
            desk.act("sit", &json!({"id": "a1", "seat": left, "beside": right})),
            desk.act("sit", &json!({"id": "a2", "seat": right, "beside": left})),
        ];
        assert_eq!(calls.each_ref().map(|(verdict, _)| verdict.as_str()), ["in_flight"; 2]);
        // One has read what is there and inserts; the other is at the database as well.
        desk.world.until(
            "select (count(*) >= 2)::int::bigint from pg_stat_activity where wait_event_type = 'Lock' and datname is not null",
        );
        other.sql("select pg_advisory_unlock(7)").unwrap();
        desk.bank.drain().unwrap();
        let taken = format!("select count(*) from seats where id in ('{left}', '{right}')");
        assert_eq!(desk.world.count(&taken), 1, "in round {round}");
        let mut outcomes = calls.map(|(_, effect)| desk.ended(effect).map(|outcome| outcome == Outcome::Settled));
        outcomes.sort_unstable();
        assert_eq!(outcomes, [Some(false), Some(true)], "in round {round}");
    }
    desk.bank.close().unwrap();
}
