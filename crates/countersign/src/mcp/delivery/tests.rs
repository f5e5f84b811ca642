//! What is unsure, after which answers were made and which were lost.

use super::arrivals::over_http;
use super::sessions::SESSIONS_MAX;
use super::*;

fn read(marks: &Shared, name: &str) -> Arc<Delivery> {
    let delivery = Delivery::begin(marks, name.to_owned(), over_http());
    delivery.reads();
    delivery.tells_reading();
    delivery
}

fn unsure(marks: &Shared) -> Vec<String> {
    let delivery = Delivery::begin(marks, "a write".to_owned(), over_http());
    delivery.tells_nothing();
    delivery.unsure()
}

fn untold(marks: &Shared) -> Vec<String> {
    let answer = Delivery::begin(marks, String::new(), over_http());
    answer.tells_nothing();
    let told = answer.carries([], 4096);
    answer.made();
    told
}

#[test]
fn what_goes_with_an_answer_that_is_lost_goes_with_another() {
    let marks = Shared::default();
    ["one", "two"].iter().for_each(|line| lock(&marks).keep_untold((*line).to_owned()));
    let warning = |since| [(("shop/get".to_owned(), "{}".to_owned(), since), "differs".to_owned())];
    for _ in 0..2 {
        let answer = Delivery::begin(&marks, String::new(), over_http());
        answer.tells_nothing();
        assert_eq!(answer.carries(warning(7), 4096), ["one", "two", "differs"]);
        assert!(answer.carries(warning(7), 4096).is_empty(), "they are on their way");
        drop(answer);
    }
    assert_eq!(untold(&marks), ["one", "two"]);
    let answer = Delivery::begin(&marks, String::new(), over_http());
    answer.tells_nothing();
    assert_eq!(answer.carries(warning(7), 4096), ["differs"]);
    answer.made();
    let answer = Delivery::begin(&marks, String::new(), over_http());
    answer.tells_nothing();
    assert!(answer.carries(warning(7), 4096).is_empty(), "it was told");
    assert_eq!(answer.carries(warning(8), 4096), ["differs"], "that is another");
}

#[test]
fn every_call_that_came_before_its_client_was_told_that_the_session_is_gone_tells_it() {
    let marks = Shared::default();
    let call = || Delivery::begin(&marks, "w".to_owned(), over_http());
    assert!(!call().tells_gone());
    let (early, other) = (call(), call());
    lock(&marks).begin_again();
    assert!(early.tells_gone());
    drop(early);
    let next = call();
    assert!(next.tells_gone(), "the one before did not arrive");
    next.made();
    assert!(other.tells_gone(), "it was sent before that");
    assert!(!call().tells_gone());
}

#[test]
fn only_an_answer_that_holds_a_reading_and_has_arrived_makes_one_known() {
    let marks = Shared::default();
    let knows = || Delivery::begin(&marks, "w".to_owned(), over_http()).knows_a_reading();
    let refused = Delivery::begin(&marks, "a".to_owned(), over_http());
    refused.reads();
    assert!(!knows());
    refused.tells_nothing();
    refused.made();
    drop(read(&marks, "a"));
    assert!(!knows());
    let write = Delivery::begin(&marks, "w".to_owned(), over_http());
    read(&marks, "a").made();
    assert!(knows() && !write.knows_a_reading(), "it came before that");
    lock(&marks).begin_again();
    assert!(!knows(), "that was in another session");
}

#[test]
fn what_the_gate_did_not_keep_takes_no_room() {
    let marks = Shared::default();
    for at in 0..2 * READ_MAX {
        let unkept = Delivery::begin(&marks, at.to_string(), over_http());
        unkept.reads();
        // What is told of changes while it is on its way may be lost.
        let write = Delivery::begin(&marks, "w".to_owned(), over_http());
        write.writes();
        drop(write);
        unkept.tells_nothing();
    }
    let kept = || {
        let marks = lock(&marks);
        (marks.read.len(), marks.lost.len(), marks.is_overfull())
    };
    assert_eq!(kept(), (0, 0, false));
    (0..=READ_MAX).for_each(|at| drop(read(&marks, &at.to_string())));
    assert_eq!(kept(), (READ_MAX, READ_MAX, true), "nothing can rest on what is not remembered");
    lock(&marks).begin_again();
    assert!(!lock(&marks).is_overfull());
}

