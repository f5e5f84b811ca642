//! The quick way of reading `Signature-Input` against the general one.

use super::*;

/// Fields that are right, and pieces that may stand anywhere in one.
const RIGHT: [&str; 4] = [
    "sig1=(\"@method\" \"@authority\" \"@path\" \"content-digest\");created=1794700000;nonce=\"abcdefghijklmnopqrstuv\";\
     keyid=\"did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK\";alg=\"ed25519\";tag=\"countersign:test.example/log\"",
    "countersign=(\"@method\");created=0",
    "*a.b-c_1=(\"@path\" \"@query\");expires=999999999999999;tag=\"\"",
    "sig=(\"@method\")",
];
const PIECES: [&str; 32] = [
    "",
    " ",
    "  ",
    "\t",
    "\"",
    "\\",
    "\\\"",
    "(",
    ")",
    "()",
    ";",
    "=",
    ",",
    "0",
    "00",
    "-1",
    "1.5",
    "1.0",
    "9999999999999999",
    "?1",
    ":YQ==:",
    "tok",
    "A",
    "é",
    "\u{7f}",
    "\u{1}",
    ";created=5",
    ";created",
    ";b=tok",
    "\"@path\"",
    ";x=\"y\"",
    ", b=(\"@path\")",
];

/// What either way says, or that it refuses.
fn both(field: &str) {
    let quick = plain::member(field);
    let found = input_in_any_form(field);
    if let Some((label, text, list)) = quick {
        let quick = Input::of_plain(list);
        match (quick, found) {
            (Ok(quick), Ok((found_label, found_text, found))) => {
                assert_eq!((label, text, &quick), (&*found_label, found_text, &found), "{field}");
                assert_eq!(Input::parse_in_any_form(text).unwrap(), quick, "{field}");
            }
            (Err(quick), Err(found)) => assert_eq!(quick.to_string(), found.to_string(), "{field}"),
            (quick, found) => panic!("{field}: {quick:?} and {:?}", found.map(|found| found.2)),
        }
    }
    // A list by itself may come with what a dictionary would have around it.
    if let Some(list) = plain::list(field) {
        let (quick, found) = (Input::of_plain(list), Input::parse_in_any_form(field));
        assert_eq!(quick.map_err(|error| error.to_string()), found.map_err(|error| error.to_string()), "{field}");
    }
}

#[test]
fn what_nearly_all_signers_write_is_read_the_quick_way() {
    for right in RIGHT {
        assert!(plain::member(right).is_some(), "{right}");
        both(right);
    }
}

#[test]
fn nothing_is_read_the_quick_way_that_the_general_parser_reads_otherwise() {
    for right in RIGHT {
        for at in 0..=right.len() {
            let (before, after) = right.split_at(at);
            for piece in PIECES {
                both(&format!("{before}{piece}{after}"));
                let rest = after.get(1..).unwrap_or_default();
                both(&format!("{before}{piece}{rest}"));
                both(&format!("{}{piece}{after}", before.get(..at.saturating_sub(4)).unwrap_or_default()));
            }
            both(before);
            both(after);
        }
    }
    let long = format!("sig=(\"@method\");tag=\"{}\"", "x".repeat(FIELD_BYTES_MAX));
    assert!(plain::member(&long).is_none() && input_in_any_form(&long).is_err());
}
