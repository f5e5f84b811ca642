//! Runs the whole comparison on a real server for a moment. The figures mean nothing here; that every action left exactly one
//! ledger record, that the chain holds and that nothing stays behind does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may panic")]

use rustix::process::{Pid, test_kill_process};

use super::*;

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("countersign-postgres-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(future)
}

#[test]
fn the_comparison_runs_and_leaves_nothing_behind() {
    let dir = scratch("whole");
    let options = PostgresOptions { record_len: 300, facts: 500, seconds: 0.25, clients: vec![1, 4] };
    let heard = std::cell::RefCell::new(Vec::new());
    let result = postgres(&dir, &options, &|line| heard.borrow_mut().push(line.to_owned())).unwrap();
    let left = std::fs::read_dir(&dir).unwrap().count();
    std::fs::remove_dir_all(&dir).unwrap();

    for best in [&result.plain, &result.chained, &result.hot] {
        assert!(best.best.per_s > 0.0, "{best:?}");
        assert_eq!(best.runs.iter().map(|run| run.clients).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(best.runs[0].aborted, 0, "one client has nobody to conflict with: {best:?}");
    }
    for expected in [("fsync", "on"), ("synchronous_commit", "on"), ("default_transaction_isolation", "serializable")] {
        assert!(
            result.settings.iter().any(|(name, value)| (name.as_str(), value.as_str()) == expected),
            "{expected:?}"
        );
    }
    assert!(!result.data.exists(), "{:?}", result.data);
    assert_eq!(heard.borrow().len(), 2 + 6);
    assert_eq!(left, 0);
}

#[test]
fn every_action_is_checked_recorded_once_and_chained() {
    let dir = scratch("checked");
    let server = Server::start(&dir).unwrap();
    let (pid, folder) = server.process_and_folder().unwrap();
    block_on(async {
        let admin = connect(&server).await.unwrap();
        load(&admin, 3).await.unwrap();
        let act = |function: &'static str, fact: &'static str, amount: i64, key: u8| {
            let admin = &admin;
            async move {
                let call = format!("SELECT {function}($1, $2, $3, $4)");
                let row = admin.query_one(&call, &[&fact, &amount, &vec![key; 16], &vec![key; 300]]).await;
                row.map(|row| row.get::<_, String>(0))
            }
        };
        assert_eq!(act("act", "Account::\"0\"", 5, 1).await.unwrap(), "committed");
        assert!(act("act", "Account::\"0\"", 5, 1).await.is_err(), "the same key twice");
        assert_eq!(act("act", "Account::\"9\"", 5, 2).await.unwrap(), "rejected", "no such fact");
        assert_eq!(act("act", "Account::\"0\"", 500_001, 3).await.unwrap(), "rejected", "over the limit");
        admin.batch_execute("UPDATE facts SET balance = 10 WHERE id = 'Account::\"1\"'").await.unwrap();
        assert_eq!(act("act", "Account::\"1\"", 11, 4).await.unwrap(), "rejected", "not covered");
        admin.batch_execute("UPDATE facts SET status = 'frozen' WHERE id = 'Account::\"2\"'").await.unwrap();
        assert_eq!(act("act_chained", "Account::\"2\"", 5, 5).await.unwrap(), "rejected", "frozen");
        assert_eq!(act("act_chained", "Account::\"0\"", 5, 6).await.unwrap(), "committed");

        let plan = Plan { record_len: 300, facts: 1, seconds: 0.2, number: 1 };
        workload::run(&server, Kind::Chained, 3, &plan).await.unwrap();
        let count = |query: &'static str| {
            let admin = &admin;
            async move { admin.query_one(query, &[]).await.unwrap().get::<_, i64>(0) }
        };
        let committed = "SELECT (SELECT count(*) FROM ledger WHERE verdict = 'committed' AND fact = 'Account::\"0\"')
            + (SELECT count(*) FROM chained_ledger WHERE verdict = 'committed' AND fact = 'Account::\"0\"')";
        let version = count("SELECT version FROM facts WHERE id = 'Account::\"0\"'").await;
        assert!(version > 3);
        assert_eq!(count(committed).await, version - 1, "one record for each change of the fact");
        let broken = "SELECT count(*) FROM (
            SELECT hash = sha256(coalesce(lag(hash) OVER (ORDER BY position), sha256('')) || record) AS holds
            FROM chained_ledger) AS links WHERE NOT holds";
        assert_eq!(count(broken).await, 0, "the chain holds");
        assert_eq!(count("SELECT count(*) FROM chained_ledger").await, count("SELECT position FROM ledger_head").await);
    });
    drop(server);
    std::fs::remove_dir_all(&dir).unwrap();
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    assert!(test_kill_process(pid).is_err(), "the server still runs");
    assert!(!folder.exists(), "the folder is still there");
}

#[test]
fn a_conflict_is_an_abort_that_asks_for_a_retry() {
    let dir = scratch("conflict");
    let server = Server::start(&dir).unwrap();
    let (refused, broken) = block_on(async {
        let (first, second) = (connect(&server).await.unwrap(), connect(&server).await.unwrap());
        load(&first, 1).await.unwrap();
        // The second transaction has seen the fact when the first one changes it.
        second.batch_execute("BEGIN; SELECT * FROM facts").await.unwrap();
        let call = |key: u8| format!("SELECT act('Account::\"0\"', 5, decode('{key:02x}', 'hex'), 'record')");
        first.batch_execute(&call(1)).await.unwrap();
        let refused = second.batch_execute(&call(2)).await.unwrap_err();
        second.batch_execute("ROLLBACK").await.unwrap();
        let broken = second.batch_execute("SELECT no_such_function()").await.unwrap_err();
        second.batch_execute(&call(2)).await.expect("the same action succeeds when tried again");
        (refused, broken)
    });
    drop(server);
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(workload::asks_for_a_retry(&refused), "{refused:?}");
    assert!(!workload::asks_for_a_retry(&broken), "{broken:?}");
}

#[test]
fn a_panic_stops_the_server_too() {
    let dir = scratch("panic");
    let seen = std::sync::Mutex::new(None);
    let panicked = std::panic::catch_unwind(|| {
        let server = Server::start(&dir).unwrap();
        *seen.lock().unwrap() = server.process_and_folder();
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(panicked.is_err());
    let (pid, folder) = seen.into_inner().unwrap().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(test_kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap()).is_err(), "the server still runs");
    assert!(!folder.exists(), "the folder is still there");
}

#[test]
fn a_machine_without_a_server_is_told_what_to_do() {
    let error = countersign_testing::postgres::find_programs(None, &["/nonexistent"]).unwrap_err().to_string();
    assert!(error.contains("`postgresql`") && error.contains("--no-postgres"), "{error}");
}
