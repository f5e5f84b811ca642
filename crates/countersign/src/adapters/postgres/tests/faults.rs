//! Connections that break at every statement, a server that crashes, transactions that the server gives up.

use super::proxy::{Harm, Proxy};
use super::world::{Bank, Other, World, call, outside};
use crate::adapters::postgres::Postgres;
use crate::adapters::postgres::settings::Settings;
use countersign_core::call::Call;
use countersign_engine::outbox::{Adapter as _, Attempt};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// More messages than an attempt sends, with all that it prepares; the tests make sure of it.
const MESSAGES: usize = 40;

/// An adapter behind a proxy that does its harm at one message.
fn harmed(world: &World, at: usize, harm: Harm) -> (Proxy, Postgres) {
    let config = world.server.config();
    let terminate = Box::new(move || {
        let other = Other::connect(&config).unwrap();
        other
            .sql("select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'adapter'")
            .unwrap();
    });
    let proxy = Proxy::start(world.server.sockets(), at, harm, terminate);
    let adapter = Postgres::new(world.settings_by(proxy.sockets()), "bank.example/log");
    (proxy, adapter)
}

/// Does one harm at each message in turn, until an attempt is over before it is done.
fn at_each_message(harm: Harm, check: impl Fn(&World, usize, &Postgres, &Proxy, &Call)) {
    let world = World::new();
    let call = call(&["a1", "a2"]);
    for at in 1..=MESSAGES {
        let (proxy, adapter) = harmed(&world, at, harm);
        check(&world, at, &adapter, &proxy, &call);
        if !proxy.done() {
            assert!(at > 8, "an attempt sends more than {at} messages");
            return;
        }
    }
    panic!("an attempt sends more than {MESSAGES} messages");
}

fn is_done_once(harm: Harm) {
    at_each_message(harm, |world, at, adapter, _, call| {
        let key = format!("{harm:?}-{at}");
        let ended = Bank::paying(&key, 1).attempt(adapter, call, 1);
        assert!(matches!(ended, Attempt::Done(_)), "{key}: {ended:?}");
        assert_eq!(world.book(&key), (1, 1), "{key}");
    });
}

#[test]
fn a_connection_cut_before_any_message_costs_nothing() {
    is_done_once(Harm::CutBefore);
}

#[test]
fn an_answer_lost_to_any_message_is_found_out() {
    is_done_once(Harm::CutAnswer);
}

#[test]
fn a_server_process_ended_before_any_message_costs_nothing() {
    is_done_once(Harm::Terminate);
}

#[test]
fn without_a_way_back_nobody_guesses_and_the_receipt_tells_later() {
    let (unknown, absent, there) = (Cell::new(0), Cell::new(0), Cell::new(0));
    at_each_message(Harm::CutAnswerAndAll, |world, at, adapter, proxy, call| {
        let key = format!("dark-{at}");
        let bank = Bank::paying(&key, 1);
        let call = Call { timeout_ms: 1_500, ..call.clone() };
        let ended = bank.attempt(adapter, &call, 1);
        if !proxy.done() {
            return assert!(matches!(ended, Attempt::Done(_)), "{key}: {ended:?}");
        }
        proxy.heal();
        let book = world.book(&key);
        match &ended {
            Attempt::Done(_) => assert_eq!(book, (1, 1), "{key}"),
            Attempt::NotSent(_) => assert_eq!(book, (0, 0), "{key}: not sent, but it happened"),
            Attempt::Unknown(_) => unknown.set(unknown.get() + 1),
            other => panic!("{key}: {other:?}"),
        }
        // Whatever was answered, what is found out afterwards is what the database holds, for good.
        match adapter.recover(&bank.job(&Call { timeout_ms: 30_000, ..call.clone() }, 1)) {
            Attempt::Done(evidence) => {
                assert_eq!(book, (1, 1), "{key}");
                assert!(evidence.receipt.is_some());
                there.set(there.get() + 1);
            }
            Attempt::Refused(_) => {
                assert_eq!(book, (0, 0), "{key}");
                absent.set(absent.get() + 1);
                let late = bank.attempt(adapter, &Call { timeout_ms: 30_000, ..call }, 2);
                assert!(matches!(late, Attempt::Refused(_)), "{key}: {late:?}");
                assert_eq!(world.book(&key), (0, 0), "{key}: a void receipt did not hold");
            }
            other => panic!("{key}: {other:?}"),
        }
    });
    assert!(unknown.get() > 0 && absent.get() > 0 && there.get() > 0, "{unknown:?} {absent:?} {there:?}");
}

#[test]
fn a_server_that_crashes_in_the_middle_costs_nothing() {
    let world = World::new();
    let adapter = world.adapter();
    assert!(matches!(Bank::paying("before", 1).attempt(&adapter, &call(&["a1"]), 1), Attempt::Done(_)));
    let crashed = AtomicBool::new(false);
    let meanwhile = |_: &[_]| {
        if !crashed.swap(true, Ordering::SeqCst) {
            world.server.crash_and_restart().unwrap();
        }
    };
    let ended = Bank { meanwhile: &meanwhile, ..Bank::paying("middle", 1) }.attempt(&adapter, &call(&["a1"]), 1);
    assert!(matches!(ended, Attempt::Done(_)), "{ended:?}");
    assert!(crashed.into_inner());
    assert_eq!((world.book("before"), world.book("middle")), ((1, 1), (1, 1)));
    assert_eq!(world.count("select balance from accounts where id = 'a1'"), 998);
}

