//! What calls touch: anything at their server, or what their pact says and no more.

use super::world::World;
use countersign_core::action::{Action, ActionRequest};
use countersign_core::decide::{Touch, meets, touched_by_reading, touches};
use countersign_core::identity::Auth;
use countersign_core::ids::AgentId;
use countersign_core::pact::changes::unsaid;
use countersign_core::pact::load::load;
use countersign_core::session::Place;
use serde_json::{Value, json};
use std::sync::Arc;

/// `changes` is put in by each test.
const PACT: &str = r#"
pact = "bank"
version = 1

[facts.Account]
attributes = { balance = "Long" }
source = { mcp = "bank", tool = "get_account", arguments = { id = "{id}" } }

[facts.Till]
attributes = { open = "Bool" }

[action.pay]
resource = 'Till::"{till}"'
allow = 'true'
call = { mcp = "bank", tool = "pay" }
CHANGES
require = [{ id = "open", that = 'resource.open' }]

[action.pay.params]
type = "object"
additionalProperties = false
required = ["till", "to"]
properties.till = { type = "string", maxLength = 9 }
properties.to = { type = "string", maxLength = 9 }
"#;

struct Bank(World);

impl Bank {
    fn new(changes: &str) -> Self {
        Self(World::new(&PACT.replace("CHANGES", changes), "pay", json!({})))
    }

    fn pays(&self, to: &str) -> Vec<Touch> {
        let body = json!({
            "pact": "bank", "action": "pay", "params": {"till": "1", "to": to},
            "idempotency_key": "0123456789abcdef0123456789abcdef",
        });
        let body: Arc<str> = body.to_string().into();
        let request = ActionRequest::parse(&body).unwrap();
        let action = Action::new(AgentId::new("agent-1").unwrap(), Auth::None, Arc::clone(&body), request, Vec::new());
        touches(&action, &self.0.state, &self.0.state.pacts).unwrap()
    }

    fn reading(&self, tool: &str, arguments: &Value) -> Vec<Touch> {
        let place = Place { upstream: "bank".into(), tool: tool.into(), arguments: arguments.to_string().into() };
        vec![touched_by_reading(&place, self.0.state.pacts.values().map(|pact| &**pact))]
    }
}

#[test]
fn a_call_that_does_not_say_what_it_changes_meets_all_others_at_its_server() {
    let bank = Bank::new("");
    assert!(meets(&bank.pays("1"), &bank.pays("2")));
    assert!(meets(&bank.pays("1"), &bank.reading("get_account", &json!({"id": "2"}))));
    let readings = [bank.reading("get_account", &json!({"id": "2"})), bank.reading("list", &json!({}))];
    assert!(!meets(&readings[0], &readings[1]), "those who rely on things do not meet each other");
}

