//! What a database needs before the gate can act in it: the receipts, and agents that cannot write past the gate.
//!
//! Every step can be run again and again. Names are checked or quoted before they come into SQL, because no parameter can stand for
//! a name.

use super::settings::Settings;
use countersign_core::pact::sql::query_table;
use countersign_core::screen::visible::inline;
use std::error::Error as _;
use tokio_postgres::{Client, Config, NoTls};

/// One step: what it is for, and its SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What it does, in a sentence.
    pub what: String,
    /// How.
    pub sql: String,
}

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The role of agents, which gets no right to write.
    pub agents: Option<String>,
    /// The tables that only the gate writes.
    pub guard: Vec<String>,
}

/// Why there is no plan, or why it did not work.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A table's name that is none.
    #[error("`{0}` is not the name of a table")]
    Table(String),
    /// A step that the database refused.
    #[error("{what}: {said}")]
    Step {
        /// What was to be done.
        what: String,
        /// What the server said.
        said: String,
    },
    /// The database cannot be reached.
    #[error("no connection to the database: {0}")]
    Connect(String),
    /// The agents' role can still write.
    #[error(
        "`{role}` can still write to {tables}: it owns them, is a superuser, or is a member of a role that may write"
    )]
    StillWrites {
        /// The agents' role.
        role: String,
        tables: String,
    },
}

impl SetupError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Table(..) => "write `accounts` or `bank.accounts`; capitals need double quotes",
            Self::Step { .. } => {
                "this takes the owner of the tables; name its URL with --as-env, or run the output of --print yourself"
            }
            Self::Connect(..) => "is it running, and may this user connect?",
            Self::StillWrites { .. } => "give agents a role of their own, without membership in others",
        };
        Some(hint.to_owned())
    }
}

/// The steps, in order.
pub fn plan(settings: &Settings, wanted: &Wanted) -> Result<Vec<Step>, SetupError> {
    let schema = &settings.schema;
    let mut steps = vec![
        step(format!("schema {schema}"), format!("create schema if not exists {schema}")),
        step("numbers of receipts", format!("create sequence if not exists {schema}.receipt_seq as bigint")),
        step("receipts", receipts(schema)),
        step(
            "revoked public access",
            format!("revoke all on schema {schema} from public; revoke all on {schema}.receipts from public"),
        ),
    ];
    let gate = settings.config.get_user().map(quoted);
    if let Some(gate) = &gate {
        let sql = format!(
            "grant usage on schema {schema} to {gate}; grant select, insert on {schema}.receipts to {gate}; \
             grant usage on sequence {schema}.receipt_seq to {gate}"
        );
        steps.push(step(format!("the gate, {gate}, writes receipts and never changes one"), sql));
    }
    if let Some(role) = &wanted.agents {
        let (name, literal) = (quoted(role), role.replace('\'', "''"));
        let sql = format!(
            "do $make$ begin if not exists (select from pg_roles where rolname = '{literal}') \
             then create role {name} nologin; end if; end $make$"
        );
        steps.push(step(format!("role {name} for agents"), sql));
        steps.push(step(
            format!("{name} has no part in the receipts"),
            format!("revoke all on schema {schema} from {name}; revoke all on {schema}.receipts from {name}"),
        ));
    }
    for table in &wanted.guard {
        // Exactly a table, by the same grammar that queries are checked against.
        if query_table(&format!("select a from {table} where a = $1")) != Some(table.as_str()) {
            return Err(SetupError::Table(table.clone()));
        }
        steps.extend(guard(table, gate.as_deref(), wanted.agents.as_deref()));
    }
    Ok(steps)
}

/// A trigger runs with the rights of the writer, so the right to make one is taken as well.
fn guard(table: &str, gate: Option<&str>, agents: Option<&str>) -> Vec<Step> {
    let writes = "insert, update, delete, truncate, references, trigger";
    let mut steps =
        vec![step(format!("not everyone writes {table}"), format!("revoke {writes} on {table} from public"))];
    if let Some(gate) = gate {
        let sql = format!("grant select, insert, update, delete on {table} to {gate}");
        steps.push(step(format!("the gate writes {table}"), sql));
        let sql = sequences(table, "grant usage on sequence %s to ", gate);
        steps.push(step(format!("the gate draws numbers for {table}"), sql));
    }
    if let Some(role) = agents.map(quoted) {
        let sql = format!("revoke {writes} on {table} from {role}; grant select on {table} to {role}");
        steps.push(step(format!("{role} reads {table} and does not write it"), sql));
        let sql = sequences(table, "revoke usage, update on sequence %s from ", &role);
        steps.push(step(format!("{role} draws no numbers for {table}"), sql));
    }
    steps
}