#[test]
fn transactions_that_the_server_gives_up_are_tried_again_within_a_bound() {
    let world = World::new();
    let adapter = world.adapter();
    world.sql(
        "create sequence turn;
         create function flaky() returns trigger language plpgsql as $$ begin
             if nextval('turn') % 4 <> 0 then raise exception 'again' using errcode = '40001'; end if;
             return new; end $$;
         create trigger flaky before insert on payouts for each row execute function flaky()",
    );
    let ended = Bank::paying("flaky", 1).attempt(&adapter, &call(&["a1"]), 1);
    assert!(matches!(ended, Attempt::Done(_)), "{ended:?}");
    assert_eq!((world.book("flaky"), world.count("select last_value from turn")), ((1, 1), 4));

    world.sql(
        "create or replace function flaky() returns trigger language plpgsql as $$ begin
             perform nextval('turn'); raise exception 'never' using errcode = '40P01'; end $$",
    );
    let ended = Bank::paying("never", 1).attempt(&adapter, &call(&["a1"]), 1);
    let Attempt::NotSent(evidence) = ended else { panic!("{ended:?}") };
    assert!(evidence.words().contains("40P01"), "{}", evidence.words());
    assert_eq!((world.book("never"), world.count("select last_value from turn")), ((0, 0), 12));
}

#[test]
fn a_table_that_changed_under_a_prepared_statement_is_no_trouble() {
    let world = World::new();
    let adapter = world.adapter();
    assert!(matches!(Bank::paying("p1", 1).attempt(&adapter, &call(&["a1"]), 1), Attempt::Done(_)));
    world.sql("alter table accounts alter status type varchar(20), alter balance type numeric");
    let ended = Bank::paying("p2", 1).attempt(&adapter, &call(&["a1"]), 1);
    assert!(matches!(ended, Attempt::Done(_)), "{ended:?}");
}

#[test]
fn what_is_left_of_a_refused_call_is_never_committed_with_the_next() {
    let world = World::new();
    // One connection, and no time to roll back: the deadline has passed by then.
    let adapter = Postgres::new(Settings { pool: 1, ..world.settings() }, "o");
    let slow = Call { timeout_ms: 400, ..call(&["a1"]) };
    let late = |_: &[_]| std::thread::sleep(std::time::Duration::from_millis(500));
    for number in 0..3 {
        let key = format!("late-{number}");
        let ended = Bank { meanwhile: &late, ..Bank::paying(&key, 1) }.attempt(&adapter, &slow, 1);
        assert!(!matches!(ended, Attempt::Done(_)), "{ended:?}");
        let next = format!("next-{number}");
        let ended = Bank::paying(&next, 1).attempt(&adapter, &call(&["a2"]), 1);
        assert!(matches!(ended, Attempt::Done(_)), "{ended:?}");
        assert_eq!((world.book(&key), world.book(&next)), ((0, 0), (1, 1)));
    }
    assert_eq!(world.count("select balance from accounts where id = 'a1'"), 1000);
}

#[test]
fn what_cannot_be_locked_is_refused_and_not_tried_for_ever() {
    let world = World::new();
    world.sql("create view sums as select 'a1'::text as id, 'active'::text as status, sum(balance)::bigint as balance from accounts");
    let query = "select status, balance from sums where id = $1";
    let call = Call { outside: vec![outside("a1", query)], ..call(&[]) };
    let ended = Bank::paying("p", 1).attempt(&world.adapter(), &call, 1);
    assert!(matches!(&ended, Attempt::Refused(evidence) if evidence.words().contains("0A000")), "{ended:?}");
}

#[test]
fn an_adapter_with_connections_can_be_dropped_where_nobody_may_wait() {
    let world = World::new();
    let adapter = world.adapter();
    assert!(matches!(Bank::paying("p", 1).attempt(&adapter, &call(&["a1"]), 1), Attempt::Done(_)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { drop(adapter) });
    world.until("select 1 - count(*) from pg_stat_activity where application_name = 'adapter'");
}

#[test]
fn a_server_that_is_not_there_is_not_sent_to() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = tokio_postgres::Config::new();
    config.host_path(folder.path()).user("nobody");
    let settings = Settings::new(config);
    let adapter = Postgres::new(settings, "o");
    let call = Call { timeout_ms: 300, ..call(&["a1"]) };
    let bank = Bank::paying("p", 1);
    assert!(matches!(bank.attempt(&adapter, &call, 1), Attempt::NotSent(_)));
    assert!(matches!(adapter.recover(&bank.job(&call, 1)), Attempt::Unknown(_)));
}
