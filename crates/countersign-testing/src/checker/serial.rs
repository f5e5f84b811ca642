//! Judges writes that were guarded as read: is there an order in which each rested on what was there?
//!
//! It knows places that hold a text each, and writes that knew some of them and changed one. It shares no code with the gate, the gateway
//! or the model, and takes no one's word for the order.

use std::collections::{BTreeMap, HashSet};

/// What each place holds.
pub type Places = BTreeMap<String, String>;

/// A write that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrote {
    /// Who made it, for people.
    pub by: String,
    /// What it rested on: what its client knew when it sent it.
    pub knew: Places,
    /// The place that it changed.
    pub place: String,
    /// What it left there.
    pub value: String,
}

/// An order of all writes that leads from what was there at first to what is there in the end, in which each finds what it rested on.
///
/// # Errors
/// Where there is none: how far the longest attempt got, and what is in the way of each write that was left then.
pub fn serial_order(first: &Places, writes: &[Wrote], last: &Places) -> Result<Vec<usize>, String> {
    let mut search = Search { writes, last, tried: HashSet::new(), longest: (Vec::new(), first.clone()) };
    let mut order = Vec::new();
    if search.from(first.clone(), &mut order) {
        return Ok(order);
    }
    Err(search.complaint())
}

struct Search<'a> {
    writes: &'a [Wrote],
    last: &'a Places,
    /// What is left and what is there, where that was tried.
    tried: HashSet<(Vec<usize>, Places)>,
    longest: (Vec<usize>, Places),
}

impl Search<'_> {
    fn from(&mut self, now: Places, order: &mut Vec<usize>) -> bool {
        if order.len() > self.longest.0.len() {
            self.longest = (order.clone(), now.clone());
        }
        if order.len() == self.writes.len() {
            return now == *self.last;
        }
        let left: Vec<usize> = (0..self.writes.len()).filter(|write| !order.contains(write)).collect();
        if !self.tried.insert((left.clone(), now.clone())) {
            return false;
        }
        for number in left {
            let write = &self.writes[number];
            if in_the_way(write, &now).is_some() {
                continue;
            }
            let mut next = now.clone();
            next.insert(write.place.clone(), write.value.clone());
            order.push(number);
            if self.from(next, order) {
                return true;
            }
            order.pop();
        }
        false
    }

    fn complaint(&self) -> String {
        let (order, now) = &self.longest;
        let mut said = format!("no order explains the {} writes; {} could be placed", self.writes.len(), order.len());
        for (number, write) in self.writes.iter().enumerate().filter(|(number, _)| !order.contains(number)) {
            let why = in_the_way(write, now).unwrap_or_else(|| "fits here, and leads nowhere".to_owned());
            said.push_str(&format!("\n  {} (write {number}, {} := {}): {why}", write.by, write.place, write.value));
        }
        if order.len() == self.writes.len() {
            said.push_str(&format!("\n  then there would be {now:?}, and there is {:?}", self.last));
        }
        said
    }
}

/// What a write knew that is not so.
fn in_the_way(write: &Wrote, now: &Places) -> Option<String> {
    let differs = write.knew.iter().find(|(place, value)| now.get(*place) != Some(value));
    differs.map(|(place, value)| format!("it knew {place} as {value}, and it was {:?}", now.get(place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(held: &[(&str, &str)]) -> Places {
        held.iter().map(|(place, value)| ((*place).to_owned(), (*value).to_owned())).collect()
    }

    fn wrote(knew: &[(&str, &str)], place: &str, value: &str) -> Wrote {
        Wrote { by: "someone".to_owned(), knew: places(knew), place: place.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn an_order_is_found_that_is_not_the_one_they_are_told_in() {
        let writes = [wrote(&[("a", "1")], "b", "2"), wrote(&[("a", "0")], "a", "1"), wrote(&[("b", "2")], "a", "3")];
        let found = serial_order(&places(&[("a", "0"), ("b", "0")]), &writes, &places(&[("a", "3"), ("b", "2")]));
        assert_eq!(found, Ok(vec![1, 0, 2]));
    }

    #[test]
    fn two_that_both_knew_what_the_other_changed_are_found() {
        let writes = [wrote(&[("a", "0"), ("b", "0")], "a", "1"), wrote(&[("a", "0"), ("b", "0")], "b", "2")];
        let found = serial_order(&places(&[("a", "0"), ("b", "0")]), &writes, &places(&[("a", "1"), ("b", "2")]));
        let said = found.err().unwrap_or_default();
        assert!(said.contains("1 could be placed") && said.contains("it knew a as 0"), "{said}");
    }

    #[test]
    fn one_that_was_lost_is_found_and_one_that_no_one_made() {
        let first = places(&[("a", "0")]);
        let writes = [wrote(&[("a", "0")], "a", "1")];
        assert!(serial_order(&first, &writes, &first).err().unwrap_or_default().contains("then there would be"));
        assert!(serial_order(&first, &[], &places(&[("a", "1")])).is_err());
        // A blind write fits anywhere, and its value still has to be explained.
        let blind = [writes[0].clone(), wrote(&[], "a", "2")];
        assert_eq!(serial_order(&first, &blind, &places(&[("a", "2")])), Ok(vec![0, 1]));
        assert!(serial_order(&first, &blind, &places(&[("a", "1")])).is_err());
    }
}
