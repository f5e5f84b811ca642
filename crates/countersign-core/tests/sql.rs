//! SQL in pacts: what is taken, what is refused with which words, and that nothing makes the checks fail.

use countersign_core::pact::FactSchema;
use countersign_core::pact::sql::{check_query, check_statement, query_table};
use countersign_core::value::{FieldType, ValueType};
use proptest::prelude::*;

fn schema(names: &[&str]) -> FactSchema {
    names.iter().map(|name| ((*name).into(), FieldType { ty: ValueType::Long, required: true })).collect()
}

fn account() -> FactSchema {
    schema(&["status", "balance"])
}

const GOOD_QUERIES: [&str; 21] = [
    "select status, balance from accounts where id = $1",
    "SELECT status, balance\n FROM bank.accounts\tWHERE id = $1",
    "select a.status, a.balance from bank.accounts a where a.id = $1",
    "select a.status, a.balance from accounts as a where $1 = a.id",
    "select accounts.status, balance from accounts where accounts.id = $1",
    "select status::text, balance from accounts where id = $1::uuid",
    "select cast(status as varchar(20)), balance::numeric(20, 0) from accounts where id::text = $1",
    "select state as status, (amount * 100)::bigint as balance from accounts where id = $1",
    "select state status, coalesce(balance, 0) balance from accounts where id = $1",
    "select status, balance from accounts where id = $1 and deleted = false",
    "select status, balance from accounts where tenant = 'acme; --' and id = $1 and not hidden",
    "select status, balance from accounts where id = $1 and (kind = 'a' or kind = 'b') and closed_at is null",
    "select status, balance from accounts where id = $1 and kind in ('a', 'b') and kind not in ('c')",
    "select status, balance from accounts where id = $1 and kind like 'a%' and kind not like '%b'",
    "select \"status\", \"Total\" as \"balance\" from \"My Accounts\" where \"Id\" = $1",
    "select 'it''s' as status, -1 as balance from accounts where id = $1",
    "select lower(status) as status, greatest(balance, 0) as balance from accounts where id = $1",
    "select status, balance > 0 and status = 'active' as balance from accounts where id = $1",
    "select status, balance from accounts where id = cast($1 as integer)",
    "select status, tags::text[] as balance from accounts where id = $1",
    "select status, (extract(epoch from changed_at) * 1000)::bigint as balance from accounts where id = $1",
];

#[test]
fn queries_that_lock_one_row_are_taken() {
    for sql in GOOD_QUERIES {
        assert_eq!(check_query(sql, &account()), Ok(()), "{sql}");
    }
}

