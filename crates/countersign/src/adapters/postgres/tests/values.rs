//! Types: what a row's columns become, and what PostgreSQL makes of parameters.

use super::world::{Bank, World, call, outside, schema, statement};
use crate::adapters::postgres::Postgres;
use countersign_core::call::Call;
use countersign_core::pact::sql::check_query;
use countersign_core::value::Value;
use countersign_engine::outbox::{Adapter as _, Attempt};

const ALL: &str = "
    create type mood as enum ('sad', 'happy');
    create domain cents as bigint check (value >= 0);
    create table things (id uuid primary key, t text, v varchar(9), c char(6), u uuid, m mood, s smallint, i int, l bigint, d cents,
        n numeric, b bool, tags text[], nums int[], at timestamptz, f float8, j jsonb, big bigint);
    insert into things values ('00000000-0000-0000-0000-000000000001', 'ü', 'v', 'c', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'happy',
        -1, 2, 9007199254740991, 4, 1200000.000, true, '{b,a,b}', '{3,1}', '2026-01-02 03:04:05Z', 1.5, '{}', 9007199254740992)";

fn read(adapter: &Postgres, columns: &str) -> Result<serde_json::Value, String> {
    let query = format!("select {columns} from things where id = $1");
    let fact = outside("00000000-0000-0000-0000-000000000001", &query);
    let value = adapter.observe(&fact, &schema()).map_err(|why| why.to_string())?.value;
    Ok(value.expect("is there").to_json())
}

#[test]
fn columns_become_values_or_a_clear_error() {
    let world = World::new();
    world.sql(ALL);
    let adapter = world.adapter();
    let json = read(&adapter, "t, v, c, u, m, s, i, l, d, n, b, tags, nums, null as nothing").unwrap();
    let expected = serde_json::json!({
        "b": true, "c": "c", "d": 4, "i": 2, "l": 9_007_199_254_740_991_i64, "m": "happy", "n": 1_200_000, "nums": [1, 3], "s": -1,
        "t": "ü", "tags": ["a", "b"], "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "v": "v",
    });
    assert_eq!(json, expected);
    let time = "(extract(epoch from at) * 1000)::bigint as at";
    assert_eq!(read(&adapter, time).unwrap(), serde_json::json!({ "at": 1_767_323_045_000_i64 }));
    for (numeric, number) in [
        ("0", Some(0)),
        ("-10000", Some(-10_000)),
        ("123456789012.00", Some(123_456_789_012_i64)),
        ("0.5", None),
        ("1e30", None),
        ("9007199254740992", None),
        ("-9007199254740991", Some(-9_007_199_254_740_991)),
        ("'NaN'", None),
        ("10000.0001", None),
    ] {
        let read = read(&adapter, &format!("{numeric}::numeric as n"));
        assert_eq!(read.as_ref().ok().and_then(|json| json["n"].as_i64()), number, "{numeric}: {read:?}");
    }
    for (column, said) in
        [("at", "timestamptz"), ("f", "float8"), ("j", "jsonb"), ("big", "2^53-1"), ("'{null}'::text[] as x", "NULL")]
    {
        let error = read(&adapter, column).expect_err(column);
        assert!(error.contains(said) && error.contains("column `"), "{error}");
    }
    let several = outside("x", "select t from things where 'x' = $1");
    world.sql("insert into things (id) values ('00000000-0000-0000-0000-000000000002')");
    let error = adapter.observe(&several, &schema()).expect_err("two rows").to_string();
    assert!(error.contains("2 rows"), "{error}");
}

#[test]
fn parameters_of_every_type_arrive_and_none_becomes_sql() {
    let world = World::new();
    world.sql(ALL);
    let evil = "'; drop table accounts; -- \\ \" {a,b} ü";
    let set = |items: &[&str]| {
        Value::Set(std::sync::Arc::new(items.iter().map(|item| Value::String((*item).into())).collect()))
    };
    let sql = "update things set t = $2, m = $3, s = $4, n = $5, b = $6, tags = $7, at = $8, j = $9 where id = $1";
    let params = vec![
        Value::String("00000000-0000-0000-0000-000000000001".into()),
        Value::String(evil.into()),
        Value::String("sad".into()),
        Value::Long(-7),
        Value::Long(12),
        Value::Bool(false),
        set(&[evil, "", "null", "a,b"]),
        Value::String("2026-01-02 03:04:05Z".into()),
        set(&["x"]),
    ];
    let bank = Bank { statements: Some(vec![statement(sql, params)]), ..Bank::paying("p", 1) };
    let ended = bank.attempt(&world.adapter(), &call(&["a1"]), 1);
    assert!(matches!(ended, Attempt::Done(_)), "{ended:?}");
    let row = &world.rows("select t, m::text, s::text, n::text, b::text, tags, j::text from things")[0];
    let texts: Vec<String> = [0, 1, 2, 3, 4, 6].iter().map(|at| row.get(*at)).collect();
    assert_eq!(texts, [evil, "sad", "-7", "12", "false", "[\"x\"]"]);
    let mut tags: Vec<String> = row.get(5);
    tags.sort();
    let mut expected = [evil, "", "null", "a,b"];
    expected.sort_unstable();
    assert_eq!(tags, expected);
    let wrong = vec![statement("update things set s = $1 where true", vec![Value::String("x".into())])];
    let ended = Bank { statements: Some(wrong), ..Bank::paying("q", 1) }.attempt(&world.adapter(), &call(&["a1"]), 1);
    assert!(matches!(&ended, Attempt::Refused(evidence) if evidence.words().contains("22P02")), "{ended:?}");
}

#[test]
fn what_the_check_of_queries_takes_the_server_takes_and_locks() {
    let world = World::new();
    let adapter = world.adapter();
    let schema = schema();
    for query in [
        "select a.status, a.balance from public.accounts as a where $1 = a.id and not (a.balance < 0 or a.status is null)",
        "SELECT status::varchar(20), CAST(balance AS numeric(20, 0)) AS balance FROM \"accounts\" WHERE id = $1::text",
        "select lower(status) as status, greatest(coalesce(balance, 0), 0) balance from accounts where id = $1 and status like 'a%'",
        "select left(status, 6) as status, balance * 10 / 10 as balance from accounts where id = $1 and status not in ('x', 'y')",
    ] {
        assert_eq!(check_query(query, &schema), Ok(()), "{query}");
        let key = format!("p{}", query.len());
        let call = Call { outside: vec![outside("a1", query)], ..call(&[]) };
        let meanwhile = |_: &[_]| {
            let skipped =
                world.count("select count(*) from (select 1 from accounts where id = 'a1' for update skip locked) a");
            assert_eq!(skipped, 0, "the row is not locked by {query}");
        };
        let ended = Bank { meanwhile: &meanwhile, ..Bank::paying(&key, 1) }.attempt(&adapter, &call, 1);
        assert!(matches!(ended, Attempt::Done(_)), "{query}: {ended:?}");
    }
}

#[test]
fn a_column_of_another_type_than_the_pact_says_is_refused() {
    let world = World::new();
    for (query, said) in [
        ("select status, status as balance from accounts where id = $1", "balance"),
        ("select status, null::bigint as balance from accounts where id = $1", "balance"),
    ] {
        let call = Call { outside: vec![outside("a1", query)], ..call(&[]) };
        let ended = Bank::paying("p", 1).attempt(&world.adapter(), &call, 1);
        assert!(matches!(&ended, Attempt::Refused(evidence) if evidence.words().contains(said)), "{ended:?}");
    }
}
