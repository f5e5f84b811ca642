//! The bank workload: one pact that uses every kind of rule, and the clients that act under it.
//!
//! The checker knows the same rules by its own account; a change here without a change there makes the simulator fail.

/// The text of the pact at a version; the limit is what differs between versions.
#[must_use]
pub fn pact(version: u64, limit: u64) -> String {
    format!("pact = \"bank\"\nversion = {version}\n{}", RULES.replace("LIMIT", &limit.to_string()))
}

const RULES: &str = r#"
[facts.Account]
attributes = { status = "String", balance = "Long", owner = "String" }

[facts.Transfer]
attributes = { from = "String", to = "String", amount = "Long", state = "String" }

[[observe.Account]]
who = 'principal.roles.contains("fraud")'
attributes = "*"

[[observe.Account]]
who = 'principal.roles.containsAny(["refunder", "payments", "clerk"])'
attributes = ["status", "balance"]

[observe.Transfer]
who = 'principal.roles.containsAny(["payments", "clerk"])'
attributes = "*"

[action.refund]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("refunder")'
budget = { sum = "amount", max = 150000, per = "1m", by = "agent" }
set = { balance = "resource.balance - context.amount" }

[action.refund.params]
type = "object"
additionalProperties = false
required = ["account", "amount"]
properties.account = { type = "string", minLength = 1, maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 500000 }

[[action.refund.require]]
id = "account-is-active"
that = 'resource.status == "active"'
stale_after = "2s"

[[action.refund.require]]
id = "balance-covers-amount"
that = 'resource.balance >= context.amount'

[[action.refund.require]]
id = "within-limit"
that = 'context.amount <= LIMIT'

[[action.refund.require]]
id = "small-enough"
that = 'context.amount < 60001'
on_fail = "review"

[action.tip]
mode = "shadow"
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("refunder")'
set = { balance = "resource.balance - context.amount" }

[action.tip.params]
type = "object"
additionalProperties = false
required = ["account", "amount"]
properties.account = { type = "string", minLength = 1, maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 500000 }

[[action.tip.require]]
id = "account-is-active"
that = 'resource.status == "active"'

[action.freeze]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("fraud")'
set = { status = '"frozen"' }

[action.freeze.params]
type = "object"
additionalProperties = false
required = ["account"]
properties.account = { type = "string", minLength = 1, maxLength = 64 }

[[action.freeze.require]]
id = "account-is-not-closed"
that = 'resource.status != "closed"'

[action.thaw]
resource = { fact = 'Account::"{account}"', unchanged = true }
allow = 'principal.roles.contains("fraud")'
set = { status = '"active"' }

[action.thaw.params]
type = "object"
additionalProperties = false
required = ["account"]
properties.account = { type = "string", minLength = 1, maxLength = 64 }

[[action.thaw.require]]
id = "account-is-frozen"
that = 'resource.status == "frozen"'

[action.close]
resource = 'Account::"{account}"'
allow = 'principal.roles.contains("fraud")'
delete = ["resource"]

[action.close.params]
type = "object"
additionalProperties = false
required = ["account"]
properties.account = { type = "string", minLength = 1, maxLength = 64 }

[[action.close.require]]
id = "account-is-empty"
that = 'resource.balance == 0'

[action.request]
resource = { fact = 'Transfer::"{transfer}"', create = true }
allow = 'principal.roles.contains("payments")'
set = { from = "context.from", to = "context.to", amount = "context.amount", state = '"pending"' }

[action.request.params]
type = "object"
additionalProperties = false
required = ["transfer", "from", "to", "amount"]
properties.transfer = { type = "string", minLength = 1, maxLength = 64 }
properties.from = { type = "string", minLength = 1, maxLength = 64 }
properties.to = { type = "string", minLength = 1, maxLength = 64 }
properties.amount = { type = "integer", minimum = 1, maximum = 500000 }

[[action.request.require]]
id = "within-limit"
that = 'context.amount <= LIMIT'

[action.execute]
resource = 'Transfer::"{transfer}"'
reads.source = 'Account::"{resource.from}"'
reads.target = 'Account::"{resource.to}"'
allow = 'principal.roles.contains("payments")'
require_observation = true

[action.execute.set]
state = '"executed"'
source.balance = "context.source.balance - resource.amount"
target.balance = "context.target.balance + resource.amount"

[action.execute.params]
type = "object"
additionalProperties = false
required = ["transfer"]
properties.transfer = { type = "string", minLength = 1, maxLength = 64 }

[[action.execute.require]]
id = "transfer-is-pending"
that = 'resource.state == "pending"'

[[action.execute.require]]
id = "source-is-active"
that = 'context.source.status == "active"'

[[action.execute.require]]
id = "balance-covers-amount"
that = 'context.source.balance >= resource.amount'

[[action.execute.require]]
id = "source-not-drained"
that = 'context.source.balance >= context.observed.source.balance - 20000'
"#;
