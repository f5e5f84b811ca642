//! `countersign postgres init`: run again and again, and the gate is the only way in.

use super::world::{Bank, Other, World, call};
use crate::adapters::postgres::Postgres;
use crate::adapters::postgres::settings::Settings;
use crate::adapters::postgres::setup::{SetupError, Wanted, plan, run, script};
use countersign_engine::outbox::Attempt;
use tokio_postgres::Config;

fn as_user(world: &World, user: &str) -> Config {
    let mut config = world.server.config();
    config.user(user);
    config
}

#[test]
fn agents_read_guarded_tables_and_only_the_gate_writes_them() {
    let world = World::new();
    world.sql(
        "drop schema countersign cascade; create role gate login; create role \"agent-7\" login;
         grant all on accounts, payouts to \"agent-7\"; grant update (status) on accounts to public;
         grant insert on seen to gate",
    );
    let settings = Settings { config: as_user(&world, "gate"), ..world.settings() };
    let wanted = Wanted { agents: Some("agent-7".to_owned()), guard: vec!["accounts".into(), "public.payouts".into()] };
    // The gate itself may not give rights on other people's tables.
    assert!(matches!(run(&settings, None, &wanted), Err(SetupError::Step { .. })));
    for _ in 0..2 {
        run(&settings, Some(world.server.config()), &wanted).unwrap();
    }
    world.sql(&script(&plan(&settings, &wanted).unwrap()));

    let agent = Other::connect(&as_user(&world, "agent-7")).unwrap();
    agent.sql("select * from accounts; select * from payouts").unwrap();
    for sql in [
        "update accounts set balance = 0",
        "update accounts set status = 'x'",
        "insert into payouts values ('x', 'a1', 1)",
        "delete from accounts",
        "truncate payouts",
        "create trigger mine before update on accounts for each row execute function see()",
        "insert into countersign.receipts (key, void, origin, effect) values ('x', true, '', '')",
        "select * from countersign.receipts",
        "select * from accounts for update",
        "begin; lock table accounts in exclusive mode",
    ] {
        let refused = agent.sql(sql).expect_err(sql);
        assert_eq!(refused.code().map(|code| code.code()), Some("42501"), "{sql}: {refused}");
    }

    let gate = Postgres::new(settings, "o");
    let done = Bank::paying("p1", 5).attempt(&gate, &call(&["a1"]), 1);
    assert!(matches!(done, Attempt::Done(_)), "{done:?}");
    let gate = Other::connect(&as_user(&world, "gate")).unwrap();
    assert!(gate.sql("delete from countersign.receipts").is_err(), "receipts are not taken back");
    assert!(gate.sql("update countersign.receipts set void = true").is_err(), "nor changed");
}

#[test]
fn the_gate_draws_the_numbers_of_serial_columns_and_agents_do_not() {
    let world = World::new();
    world.sql(
        "drop schema countersign cascade; create role \"gate%s\" login; create role \"agents 5%\" login;
         create sequence \"it's shared\";
         create table tickets (id serial primary key, line bigint default nextval('\"it''s shared\"'),
             row bigint generated always as identity, what text);
         grant all on all sequences in schema public to \"agents 5%\"",
    );
    let settings = Settings { config: as_user(&world, "gate%s"), ..world.settings() };
    let wanted = Wanted { agents: Some("agents 5%".to_owned()), guard: vec!["tickets".into()] };
    for _ in 0..2 {
        run(&settings, Some(world.server.config()), &wanted).unwrap();
    }
    world.sql(&script(&plan(&settings, &wanted).unwrap()));

    let gate = Other::connect(&as_user(&world, "gate%s")).unwrap();
    gate.sql("insert into tickets (what) values ('a')").unwrap();
    let agent = Other::connect(&as_user(&world, "agents 5%")).unwrap();
    for sql in
        ["select nextval('tickets_id_seq')", "select setval('tickets_id_seq', 1)", "select nextval('\"it''s shared\"')"]
    {
        let refused = agent.sql(sql).expect_err(sql);
        assert_eq!(refused.code().map(|code| code.code()), Some("42501"), "{sql}: {refused}");
    }
}

#[test]
fn a_role_that_can_write_all_the_same_is_told() {
    let world = World::new();
    world.sql("create role owner login; alter table accounts owner to owner; create role boss superuser login");
    world.sql("create role writers; grant insert on payouts to writers; create role clerk login in role writers");
    for (role, table) in [("owner", "accounts"), ("boss", "accounts"), ("clerk", "payouts")] {
        let wanted = Wanted { agents: Some(role.to_owned()), guard: vec![table.to_owned()] };
        let told = run(&world.settings(), None, &wanted);
        // An owner can be deprived of rights, and gives itself the rights again.
        assert!(matches!(&told, Err(SetupError::StillWrites { .. })), "{role}: {told:?}");
    }
}

#[test]
fn only_names_come_into_the_statements() {
    let settings = Settings::new(Config::new());
    for table in ["accounts; drop table accounts", "a, b", "a where true --", "", "a b", "(select 1)", "\"a"] {
        let wanted = Wanted { agents: None, guard: vec![table.to_owned()] };
        assert!(matches!(plan(&settings, &wanted), Err(SetupError::Table(_))), "{table}");
    }
    let wanted = Wanted { agents: Some("a\"b'c".to_owned()), guard: vec!["bank.\"My Accounts\"".to_owned()] };
    let script = script(&plan(&settings, &wanted).unwrap());
    assert!(script.contains("rolname = 'a\"b''c'") && script.contains("create role \"a\"\"b'c\""), "{script}");
}
