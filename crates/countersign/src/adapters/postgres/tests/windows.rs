//! Other clients, who know nothing of the gate, write in every window.

use super::world::{Bank, Other, QUERY, World, aside, blocked, call, outside, schema, statement};
use crate::adapters::postgres::Postgres;
use crate::adapters::postgres::settings::Settings;
use countersign_core::call::Send;
use countersign_core::ids::FactId;
use countersign_core::pact::FactSchema;
use countersign_core::reason::Reason;
use countersign_core::value::Value;
use countersign_engine::outbox::{Adapter as _, Attempt, FactAsRead, Job, Judge, Reading};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

#[test]
fn what_changed_after_the_observation_counts() {
    let world = World::new();
    let adapter = world.adapter();
    let seen = adapter.observe(&outside("a1", QUERY), &schema()).unwrap().value.unwrap();
    assert_eq!(seen.get("status"), Some(&Value::String("active".into())));
    assert_eq!(adapter.observe(&outside("nobody", QUERY), &schema()), Ok(Reading::default()));

    world.sql("update accounts set status = 'frozen' where id = 'a1'");
    let refused = Bank::paying("p1", 5).attempt(&adapter, &call(&["a1"]), 1);
    assert_eq!(refused, Attempt::Blocked(Box::new(blocked("not active"))));
    assert_eq!(world.book("p1"), (0, 0));

    // The freeze is under way when the attempt begins: the attempt waits for it, and sees it.
    let other = Other::connect(&world.server.config()).unwrap();
    other.sql("begin; update accounts set status = 'frozen' where id = 'a2'").unwrap();
    std::thread::scope(|scope| {
        let attempt = scope.spawn(|| Bank::paying("p2", 5).attempt(&adapter, &call(&["a2"]), 1));
        world.until_somebody_waits();
        other.sql("commit").unwrap();
        assert_eq!(attempt.join().unwrap(), Attempt::Blocked(Box::new(blocked("not active"))));
    });
    assert_eq!(world.book("p2"), (0, 0));

    let halted = Bank { halted: true, ..Bank::paying("p3", 5) }.attempt(&adapter, &call(&["a3"]), 1);
    assert_eq!(halted, Attempt::Blocked(Box::new(blocked("halted"))));
    assert_eq!(world.count("select count(*) from countersign.receipts"), 0);
}

#[test]
fn whoever_writes_between_lock_and_commit_waits() {
    let world = World::new();
    let adapter = world.adapter();
    let frozen = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let meanwhile = |_: &[_]| {
            scope.spawn(|| {
                world.sql("update accounts set status = 'frozen' where id = 'a1'");
                frozen.store(true, Ordering::SeqCst);
            });
            world.until_somebody_waits();
            assert!(!frozen.load(Ordering::SeqCst), "the freeze went through a locked row");
        };
        let done = Bank { meanwhile: &meanwhile, ..Bank::paying("p1", 5) }.attempt(&adapter, &call(&["a1"]), 1);
        assert!(matches!(done, Attempt::Done(_)), "{done:?}");
    });
    assert_eq!(world.book("p1"), (1, 1));
    assert_eq!(world.count("select count(*) from accounts where id = 'a1' and status = 'frozen' and balance = 995"), 1);
    assert_eq!(world.count("select count(*) from seen where status = 'active'"), 1, "paid before the freeze");
}

#[test]
fn an_absence_holds_until_the_commit_too() {
    let world = World::new();
    let adapter = world.adapter();
    // Opens an account only if there is none; meanwhile someone else opens it with plain SQL.
    let opened = AtomicBool::new(false);
    let sql = "insert into accounts values ($1, 'active', 7)";
    std::thread::scope(|scope| {
        let job_call = call(&["new"]);
        let judge = OpenIfAbsent {
            meanwhile: &|| {
                scope.spawn(|| {
                    let late = world.try_sql("insert into accounts values ('new', 'stolen', 0)");
                    assert!(late.is_err(), "the key is taken by now");
                    opened.store(true, Ordering::SeqCst);
                });
                world.until_somebody_waits();
                assert!(!opened.load(Ordering::SeqCst), "somebody wrote into a locked absence");
            },
            sql,
        };
        let bank = Bank::paying("open", 0);
        let job = Job { judge: &judge, ..bank.job(&job_call, 1) };
        let done = adapter.attempt(&job);
        assert!(matches!(done, Attempt::Done(_)), "{done:?}");
    });
    assert_eq!(world.count("select count(*) from accounts where id = 'new' and status = 'active'"), 1);
}

struct OpenIfAbsent<'a> {
    meanwhile: &'a (dyn Fn() + Sync),
    sql: &'a str,
}

impl Judge for OpenIfAbsent<'_> {
    fn stopped(&self) -> Option<Reason> {
        None
    }

    fn schema(&self, _: &FactId) -> FactSchema {
        schema()
    }

    fn judge(&self, read: &[FactAsRead]) -> Result<Send, Reason> {
        assert_eq!(read[0].value, None);
        aside(self.meanwhile);
        let statements = vec![statement(self.sql, vec![Value::String(read[0].fact.id().into())])];
        Ok(Send::Sql { statements })
    }
}