#[test]
fn a_call_that_says_it_meets_those_that_touch_the_same() {
    let bank = Bank::new("changes = ['Account::\"{to}\"']");
    assert!(meets(&bank.pays("1"), &bank.pays("1")));
    assert!(!meets(&bank.pays("1"), &bank.pays("2")));
    assert!(meets(&bank.pays("1"), &bank.reading("get_account", &json!({"id": "1"}))));
    assert!(meets(&bank.pays("1"), &bank.reading("get_account", &json!({"id": "1", "deep": null}))), "null is nothing");
    assert!(!meets(&bank.pays("1"), &bank.reading("get_account", &json!({"id": "2"}))));
    assert!(meets(&bank.pays("1"), &bank.reading("list_accounts", &json!({}))), "no pact says what that reads");
    let place = Place { upstream: "mail".into(), tool: "get_account".into(), arguments: r#"{"id":"1"}"#.into() };
    assert!(!meets(&bank.pays("1"), &[touched_by_reading(&place, std::iter::empty())]), "another server");
}

#[test]
fn a_call_that_changes_nothing_meets_nothing_and_one_that_names_servers_meets_all_that_is_there() {
    let nothing = Bank::new("changes = []");
    assert_eq!(nothing.pays("1"), []);
    let mail = Bank::new("changes = [\"mail\"]");
    let place = Place { upstream: "mail".into(), tool: "read".into(), arguments: "{}".into() };
    assert!(meets(&mail.pays("1"), &[touched_by_reading(&place, std::iter::empty())]));
    assert!(!meets(&mail.pays("1"), &mail.reading("get_account", &json!({"id": "1"}))));
}

#[test]
fn a_call_that_could_change_what_others_rest_on_and_does_not_say_so_is_warned_of() {
    let pact = |name: &str, changes: &str, reads: bool| {
        let resource = if reads { "Row::\"{id}\"" } else { "Desk::\"{id}\"" };
        let text = format!(
            "pact = \"{name}\"\nversion = 1\n[facts.Row]\nattributes = {{ open = \"Bool\" }}\n\
             source = {{ http = \"crm\", path = \"/rows/{{id}}\" }}\n[facts.Desk]\nattributes = {{ open = \"Bool\" }}\n\
             [action.touch]\nresource = '{resource}'\nallow = 'true'\ncall = {{ http = \"crm\", path = \"/touch\" }}\n{changes}\n\
             params = {{ type = \"object\", additionalProperties = false, required = [\"id\"], \
             properties.id = {{ type = \"string\", maxLength = 9 }} }}\n\
             require = [{{ id = \"open\", that = 'resource.open' }}]\n"
        );
        load(&text).unwrap_or_else(|problems| panic!("{problems:#?}\n{text}")).pact
    };
    let reader = pact("reader", "", true);
    let silent = pact("silent", "", false);
    let found = unsaid(&silent, &[&reader]);
    assert_eq!(found.len(), 1, "{found:?}");
    let said = &found[0].message;
    assert!(said.contains("`touch` calls `crm` without saying what it changes there"), "{said}");
    assert!(said.contains("`touch` of pact `reader` rests on facts in `crm`"), "{said}");
    assert!(unsaid(&silent, &[]).is_empty(), "nothing rests on it");
    assert!(unsaid(&pact("said", "changes = []", false), &[&reader]).is_empty());
    assert!(unsaid(&reader, &[&silent]).is_empty(), "the other rests on nothing there");
}

/// A call that does not say what it changes, and one that rests on what is there.
fn undeclared(call: &str, relying: bool) -> Vec<Touch> {
    let params = "params = { type = \"object\", additionalProperties = false, required = [\"id\"], \
                  properties.id = { type = \"string\", maxLength = 9 } }";
    let relying = if relying {
        format!(
            "[action.rely]\nresource = 'Row::\"{{id}}\"'\nallow = 'true'\ncall = {{ http = \"crm\", path = \"/rely\" }}\n\
             changes = []\n{params}\nrequire = [{{ id = \"open\", that = 'resource.open' }}]\n"
        )
    } else {
        String::new()
    };
    let pact = format!(
        "pact = \"crm\"\nversion = 1\n[facts.Row]\nattributes = {{ open = \"Bool\" }}\n\
         source = {{ http = \"crm\", path = \"/rows/{{id}}\" }}\n[facts.Desk]\nattributes = {{ open = \"Bool\" }}\n\
         [action.touch]\nresource = 'Desk::\"{{id}}\"'\nallow = 'true'\ncall = {{ {call} }}\n{params}\n\
         require = [{{ id = \"open\", that = 'resource.open' }}]\n{relying}"
    );
    let world = World::new(&pact, "touch", json!({"id": "1"}));
    let body = json!({
        "pact": "crm", "action": "touch", "params": {"id": "1"}, "idempotency_key": "0123456789abcdef0123456789abcdef",
    });
    let body: Arc<str> = body.to_string().into();
    let request = ActionRequest::parse(&body).unwrap();
    let action = Action::new(AgentId::new("agent-1").unwrap(), Auth::None, Arc::clone(&body), request, Vec::new());
    touches(&action, &world.state, &world.state.pacts).unwrap()
}

#[test]
fn an_undeclared_call_takes_its_whole_service_where_another_rests_on_facts_there() {
    let (http, command) = ("http = \"crm\", path = \"/touch\"", "command = \"crm\", args = [\"touch\"]");
    for call in [http, command] {
        let touched = undeclared(call, true);
        let whole = Touch { server: "crm".into(), part: None, changes: true };
        assert_eq!(touched, [whole], "{call}");
        assert_eq!(undeclared(call, false), [], "no one rests on anything there: {call}");
    }
    assert_eq!(undeclared("http = \"mail\", path = \"/touch\"", true), [], "another service");
}

#[test]
fn statements_that_do_not_say_what_they_change_are_warned_of_too() {
    let pact = |name: &str, ty: &str, changes: &str| {
        let text = format!(
            "pact = \"{name}\"\nversion = 1\n[facts.Row]\nattributes = {{ open = \"Bool\" }}\n\
             source = {{ postgres = \"crm\", query = \"select open from rows where id = $1\" }}\n\
             [facts.Desk]\nattributes = {{ open = \"Bool\" }}\n[action.touch]\nresource = '{ty}::\"{{id}}\"'\nallow = 'true'\n\
             call = {{ postgres = \"crm\", run = [{{ sql = \"update rows set open = false where id = $1\", \
             params = [\"context.id\"] }}] }}\n{changes}\nrequire = [{{ id = \"open\", that = 'resource.open' }}]\n\
             params = {{ type = \"object\", additionalProperties = false, required = [\"id\"], \
             properties.id = {{ type = \"string\", maxLength = 9 }} }}\n"
        );
        load(&text).unwrap_or_else(|problems| panic!("{problems:#?}\n{text}")).pact
    };
    let (reader, silent) = (pact("reader", "Row", ""), pact("silent", "Desk", ""));
    let found = unsaid(&silent, &[&reader]);
    assert_eq!(found.len(), 1, "{found:?}");
    let said = &found[0].message;
    assert!(said.contains("`touch` changes rows of `crm` without saying which"), "{said}");
    assert!(said.contains("`touch` of pact `reader` rests on facts in `crm`"), "{said}");
    assert!(unsaid(&silent, &[]).is_empty(), "nothing rests on it");
    assert!(unsaid(&pact("said", "Desk", "changes = ['Row::\"{id}\"']"), &[&reader]).is_empty());
}