/// A query, what of it is pointed at, and a part of the message.
const BAD_QUERIES: [(&str, &str, &str); 50] = [
    ("", "", "`select` is missing"),
    ("update accounts set balance = 0", "update", "`select` is expected"),
    ("select * from accounts where id = $1", "*", "change with the table"),
    ("select distinct status, balance from accounts where id = $1", "distinct", "merges rows"),
    ("select all status, balance from accounts where id = $1", "all", "a column is expected"),
    ("select status, sum(balance) as balance from accounts where id = $1", "sum", "many rows"),
    ("select count(*) as status, balance from accounts where id = $1", "count", "many rows"),
    ("select status, row_number() over () as balance from accounts where id = $1", "row_number", "nothing but the row"),
    ("select status, round(balance) over () as balance from accounts where id = $1", "over", "windows"),
    ("select status, nextval('s') as balance from accounts where id = $1", "nextval", "nothing but the row"),
    ("select status, now() as balance from accounts where id = $1", "now", "nothing but the row"),
    ("select status, pg_sleep(1) as balance from accounts where id = $1", "pg_sleep", "nothing but the row"),
    ("select status, current_timestamp as balance from accounts where id = $1", "current_timestamp", "time"),
    ("select status, balance from accounts", "", "`where` is missing"),
    ("select status, balance where id = $1", "where", "`from` is expected"),
    ("select status, balance from accounts, owners where id = $1", ",", "second table"),
    ("select status, balance from accounts join owners on true where id = $1", "join", "join"),
    ("select status, balance from accounts a left join owners on true where id = $1", "left", "join"),
    ("select status, balance from (select 1) a where id = $1", "(", "a table is expected"),
    ("select status, balance from f($1) where id = $1", "(", "function's rows"),
    ("select status, balance from only accounts where id = $1", "only", "a table is expected"),
    ("select status, balance from accounts tablesample system (1) where id = $1", "tablesample", "`where` is expected"),
    ("select status, (select 1) as balance from accounts where id = $1", "select", "subquery"),
    ("select status, balance from accounts where id = $1 and exists (select 1)", "exists", "not among the functions"),
    ("select status, balance from accounts where id in (select $1)", "select", "subquery"),
    ("with a as (select 1) select status, balance from a where id = $1", "with", "not locked"),
    ("select status, balance from accounts where id = $1 or true", "or", "other rows"),
    ("select status, balance from accounts where (id = $1 or true)", "(id = $1 or true)", "no condition"),
    ("select status, balance from accounts where not id = $1", "not id = $1", "no condition"),
    ("select status, balance from accounts where id <> $1", "id <> $1", "no condition"),
    ("select status, balance from accounts where id = 'a'", "id = 'a'", "no condition"),
    ("select status, balance from accounts where lower(id) = $1", "lower(id) = $1", "no condition"),
    ("select status, balance from accounts where id = $1 || ''", "id = $1 || ''", "no condition"),
    ("select status, balance from accounts where id = $1 is null", "id = $1 is null", "no condition"),
    ("select status, balance from accounts where id = $2", "$2", "no $2"),
    ("select status, balance from accounts where id = $1 and tenant = $1", "$1", "twice"),
    ("select status, $1 as balance from accounts where id = $1", "$1", "no attribute"),
    ("select status, balance from accounts where id = $1 group by status", "group", "merges rows"),
    ("select status, balance from accounts where id = $1 order by status", "order", "no order"),
    ("select status, balance from accounts where id = $1 limit 1", "limit", "by chance"),
    ("select status, balance from accounts where id = $1 union select 1, 2", "union", "several rows"),
    ("select status, balance from accounts where id = $1 for update", "for", "by itself"),
    ("select status, balance from accounts where id = $1;", ";", "without a semicolon"),
    ("select status, balance from accounts where id = $1; drop table accounts", ";", "without a semicolon"),
    ("select status, balance from accounts -- where\n where id = $1", "--", "comments"),
    ("select status, balance from accounts /* x */ where id = $1", "/*", "comments"),
    ("select status, balance from accounts where id = $1 and kind = E'\\''", "E'", "escapes"),
    ("select status, balance from accounts where id = $1 and kind = $$a$$", "$$a$$", "not a parameter"),
    ("select status, balance from accounts where id = $1 and kind = 'a", "'a", "not closed"),
    ("select b.status, balance from accounts a where id = $1", "b", "not the table"),
];

#[test]
fn queries_that_do_not_lock_one_row_are_refused_with_the_place_and_a_hint() {
    for (sql, place, message) in BAD_QUERIES {
        let problems = check_query(sql, &account()).expect_err(sql);
        let (span, said, hint) = &problems[0];
        assert!(said.contains(message), "{sql}\n{said}");
        assert_eq!(&sql[span.clone()], place, "{sql}\n{said}");
        assert!(!hint.is_empty(), "{sql}");
    }
}

#[test]
fn columns_must_be_the_attributes() {
    let all = |sql: &str| check_query(sql, &schema(&["status", "onHand", "limit_cents"])).expect_err(sql);
    let problems = all("select staus, onHand, 1 + 1, status, status from items where id = $1");
    let said: Vec<&str> = problems.iter().map(|(_, said, _)| said.as_str()).collect();
    assert_eq!(
        said,
        [
            "`staus` is not an attribute of the fact type",
            "`onhand` is not an attribute of the fact type",
            "this column has no name",
            "`status` is there twice",
            "no column gives the attribute `limit_cents`",
        ]
    );
    assert_eq!(problems[1].2, "did you mean `onHand`? write `onhand as \"onHand\"`");
}

#[test]
fn the_table_of_a_query_is_named_as_it_is_written() {
    assert_eq!(query_table("select a from b.\"C d\" x where id = $1"), Some("b.\"C d\""));
    assert_eq!(query_table("select a from b, c where id = $1"), None);
}

const GOOD_STATEMENTS: [(&str, usize); 6] = [
    ("update accounts set balance = balance - $2, changed = now() where id = $1", 2),
    ("insert into payouts (id, account, amount) values ($1, $2, $3)", 3),
    ("INSERT INTO log (what) VALUES ('paid; -- not a comment')", 0),
    ("delete from holds where id = $1 and at < cast($2 as timestamp with time zone)", 2),
    ("insert into totals as t values ($1, $2) on conflict (id) do update set n = t.n + $2", 2),
    ("update a set b = (select c from d where e = $1) where id = $2", 2),
];

