//! How often one caller may ask: a token bucket for each key that has signed, and one for each peer that has not.
//!
//! Only a verified signature is charged to its key, so that no one can use up someone else's requests by naming their key; what
//! fails is charged to the peer that sent it. A key that has used up its requests is refused before its signature is verified or its
//! nonce kept; only so many a second are verified anyway, to count them for its holder. Each bucket is one atomic number (the
//! time at which it will be full again), so callers do not wait for each other.

use super::error::{HttpError, denied};
use axum::http::{HeaderMap, HeaderValue};
use countersign_core::denial::DenialCode;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

/// What a body costs: one request for each whole so many bytes, on top of the one that every request costs.
const BYTES_PER_REQUEST: usize = 4096;

/// What a request of an agent that is not active costs: it is refused whatever it asks for, and its signature was verified.
pub const INACTIVE_COST: u64 = 100;

/// How many buckets one map keeps. Full ones are dropped first, which loses nothing; past this, callers share one.
const BUCKETS_MAX: usize = 4096;

/// How many maps the buckets of keys are spread over, so that adding one stops few.
const SHARDS: usize = 16;

/// How often callers may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSettings {
    /// Requests a second of one key. A gate decides some 13,000 signed actions a second on a small machine: an agent that is this
    /// fast is not slowed down, and one that is faster cannot keep the others from their turn.
    pub per_key: u32,
    /// Requests a second of one peer that are not signed, and as many whose signature is refused.
    pub per_peer: u32,
}

impl Default for RateSettings {
    fn default() -> Self {
        Self { per_key: 20_000, per_peer: 1_000 }
    }
}

/// The buckets of one server.
#[derive(Debug)]
pub struct Rates {
    started: Instant,
    per_key: Rate,
    per_peer: Rate,
    policy: HeaderValue,
    keys: [Buckets<[u8; 32]>; SHARDS],
    /// Of keys that have used up theirs.
    beyond: Buckets<[u8; 32]>,
    unsigned: Buckets<IpAddr>,
    failed: Buckets<IpAddr>,
}

/// What is left of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// So many requests at once.
    pub requests: u64,
    /// Seconds until it is full again.
    pub full_in_s: u64,
}

/// A bucket is empty; anyone who asks again must wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Empty;

#[derive(Debug, Clone, Copy)]
struct Rate {
    /// Nanoseconds that one request takes to come back.
    each_ns: u64,
    /// Nanoseconds that the whole bucket takes: it holds what comes back in a second.
    whole_ns: u64,
}

impl Rate {
    fn per_s(requests: u32) -> Self {
        let each_ns = 1_000_000_000 / u64::from(requests.max(1));
        Self { each_ns, whole_ns: each_ns * u64::from(requests.max(1)) }
    }

    fn is_empty(self, bucket: &AtomicU64, now_ns: u64) -> bool {
        bucket.load(Ordering::Relaxed).saturating_sub(now_ns) + self.each_ns > self.whole_ns
    }

    /// Takes requests out of a bucket, unless there are too few. What costs more than a whole bucket costs a whole one.
    fn take(self, bucket: &AtomicU64, requests: u64, now_ns: u64) -> Result<Left, Empty> {
        let cost_ns = self.each_ns.saturating_mul(requests).min(self.whole_ns);
        let taken = bucket.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at_ns| {
            let next = full_at_ns.max(now_ns) + cost_ns;
            (next - now_ns <= self.whole_ns).then_some(next)
        });
        let used_ns = taken.map_err(|_| Empty)?.max(now_ns) + cost_ns - now_ns;
        Ok(Left { requests: (self.whole_ns - used_ns) / self.each_ns, full_in_s: used_ns.div_ceil(1_000_000_000) })
    }
}

/// Buckets by what they are for, never more than [`BUCKETS_MAX`].
#[derive(Debug)]
struct Buckets<K> {
    known: RwLock<HashMap<K, Arc<AtomicU64>>>,
    /// For those that there is no room for.
    shared: Arc<AtomicU64>,
}

impl<K: Hash + Eq> Buckets<K> {
    fn new() -> Self {
        Self { known: RwLock::default(), shared: Arc::default() }
    }

    fn find(&self, key: &K) -> Option<Arc<AtomicU64>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn bucket(&self, key: K, now_ns: u64) -> Arc<AtomicU64> {
        if let Some(found) = self.find(&key) {
            return found;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= BUCKETS_MAX {
            known.retain(|_, bucket| bucket.load(Ordering::Relaxed) > now_ns);
        }
        if known.len() >= BUCKETS_MAX && !known.contains_key(&key) {
            return Arc::clone(&self.shared);
        }
        Arc::clone(known.entry(key).or_default())
    }
}

impl Rates {
    /// All buckets full.
    pub fn new(settings: RateSettings) -> Self {
        let policy = format!("\"agent\";q={};w=1", settings.per_key);
        Self {
            started: Instant::now(),
            per_key: Rate::per_s(settings.per_key),
            per_peer: Rate::per_s(settings.per_peer),
            policy: HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("")),
            keys: std::array::from_fn(|_| Buckets::new()),
            beyond: Buckets::new(),
            unsigned: Buckets::new(),
            failed: Buckets::new(),
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX / 2)
    }

    fn of_key(&self, key: &[u8; 32]) -> Option<&Buckets<[u8; 32]>> {
        let [first, ..] = key;
        self.keys.get(usize::from(*first) % SHARDS)
    }