#[test]
fn what_is_handed_over_is_known_and_what_is_dropped_is_not() {
    let marks = Shared::default();
    read(&marks, "a").made();
    assert_eq!(unsure(&marks), [""; 0]);
    drop(read(&marks, "a"));
    assert_eq!(unsure(&marks), ["a"]);
    drop(read(&marks, "a"));
    drop(read(&marks, "a"));
    assert_eq!(unsure(&marks), ["a", "a"], "twice says enough");
    read(&marks, "a").made();
    assert_eq!(unsure(&marks), [""; 0]);
}

#[test]
fn a_write_counts_what_had_arrived_when_it_came_and_nothing_later() {
    let marks = Shared::default();
    read(&marks, "a").made();
    drop(read(&marks, "a"));
    let write = Delivery::begin(&marks, "w".to_owned(), over_http());
    let late = read(&marks, "a");
    assert_eq!(write.unsure(), ["a"]);
    late.made();
    assert_eq!(write.unsure(), ["a"], "the write came before that arrived");
    write.tells_nothing();
    // What was lost while an answer was on its way is not known by that answer.
    let on_its_way = read(&marks, "a");
    let other = Delivery::begin(&marks, "w".to_owned(), over_http());
    other.writes();
    drop(other);
    on_its_way.made();
    assert_eq!(unsure(&marks), ["a"]);
}

#[test]
fn a_read_behind_a_write_waits_until_the_write_is_noted() {
    let marks = Shared::default();
    let write = Delivery::begin(&marks, "w".to_owned(), over_http());
    write.writes();
    let behind = Delivery::begin(&marks, "a".to_owned(), over_http());
    let (told, heard) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        behind.waits_for_writes().expect("is noted in time");
        told.send(()).expect("is heard");
    });
    assert!(heard.recv_timeout(Duration::from_millis(50)).is_err(), "the write is not noted");
    write.is_noted();
    heard.recv_timeout(Duration::from_secs(20)).expect("goes on");
    waiting.join().expect("ends");
}

#[test]
fn an_answer_is_lost_under_the_names_that_it_is_kept_under_and_as_often() {
    let marks = Shared::default();
    let kept_as = |each: usize| {
        let delivery = Delivery::begin(&marks, "as it was asked".to_owned(), over_http());
        delivery.keeps_as(vec!["a".to_owned(), "b".to_owned()], each);
        delivery.reads();
        delivery.tells_reading();
        delivery
    };
    let on_its_way = kept_as(1);
    assert_eq!(unsure(&marks), ["a", "b"]);
    on_its_way.made();
    assert_eq!(unsure(&marks), [""; 0]);
    drop(kept_as(2));
    assert_eq!(unsure(&marks), ["a", "a", "b", "b"]);
    kept_as(1).made();
    assert_eq!(unsure(&marks), [""; 0]);
}

#[test]
fn a_write_waits_until_it_is_known_what_the_calls_before_it_read() {
    let marks = Shared::default();
    let read = Delivery::begin(&marks, "as it was asked".to_owned(), over_http());
    let write = Delivery::begin(&marks, "w".to_owned(), over_http());
    let (told, heard) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        write.waits_for_names().expect("is known in time");
        told.send(write.unsure()).expect("is heard");
    });
    assert!(heard.recv_timeout(Duration::from_millis(50)).is_err(), "it could be kept under any name");
    read.keeps_as(vec!["a".to_owned()], 1);
    assert_eq!(heard.recv_timeout(Duration::from_secs(20)).expect("goes on"), ["a"]);
    waiting.join().expect("ends");
}

#[test]
fn an_answer_without_a_reading_makes_none_known() {
    let marks = Shared::default();
    read(&marks, "a").made();
    drop(read(&marks, "a"));
    // The gate says for certain that it has read nothing.
    let refused = Delivery::begin(&marks, "a".to_owned(), over_http());
    refused.reads();
    refused.tells_nothing();
    refused.made();
    assert_eq!(unsure(&marks), ["a"]);
    // Here it may have read.
    let silent = Delivery::begin(&marks, "a".to_owned(), over_http());
    silent.reads();
    silent.made();
    assert_eq!(unsure(&marks), ["a", "a"]);
}

#[test]
fn what_a_write_tells_is_not_known_before_it_was_told() {
    let marks = Shared::default();
    read(&marks, "a").made();
    read(&marks, "b").made();
    let write = Delivery::begin(&marks, "w".to_owned(), over_http());
    write.writes();
    let other = Delivery::begin(&marks, "w".to_owned(), over_http());
    write.tells_outcome("done".to_owned());
    write.made();
    assert_eq!(other.unsure(), ["a", "b"], "it came before");
    other.tells_outcome(String::new());
    other.made();
    assert_eq!(unsure(&marks), [""; 0]);
    let cancelled = Delivery::begin(&marks, "w".to_owned(), over_http());
    cancelled.writes();
    let thread = Arc::clone(&cancelled);
    drop(cancelled);
    // While the gate works on it, an answer that reaches the client settles nothing that comes later.
    read(&marks, "a").made();
    assert_eq!(unsure(&marks), ["a", "b"]);
    thread.tells_outcome("it was done".to_owned());
    drop(thread);
    assert_eq!(unsure(&marks), ["a", "b"]);
    assert_eq!(untold(&marks), ["it was done"]);
    assert_eq!(untold(&marks), [""; 0]);
}

