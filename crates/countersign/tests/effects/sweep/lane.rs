//! One data folder and the runs on it, one after the other.

use super::traced::{Killed, Point, Traced};
use super::{RUNS_PER_LANE, SPANS, Shop};
use crate::effects::judge::{Judge, Judged};
use crate::effects::processes::{self, Gate};
use crate::effects::{act, set_up};
use countersign_testing::payments::book::Payout;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What is asked for in one run, each kind with its account; the second payout from an account meets the fence of the first, and
/// the freeze comes while a payout cools.
const ASKED: [(&str, usize); 9] = [
    ("once", 0),
    ("keyed", 1),
    ("cooled", 2),
    ("cooled", 3),
    ("freeze", 3),
    ("once", 4),
    ("keyed", 5),
    ("once", 1),
    ("cooled", 4),
];
const ACCOUNTS: usize = 6;
/// How long a gate goes on after the last answer: calls cool, leave, time out and are probed the first time.
const LINGER: Duration = Duration::from_millis(700);

pub struct Lane {
    name: String,
    data: PathBuf,
    trace: PathBuf,
    runs: usize,
    judge: Judge,
    /// The calls that clients were told of.
    told: BTreeSet<u64>,
}

/// One run.
pub struct Run {
    /// In which life the gate was killed, and right before what.
    pub kills: Vec<(usize, String)>,
    /// Where calls were then.
    pub stages: Vec<String>,
    /// What its calls came to.
    pub judged: Judged,
    /// How many requests had to be repeated.
    pub repeated: u64,
}

/// One request of a client.
struct Order {
    body: Json,
    answer: Option<Json>,
}

/// What was paid at a moment.
type Paid = BTreeSet<String>;

impl Lane {
    pub fn open(shop: &Shop, name: String) -> Self {
        let data = shop.path().join(&name);
        processes::countersign(&["init", "--open", "--origin", "effects.example/log"], &data);
        let gate = Gate::start(&data, &shop.settings);
        let accounts: Vec<String> = (0..RUNS_PER_LANE * ACCOUNTS).map(|account| format!("{name}-{account}")).collect();
        set_up(&gate.url, &SPANS, &accounts);
        gate.kill();
        let trace = shop.path().join(format!("{name}.trace"));
        Self { name, data, trace, runs: 0, judge: Judge::default(), told: BTreeSet::new() }
    }

    pub fn is_used_up(&self) -> bool {
        self.runs >= RUNS_PER_LANE
    }

    /// Everything that was decided in this folder comes out the same again.
    pub fn audited(self) -> Self {
        processes::countersign(&["audit"], &self.data);
        self
    }

    /// Counts the calls of a gate that is asked, and of one that picks up what that one left.
    pub fn count(mut self, shop: &Shop) -> [BTreeMap<String, u32>; 2] {
        let mut orders = self.orders(shop.seed);
        let gate = self.start(shop, None);
        ask(gate.url.as_deref().unwrap(), &mut orders, false);
        let asked = gate.counts(LINGER);
        let mut orders = self.orders(shop.seed);
        let gate = self.start(shop, None);
        ask(gate.url.as_deref().unwrap(), &mut orders, false);
        drop(gate);
        [asked, self.start(shop, None).counts(LINGER)]
    }

    fn start(&self, shop: &Shop, point: Option<&Point>) -> Traced {
        Traced::start(&self.data, &shop.settings, self.trace.clone(), point)
    }

    /// One run: asked and killed, picked up and killed, and left alone until no call is open.
    pub fn run(&mut self, shop: &Shop, first: Option<&Point>, second: Option<&Point>) -> Run {
        let since = self.judge.len();
        let mut orders = self.orders(shop.seed);
        let gate = self.start(shop, first);
        if let Some(url) = &gate.url {
            ask(url, &mut orders, false);
        }
        let asked = gate.end(linger(first)).map(|killed| (killed, paid(shop)));
        let gate = self.start(shop, second);
        let found = gate.found;
        let picked_up = gate.end(linger(second)).map(|killed| (killed, paid(shop)));
        let gate = Gate::start(&self.data, &shop.settings);
        let repeated = ask(&gate.url, &mut orders, true);
        self.judge.follow(&gate.url, Duration::from_secs(60));
        self.told.extend(orders.iter().filter_map(Order::effect));
        let known: BTreeSet<u64> = self.judge.effects().collect();
        assert_eq!(known, self.told, "{}: clients know all calls, and no others", self.name);
        let judged = self.compare_since(since, &shop.plain.read(), &shop.keyed.read());
        let mut stages = Vec::new();
        let mut kills = Vec::new();
        // How many entries a gate that was killed had written is known from the next that came so far to say it.
        for (number, killed, size) in [(0, asked, found.unwrap_or(gate.found)), (1, picked_up, gate.found)] {
            let Some((killed, paid)) = killed else { continue };
            stages.extend(self.judge.stages(since, size, &paid));
            kills.push((number, step(&killed, shop)));
        }
        gate.kill();
        Run { kills, stages, judged, repeated }
    }