#[test]
fn under_fire_nothing_is_paid_on_a_false_precondition() {
    let world = World::new();
    let adapter = world.adapter();
    let (stop, done, refused) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for client in 0..3_u32 {
            let (world, stop) = (&world, &stop);
            scope.spawn(move || {
                let mut turn = client;
                while !stop.load(Ordering::SeqCst) {
                    turn += 1;
                    let (account, status) = (turn % 3 + 1, if turn % 2 == 0 { "active" } else { "frozen" });
                    let balance = turn % 5 * 10;
                    world.sql(&format!(
                        "update accounts set status = '{status}', balance = {balance} where id = 'a{account}'"
                    ));
                }
            });
        }
        let payers: Vec<_> = (0..4_u32)
            .map(|payer| {
                let (adapter, done, refused) = (&adapter, &done, &refused);
                scope.spawn(move || {
                    for turn in 0..60_u32 {
                        let key = format!("fire-{payer}-{turn}");
                        let (first, second) = (format!("a{}", turn % 3 + 1), format!("a{}", (turn + 1) % 3 + 1));
                        // Both orders occur, so without one order for all there would be deadlocks.
                        let ended = Bank::paying(&key, 15).attempt(adapter, &call(&[&first, &second]), 1);
                        match ended {
                            Attempt::Done(_) => done.fetch_add(1, Ordering::SeqCst),
                            Attempt::Blocked(_) => refused.fetch_add(1, Ordering::SeqCst),
                            other => panic!("{other:?}"),
                        };
                    }
                })
            })
            .collect();
        payers.into_iter().for_each(|payer| payer.join().unwrap());
        stop.store(true, Ordering::SeqCst);
    });
    let (done, refused) = (done.into_inner(), refused.into_inner());
    assert_eq!(done + refused, 240);
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused: no race");
    assert_eq!(world.count("select count(*) from seen"), i64::from(done));
    assert_eq!(world.count("select count(*) from seen where status <> 'active' or balance < 0"), 0);
    assert_eq!(world.count("select count(*) from countersign.receipts where not void"), i64::from(done));
}

#[test]
fn a_statement_that_changes_no_row_or_several_undoes_everything() {
    let world = World::new();
    let adapter = world.adapter();
    let pay = statement("insert into payouts values ('x', 'a1', 1)", vec![]);
    for (sql, changed) in [
        ("update accounts set balance = 0 where id = 'nobody'", "changed 0"),
        ("update accounts set balance = 0 where id in ('a2', 'a3')", "changed 2"),
        ("delete from accounts where balance = 1000", "changed 20"),
    ] {
        for statements in [vec![pay.clone(), statement(sql, vec![])], vec![statement(sql, vec![]), pay.clone()]] {
            let ended =
                Bank { statements: Some(statements), ..Bank::paying("p", 1) }.attempt(&adapter, &call(&["a1"]), 1);
            let Attempt::Refused(evidence) = ended else { panic!("{ended:?}") };
            assert!(evidence.words().contains(changed), "{}", evidence.words());
        }
    }
    let none = Bank { statements: Some(Vec::new()), ..Bank::paying("p", 1) }.attempt(&adapter, &call(&["a1"]), 1);
    assert!(matches!(none, Attempt::Refused(_)), "{none:?}");
    let violated = vec![statement("insert into payouts values ('x', null, 1)", vec![])];
    let violated = Bank { statements: Some(violated), ..Bank::paying("p", 1) }.attempt(&adapter, &call(&["a1"]), 1);
    assert!(matches!(&violated, Attempt::Refused(evidence) if evidence.words().contains("23502")), "{violated:?}");
    assert_eq!(world.count("select count(*) from payouts"), 0);
    assert_eq!(world.count("select count(*) from accounts where balance = 1000"), 20);
    assert_eq!(world.count("select count(*) from countersign.receipts"), 0);
}

#[test]
fn a_lock_that_is_not_let_go_is_not_waited_for_for_ever() {
    let world = World::new();
    let settings = Settings { lock_timeout_ms: 50, ..world.settings() };
    let adapter = Postgres::new(settings, "o");
    let other = Other::connect(&world.server.config()).unwrap();
    other.sql("begin; update accounts set balance = 1 where id = 'a1'").unwrap();
    let ended = Bank::paying("p", 1).attempt(&adapter, &call(&["a1"]), 1);
    let Attempt::NotSent(evidence) = ended else { panic!("{ended:?}") };
    assert!(evidence.words().contains("55P03"), "{}", evidence.words());
    other.sql("rollback").unwrap();
    assert!(matches!(Bank::paying("p", 1).attempt(&adapter, &call(&["a1"]), 2), Attempt::Done(_)));
}