#[test]
fn a_call_that_was_left_open_is_unsure_until_its_outcome_is_told() {
    let marks = Shared::default();
    read(&marks, "a").made();
    let write = Delivery::begin(&marks, "w".to_owned(), over_http());
    write.writes();
    write.leaves_open(Some(7));
    write.made();
    read(&marks, "a").made();
    assert_eq!((unsure(&marks), lock(&marks).open()), (vec!["a".to_owned()], vec![7]));
    let asked = |line: &str| {
        let asked = Delivery::begin(&marks, String::new(), over_http());
        asked.asks_for(7);
        asked.tells_outcome(line.to_owned());
        asked
    };
    asked("").made();
    drop(asked("done"));
    assert_eq!(unsure(&marks), ["a"], "it was not told");
    asked("done").made();
    assert_eq!(unsure(&marks), [""; 0]);
    let write = Delivery::begin(&marks, "w".to_owned(), over_http());
    write.leaves_open(Some(9));
    write.made();
    lock(&marks).ended(9, "it failed".to_owned());
    assert_eq!((unsure(&marks), untold(&marks)), (vec!["a".to_owned()], vec!["it failed".to_owned()]));
}

#[test]
fn what_was_read_before_a_session_was_gone_on_in_is_unsure_until_it_is_read() {
    let marks = Shared::default();
    lock(&marks).follow(vec!["a".to_owned()], [7]);
    assert_eq!(unsure(&marks), ["a", "a"]);
    read(&marks, "a").made();
    assert_eq!(unsure(&marks), ["a"], "a call is under way that may change it");
    lock(&marks).ended(7, "it was done".to_owned());
    read(&marks, "a").made();
    assert_eq!(unsure(&marks), [""; 0]);
}

#[test]
fn what_is_read_after_a_session_was_cut_off_is_known_to_calls_that_come_after_it_arrived() {
    let marks = Shared::default();
    // The session is gone on in with the first call, after it has come.
    let (first, beside) = (read(&marks, "a"), Delivery::begin(&marks, "w".to_owned(), over_http()));
    lock(&marks).follow(vec!["a".to_owned(), "b".to_owned()], []);
    assert_eq!(beside.unsure(), ["a", "a", "b", "b"], "nothing has arrived");
    first.made();
    assert_eq!(beside.unsure(), ["a", "a", "b", "b"], "it came before that arrived");
    drop(beside);
    let next = Delivery::begin(&marks, "w".to_owned(), over_http());
    assert_eq!(next.unsure(), ["a", "b", "b"], "the write before it was lost, and may have told of it");
    next.tells_nothing();
    next.made();
    read(&marks, "a").made();
    let last = Delivery::begin(&marks, "w".to_owned(), over_http());
    assert!(!last.unsure().contains(&"a".to_owned()), "{:?}", last.unsure());
}

#[test]
fn a_session_is_named_by_what_its_client_was_told_and_by_nothing_else() {
    let (sessions, client) = (Sessions::default(), |name: &str| Some(Digest::of(name.as_bytes())));
    let named = |at: usize| Named { name: format!("ses_{at}"), told: format!("ses_{at}.secret") };
    let marks: Vec<Shared> = (0..=SESSIONS_MAX).map(|_| Shared::default()).collect();
    for (at, marks) in marks.iter().enumerate() {
        lock(marks).is_of(client(if at < 5 { "one" } else { "another" }));
        let forgotten = sessions.opened(named(at), marks);
        let expected = if at < SESSIONS_MAX { Vec::new() } else { vec!["ses_5".to_owned()] };
        assert_eq!(forgotten, expected, "of those of the client that has the most");
    }
    let found = sessions.named("ses_7.secret").expect("was opened");
    assert!(Arc::ptr_eq(&found, &marks[7]));
    assert!(sessions.named("ses_7").is_none(), "that can be guessed");
    assert!(sessions.named("ses_5.secret").is_none(), "it was used longest ago");
    assert!(sessions.named("ses_0.secret").is_some(), "its client has few");
}