    fn orders(&mut self, seed: u64) -> Vec<Order> {
        let run = self.runs;
        self.runs += 1;
        let order = |(number, (action, account)): (usize, &(&str, usize))| {
            let mut params = json!({"account": format!("{}-{}", self.name, run * ACCOUNTS + account)});
            if *action != "freeze" {
                params["amount"] = (1 + run * 100 + number).into();
            }
            let key = format!("{seed:016x}-{}-{run}-{number}", self.name);
            let body = json!({"pact": "payouts", "action": action, "idempotency_key": key, "params": params});
            Order { body, answer: None }
        };
        ASKED.iter().enumerate().map(order).collect()
    }

    /// Compares all that this folder has ever sent with the books.
    pub fn compare(&self, plain: &[Payout], keyed: &[Payout]) -> Judged {
        self.compare_since(0, plain, keyed)
    }

    fn compare_since(&self, since: u64, plain: &[Payout], keyed: &[Payout]) -> Judged {
        let prefix = format!("{}-", self.name);
        let ours = |book: &[Payout]| -> Vec<Payout> {
            book.iter().filter(|payout| payout.destination.starts_with(&prefix)).cloned().collect()
        };
        let (plain, keyed) = (ours(plain), ours(keyed));
        self.judge.compare_since(since, &[("plain", plain.as_slice()), ("keyed", keyed.as_slice())])
    }
}

impl Order {
    fn effect(&self) -> Option<u64> {
        self.answer.as_ref()?["effect"].as_str()?.strip_prefix("eff_")?.parse().ok()
    }

    /// Keeps an answer; one that was given before must be the same.
    fn keep(&mut self, answer: Json) {
        let named = |answer: &Json| match answer["effect"].as_str() {
            Some(effect) => effect.to_owned(),
            None => format!("{} in entry {}", answer["verdict"], answer["entry"]),
        };
        if let Some(told) = &self.answer {
            assert_eq!(named(told), named(&answer), "told {told}, and now {answer}");
        }
        self.answer = Some(answer);
    }
}

/// Two clients ask for every second order each. Where it `insists`, everything is asked until there is an answer; otherwise a
/// client gives up when there is none. Gives how many had not been answered before.
fn ask(url: &str, orders: &mut [Order], insists: bool) -> u64 {
    let unanswered = orders.iter().filter(|order| order.answer.is_none()).count() as u64;
    let (mut one, mut other): (Vec<_>, Vec<_>) = orders.iter_mut().enumerate().partition(|(number, _)| number % 2 == 0);
    std::thread::scope(|scope| {
        for share in [&mut one, &mut other] {
            scope.spawn(move || {
                let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(10)));
                let agent: ureq::Agent = config.http_status_as_error(false).proxy(None).build().into();
                let until = Instant::now() + Duration::from_secs(60);
                for (_, order) in share {
                    let answer = loop {
                        match act(&agent, url, &order.body) {
                            Some(answer) => break answer,
                            None if !insists => return,
                            None => assert!(Instant::now() < until, "never answered: {}", order.body),
                        }
                        std::thread::sleep(Duration::from_millis(10));
                    };
                    order.keep(answer);
                }
            });
        }
    });
    unanswered
}

/// How long a gate may take to reach its point. A file that is written late, such as the anchor, is worth waiting for.
fn linger(point: Option<&Point>) -> Duration {
    if point.is_some_and(|point| point.file.is_some()) { LINGER * 8 } else { LINGER }
}

fn paid(shop: &Shop) -> Paid {
    shop.plain.read().into_iter().chain(shop.keyed.read()).map(|payout| payout.key).collect()
}

/// What a gate was about to do when it was killed: the kind of the call, and what it was about.
fn step(killed: &Killed, shop: &Shop) -> String {
    let Killed { point, call } = killed;
    let is_to = |port: &str| call.contains(&format!("->127.0.0.1:{port}]")) || call.contains(&format!("htons({port})"));
    let about = match () {
        () if call.contains(".seg") => "segment",
        () if call.contains(".snap") => "snapshot",
        () if call.contains("/anchor") => "anchor",
        () if call.contains("/clean") => "mark of a clean close",
        () if call.contains("/log/lock") => "lock",
        () if call.contains("/log\"") || call.contains("/log>") => "folder",
        () if is_to(shop.plain.port()) || is_to(shop.keyed.port()) => "service",
        () if call.contains("<TCP:[") => "client",
        () if call.contains(shop.path().to_str().unwrap_or("?")) => "another file of the gate",
        () => "",
    };
    format!("{} {about}", point.call).trim_end().to_owned()
}