    /// Whether a key that is only named so far has used up its requests. Charges nothing.
    pub fn check_key(&self, key: &[u8; 32]) -> Result<(), Empty> {
        let bucket = self.of_key(key).and_then(|keys| keys.find(key));
        match bucket.is_some_and(|bucket| self.per_key.is_empty(&bucket, self.now_ns())) {
            true => Err(Empty),
            false => Ok(()),
        }
    }

    /// Whether one more request of a key that has used up its own is verified, so that it can be counted for its holder: what is
    /// only sent in its name must not be.
    pub fn may_count(&self, key: &[u8; 32]) -> bool {
        let now_ns = self.now_ns();
        self.per_peer.take(&self.beyond.bucket(*key, now_ns), 1, now_ns).is_ok()
    }

    /// Charges a request whose signature was verified to its key.
    pub fn charge_key(&self, key: &[u8; 32], requests: u64) -> Result<Left, Empty> {
        let (now_ns, keys) = (self.now_ns(), self.of_key(key).ok_or(Empty)?);
        self.per_key.take(&keys.bucket(*key, now_ns), requests, now_ns)
    }

    /// Whether so many requests of a peer were refused of late that none of it is looked at.
    pub fn check_peer(&self, peer: IpAddr) -> Result<(), Empty> {
        match self.failed.find(&network(peer)).is_some_and(|bucket| self.per_peer.is_empty(&bucket, self.now_ns())) {
            true => Err(Empty),
            false => Ok(()),
        }
    }

    /// Charges a request whose signature was refused to the peer that sent it.
    pub fn charge_failure(&self, peer: IpAddr) {
        let now_ns = self.now_ns();
        // An empty bucket stays empty: the next request is not looked at.
        let _ = self.per_peer.take(&self.failed.bucket(network(peer), now_ns), 1, now_ns);
    }

    /// Charges a request that no one has to sign to the peer that sent it.
    pub fn charge_unsigned(&self, peer: IpAddr) -> Result<Left, Empty> {
        let now_ns = self.now_ns();
        self.per_peer.take(&self.unsigned.bucket(network(peer), now_ns), 1, now_ns)
    }

    /// Says in the headers of an answer what is left (draft-ietf-httpapi-ratelimit-headers).
    pub fn tell(&self, headers: &mut HeaderMap, left: Left) {
        let Left { requests, full_in_s } = left;
        if let Ok(left) = HeaderValue::from_str(&format!("\"agent\";r={requests};t={full_in_s}")) {
            headers.insert("ratelimit", left);
            headers.insert("ratelimit-policy", self.policy.clone());
        }
    }
}

/// How many requests a request with a body of so many bytes counts as.
pub fn cost(body_bytes: usize) -> u64 {
    1 + (body_bytes / BYTES_PER_REQUEST) as u64
}

/// What a caller is told that has used up its requests.
pub fn too_often(who: &str) -> HttpError {
    denied(DenialCode::RateLimited, format!("{who} sends more requests than the gate takes from one caller"))
}

/// The network that a peer counts as: in IPv6, one customer has at least a /64 and as many addresses in it as it likes.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        canonical => canonical,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_a_second_and_fills_at_its_rate() {
        let (rate, bucket) = (Rate::per_s(10), AtomicU64::new(0));
        let left: Vec<_> = (0..10).map(|_| rate.take(&bucket, 1, 5).map(|left| left.requests)).collect();
        assert_eq!(left, (0..10).rev().map(Ok).collect::<Vec<_>>());
        assert!(rate.is_empty(&bucket, 5));
        assert_eq!(rate.take(&bucket, 1, 99_999_999), Err(Empty));
        assert_eq!(rate.take(&bucket, 1, 100_000_005), Ok(Left { requests: 0, full_in_s: 1 }));
        assert_eq!(rate.take(&bucket, 1_000, 5_000_000_000), Ok(Left { requests: 0, full_in_s: 1 }), "a whole one");
        assert!(!rate.is_empty(&bucket, 6_000_000_000));
    }

    #[test]
    fn naming_a_key_costs_its_holder_nothing() {
        let rates = Rates::new(RateSettings { per_key: 2, per_peer: 1 });
        for _ in 0..100 {
            assert_eq!(rates.check_key(&[7; 32]), Ok(()));
        }
        assert!(rates.charge_key(&[7; 32], 2).is_ok());
        assert_eq!((rates.check_key(&[7; 32]), rates.check_key(&[8; 32])), (Err(Empty), Ok(())));
    }

    #[test]
    fn memory_is_bounded_and_what_is_in_use_stays() {
        let buckets: Buckets<u32> = Buckets::new();
        for key in 0..3 * BUCKETS_MAX as u32 {
            let bucket = buckets.bucket(key, 0);
            bucket.store(if key == 0 { u64::MAX } else { 0 }, Ordering::Relaxed);
            assert!(buckets.known.read().unwrap().len() <= BUCKETS_MAX);
        }
        assert!(buckets.find(&0).is_some(), "one that is not full again is never dropped");
        let full: Buckets<u32> = Buckets::new();
        for key in 0..BUCKETS_MAX as u32 {
            full.bucket(key, 0).store(u64::MAX, Ordering::Relaxed);
        }
        assert!(Arc::ptr_eq(&full.bucket(u32::MAX, 0), &full.shared), "who finds no room shares one");
    }

    #[test]
    fn a_customer_of_ipv6_is_one_peer() {
        let peers = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"].map(|peer| network(peer.parse().unwrap()));
        assert!(peers[0] == peers[1] && peers[0] != peers[2]);
        assert_eq!(network("::ffff:10.0.0.1".parse().unwrap()), "10.0.0.1".parse::<IpAddr>().unwrap());
    }
}
