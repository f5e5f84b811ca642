//! The pacts of the histories: every kind of entry follows from them.

pub const PACT: &str = r#"
pact = "notes"
version = 1

[budget.pages]
count = true
max = 6
per = "1h"
by = "agent"

[facts.Note]
attributes = { text = "String", open = "Bool" }

[facts.Row]
attributes = { balance = "Long" }
source = { postgres = "bank", query = "select balance from rows where id = $1" }

[observe.Note]
who = 'true'
attributes = "*"
budget = [{ distinct = 2, per = "20s", by = "agent" }, { distinct = 3, per = "1d", by = "org" }]

[claim.Note]
who = 'true'
max = "10s"

[action.write]
resource = 'Note::"{note}"'
allow = 'true'
set = { text = "context.text", open = "true" }
budget = [{ name = "pages", count = true }, { count = true, max = 30, per = "1h", by = "agent" }]

[[action.write.require]]
id = "text-is-new"
that = 'resource.text != context.text'

[action.close]
mode = "shadow"
resource = { fact = 'Note::"{note}"', unchanged = true }
allow = 'true'
set = { open = "false" }

[[action.close.require]]
id = "note-is-empty"
that = 'resource.text == ""'

[action.ask]
resource = 'Note::"{note}"'
allow = 'true'
delete = ["resource"]

[[action.ask.require]]
id = "note-is-closed"
that = '!resource.open'
on_fail = "review"

[action.ask_mail]
resource = 'Note::"{note}"'
allow = 'true'
set = { open = "false" }
call = { http = "mail", path = "/send/{note}", after = "1s", probe = { path = "/sent/{call.key}" } }

[[action.ask_mail.require]]
id = "note-is-closed"
that = '!resource.open'
on_fail = "review"

[action.mail]
resource = 'Note::"{note}"'
allow = 'true'
set = { open = "false" }
budget = { count = true, max = 30, per = "1h", by = "agent" }
call = { http = "mail", path = "/send/{note}", body = { text = "resource.text" }, probe = { path = "/sent/{call.key}" } }

[[action.mail.require]]
id = "note-is-open"
that = 'resource.open'

[action.move]
guard = "as-read"
stale_after = "1h"
resource = 'Note::"{note}"'
allow = 'true'
call = { mcp = "shop", tool = "move" }

[[action.move.require]]
id = "note-is-open"
that = 'resource.open'

[action.debit]
resource = 'Row::"{note}"'
reads.page = 'Note::"{note}"'
allow = 'true'
call = { postgres = "bank", run = [
  { sql = "update rows set balance = $1 where id = $2", params = ["resource.balance - 1", "context.text"] },
] }

[[action.debit.require]]
id = "covered"
that = 'resource.balance >= 1 && context.page.open'
"#;

/// Charges the budget of the other pact, by a call that may fail and give back.
pub const SCRIBBLES: &str = r#"
pact = "scribbles"
version = 1

[facts.Note]
attributes = { text = "String", open = "Bool" }

[action.jot]
resource = 'Note::"{note}"'
allow = 'true'
set = { text = "context.text" }
budget = { name = "pages", of = "notes", count = true }
call = { http = "mail", path = "/jot/{note}", probe = { path = "/jotted/{call.key}" } }

[[action.jot.require]]
id = "note-is-open"
that = 'resource.open'
"#;

pub const ACTIONS: [&str; 7] = ["write", "close", "ask", "ask_mail", "mail", "debit", "move"];

pub fn pact(rules: &str, actions: &[&str], version: u64) -> String {
    let params = |action: &&str| {
        format!(
            "\n[action.{action}.params]\ntype = \"object\"\nadditionalProperties = false\nrequired = [\"note\", \"text\"]\n\
             properties.note = {{ type = \"string\", maxLength = 64 }}\nproperties.text = {{ type = \"string\", maxLength = 64 }}\n"
        )
    };
    rules.replace("version = 1", &format!("version = {version}")) + &actions.iter().map(params).collect::<String>()
}