/// Runs a statement for every sequence that a default of the table draws from, such as that of a `serial` column. The right to
/// insert into a table does not include them. What belongs to an identity column needs no right of its own.
fn sequences(table: &str, statement: &str, role: &str) -> String {
    let literal = |text: &str| text.replace('\'', "''");
    // In the format, a percent sign of a name is written twice.
    let (table, role) = (literal(table), literal(&role.replace('%', "%%")));
    format!(
        "do $each$ declare numbers regclass; begin for numbers in \
         select distinct used.refobjid::regclass from pg_attrdef as given \
         join pg_depend as used on used.classid = 'pg_attrdef'::regclass and used.objid = given.oid \
         and used.refclassid = 'pg_class'::regclass \
         join pg_class as relation on relation.oid = used.refobjid and relation.relkind = 'S' \
         where given.adrelid = '{table}'::regclass \
         loop execute format('{statement}{role}', numbers); end loop; end $each$"
    )
}

fn receipts(schema: &str) -> String {
    format!(
        "create table if not exists {schema}.receipts (\n  \
           key text primary key,\n  \
           seq bigint not null default nextval('{schema}.receipt_seq'),\n  \
           void boolean not null,\n  \
           origin text not null,\n  \
           effect text not null,\n  \
           judged_at_ms bigint,\n  \
           read jsonb,\n  \
           written_at timestamptz not null default now()\n)"
    )
}

fn step(what: impl Into<String>, sql: impl Into<String>) -> Step {
    Step { what: what.into(), sql: sql.into() }
}

/// A name in quotes, so that every name is one.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The plan as a script.
pub fn script(steps: &[Step]) -> String {
    // A name with a line break must not end the comment that it stands in.
    let step = |step: &Step| format!("-- {}\n{};\n", inline(&step.what), step.sql.replace("; ", ";\n"));
    format!("begin;\n{}commit;\n", steps.iter().map(step).collect::<String>())
}

/// Runs the plan in one transaction, as the gate or as someone with more rights, and makes sure that agents cannot write.
pub fn run(settings: &Settings, connect_as: Option<Config>, wanted: &Wanted) -> Result<Vec<Step>, SetupError> {
    let steps = plan(settings, wanted)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| SetupError::Connect(error.to_string()))?;
    runtime.block_on(async {
        let client = connect(settings, connect_as).await.map_err(|error| SetupError::Connect(said(&error)))?;
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: tokio_postgres::Error| SetupError::Step { what, said: said(&error) }
        };
        client.batch_execute("begin").await.map_err(failed("a transaction"))?;
        for step in &steps {
            client.batch_execute(&step.sql).await.map_err(failed(&step.what))?;
        }
        still_writes(&client, wanted).await?;
        client.batch_execute("commit").await.map_err(failed("the end of the transaction"))
    })?;
    Ok(steps)
}

async fn connect(settings: &Settings, connect_as: Option<Config>) -> Result<Client, tokio_postgres::Error> {
    let mut config = connect_as.unwrap_or_else(|| settings.config.clone());
    config.ssl_mode(settings.config.get_ssl_mode());
    match &settings.tls {
        Some(tls) => {
            let (client, connection) = config.connect(tls.clone()).await?;
            // The client sees every error of its connection at its next statement.
            tokio::spawn(connection);
            Ok(client)
        }
        None => {
            let (client, connection) = config.connect(NoTls).await?;
            tokio::spawn(connection);
            Ok(client)
        }
    }
}

/// Rights come by ownership and membership too, which no REVOKE takes. So it is asked at the end, and not believed.
async fn still_writes(client: &Client, wanted: &Wanted) -> Result<(), SetupError> {
    let Some(role) = &wanted.agents else { return Ok(()) };
    let mut tables = Vec::new();
    for table in &wanted.guard {
        let sql = "select has_table_privilege($1::text::name, $2::text, 'insert, update, delete, truncate, trigger') \
                   or has_any_column_privilege($1::text::name, $2::text, 'insert, update') \
                   or (select pg_has_role($1::text::name, relowner, 'member') from pg_class where oid = $2::text::regclass)";
        let row = client.query_one(sql, &[role, table]).await.map_err(|error| SetupError::Step {
            what: format!("what `{role}` may do with {table}"),
            said: said(&error),
        })?;
        if row.try_get::<_, bool>(0).unwrap_or(true) {
            tables.push(table.as_str());
        }
    }
    if tables.is_empty() {
        return Ok(());
    }
    Err(SetupError::StillWrites { role: role.clone(), tables: tables.join(", ") })
}

fn said(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(refused), _) => refused.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}