#[test]
fn statements_that_change_rows_are_taken_and_their_parameters_counted() {
    for (sql, count) in GOOD_STATEMENTS {
        assert_eq!(check_statement(sql), Ok(count), "{sql}");
    }
}

#[test]
fn other_statements_are_refused_with_the_place_and_a_hint() {
    let cases = [
        ("", "", "not a statement"),
        ("select 1", "select", "not a statement"),
        ("truncate accounts", "truncate", "not a statement"),
        ("with x as (delete from a returning *) insert into b select * from x", "with", "not a statement"),
        ("insert into b with x as (delete from a returning *) select * from x", "with", "that are not counted"),
        ("update accounts set balance = 0", "update", "every row"),
        ("update accounts set balance = (select 1 where true)", "update", "every row"),
        ("delete from accounts", "delete", "every row"),
        ("delete from accounts where id = $1; drop table accounts", ";", "only one statement"),
        ("delete from accounts where id = $1;", ";", "only one statement"),
        ("delete from accounts where id = $1 -- and tenant = 2", "--", "comments"),
        ("delete from accounts where id = $2", "$2", "but no $1"),
        ("insert into a values ($1, $3)", "$3", "but no $2"),
        ("insert into a values ($0)", "$0", "not a parameter"),
        ("insert into a values ($01)", "$01", "not a parameter"),
        ("insert into a values ($65)", "$65", "more than the 64"),
        ("insert into a values ($1", "($1", "not closed"),
        ("insert into a values $1)", ")", "closes nothing"),
        ("insert into a values (U&'\\0041')", "U&", "escapes"),
        ("insert into a values ('\u{e9}', \u{e9})", "\u{e9}", "is not allowed here"),
    ];
    for (sql, place, message) in cases {
        let problems = check_statement(sql).expect_err(sql);
        let (span, said, hint) = &problems[0];
        assert!(said.contains(message), "{sql}\n{said}");
        assert_eq!(&sql[span.clone()], place, "{sql}\n{said}");
        assert!(!hint.is_empty(), "{sql}");
    }
}

#[test]
fn what_is_too_long_or_too_deep_is_refused() {
    let deep = format!("select {}1{} as a from t where id = $1", "(".repeat(3000), ")".repeat(3000));
    assert!(check_query(&deep, &schema(&["a"])).unwrap_err()[0].1.contains("too deeply"));
    let deep = format!("insert into t values {}1{}", "(".repeat(3000), ")".repeat(3000));
    assert!(check_statement(&deep).unwrap_err()[0].1.contains("too deeply"));
    assert!(check_statement(&" ".repeat(10_000)).unwrap_err()[0].1.contains("10000 bytes"));
}

/// Text that is nearly SQL, made of the words and signs that matter.
fn nearly_sql() -> impl Strategy<Value = String> {
    let words = "select from where and or not in is null as cast update insert delete with a b.c \" ' $1 $2 $ ( ) , ; :: [ ] = \
        - -- /* * 1 1.5e \u{e9} E' U& sum coalesce text timestamp \0 \u{2028} \\";
    let word = prop::sample::select(words.split(' ').collect::<Vec<_>>());
    prop::collection::vec((word, prop::bool::ANY), 0..60)
        .prop_map(|words| words.iter().map(|(word, gap)| format!("{word}{}", if *gap { " " } else { "" })).collect())
}

fn places_are_in_the_text(sql: &str) {
    let query = check_query(sql, &account()).err().unwrap_or_default();
    let statement = check_statement(sql).err().unwrap_or_default();
    for (span, message, hint) in query.into_iter().chain(statement) {
        assert!(sql.get(span.clone()).is_some(), "{span:?} of {sql:?}: {message}");
        assert!(!message.is_empty() && !hint.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_answered(sql in "\\PC{0,200}") {
        places_are_in_the_text(&sql);
    }

    #[test]
    fn text_that_is_nearly_sql_is_answered(sql in nearly_sql()) {
        places_are_in_the_text(&sql);
    }

    #[test]
    fn good_sql_with_something_broken_is_answered(at in 0..GOOD_QUERIES.len(), cut in 0..200_usize, put in "\\PC{0,3}") {
        let sql = GOOD_QUERIES[at];
        let cut = sql.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(sql.len());
        places_are_in_the_text(&format!("{}{put}{}", &sql[..cut], &sql[cut..]));
    }
}
