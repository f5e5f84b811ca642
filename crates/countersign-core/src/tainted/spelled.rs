//! What a text says once it is decoded: percent-encoded, in base64, in hexadecimal. Each only where its letters allow it.

/// How often what was decoded is decoded again.
const DEPTH_MAX: usize = 2;
/// The shortest base64 and the shortest hexadecimal that can hold a value.
const BASE64_MIN: usize = 8;
const HEX_MIN: usize = 12;
/// The fewest characters in a row that make something decoded readable.
const READABLE_MIN: usize = 6;
/// Most texts that one text is decoded to.
const DECODED_MAX: usize = 64;

/// Tells what a text says when it is decoded, in each way that gives something readable.
pub(super) fn decoded(text: &str, tell: &mut impl FnMut(&str)) {
    let mut bytes = Vec::new();
    let mut found = Vec::new();
    once(text, &mut bytes, &mut found);
    for depth in 1..=DEPTH_MAX {
        let mut again = Vec::new();
        for text in &found {
            tell(text);
            if depth < DEPTH_MAX {
                once(text, &mut bytes, &mut again);
            }
        }
        found = again;
    }
}

/// What a text says when it is decoded once.
fn once(text: &str, bytes: &mut Vec<u8>, found: &mut Vec<String>) {
    if text.len() < BASE64_MIN {
        return;
    }
    if text.contains('%') && percent(text, bytes) {
        found.push(String::from_utf8_lossy(bytes).into_owned());
    }
    base64_in(text, bytes, found);
    let mut digits = 0;
    let mut is_long = false;
    let has_prefix = text.contains("\\x") || text.contains("0x");
    for byte in text.bytes() {
        match byte {
            byte if byte.is_ascii_hexdigit() => digits += 1,
            b'x' if has_prefix => {}
            byte if byte.is_ascii_alphanumeric() => digits = 0,
            _ => {}
        }
        is_long |= digits >= HEX_MIN;
    }
    if is_long {
        hex_in(text, has_prefix, bytes, found);
    }
    found.truncate(DECODED_MAX);
}

/// Whether anything of a text was percent-encoded.
fn percent(text: &str, decoded: &mut Vec<u8>) -> bool {
    decoded.clear();
    let mut rest = text.as_bytes();
    let mut is_any = false;
    loop {
        rest = match rest {
            [b'%', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                decoded.push(hex_digit(*high) << 4 | hex_digit(*low));
                is_any = true;
                after
            }
            [b'+', after @ ..] => {
                decoded.push(b' ');
                after
            }
            [byte, after @ ..] => {
                decoded.push(*byte);
                after
            }
            [] => return is_any,
        };
    }
}

fn hex_digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte.wrapping_sub(b'0'),
        b'a'..=b'f' => byte.wrapping_sub(b'a').wrapping_add(10),
        b'A'..=b'F' => byte.wrapping_sub(b'A').wrapping_add(10),
        _ => 0,
    }
}

const fn sextets() -> [u8; 256] {
    let mut table = [255_u8; 256];
    let mut at = 0;
    while at < 64_u8 {
        let byte = match at {
            0..=25 => b'A' + at,
            26..=51 => b'a' + (at - 26),
            52..=61 => b'0' + (at - 52),
            62 => b'+',
            _ => b'/',
        };
        put(&mut table, byte, at);
        at += 1;
    }
    put(&mut table, b'-', 62);
    put(&mut table, b'_', 63);
    table
}

#[expect(clippy::indexing_slicing, reason = "a byte is always within 256")]
const fn put(table: &mut [u8; 256], byte: u8, digit: u8) {
    table[byte as usize] = digit;
}

static SEXTETS: [u8; 256] = sextets();

fn sextet(byte: u8) -> u8 {
    SEXTETS.get(usize::from(byte)).copied().unwrap_or(255)
}

/// Runs of base64, of either alphabet, from each of four places: what stands in front of one may look like it. Lines of it are broken.
fn base64_in(text: &str, bytes: &mut Vec<u8>, found: &mut Vec<String>) {
    let has_breaks = text.bytes().any(|byte| byte.is_ascii_whitespace());
    runs(text.as_bytes(), bytes, found);
    if has_breaks {
        let unbroken: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        runs(&unbroken, bytes, found);
    }
}

fn runs(text: &[u8], bytes: &mut Vec<u8>, found: &mut Vec<String>) {
    for run in text.split(|byte| sextet(*byte) == 255).filter(|run| run.len() >= BASE64_MIN) {
        for from in 0..4 {
            let run = run.get(from..).unwrap_or_default();
            bytes.clear();
            let (mut bits, mut held) = (0_u32, 0_u32);
            for byte in run {
                held = (held << 6 | u32::from(sextet(*byte))) & 0xffff;
                bits += 6;
                if bits >= 8 {
                    bits -= 8;
                    bytes.push(u8::try_from(held >> bits & 0xff).unwrap_or_default());
                }
            }
            found.extend(readable(bytes).filter(|_| found.len() < DECODED_MAX));
        }
    }
}

/// Runs of hexadecimal, with or without separators between pairs, from each of two places.
fn hex_in(text: &str, has_prefix: bool, bytes: &mut Vec<u8>, found: &mut Vec<String>) {
    let plain;
    let text = if has_prefix {
        plain = text.replace("\\x", " ").replace("0x", " ");
        plain.as_str()
    } else {
        text
    };
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_alphanumeric).collect();
    for run in digits.split(|byte| !byte.is_ascii_hexdigit()).filter(|run| run.len() >= HEX_MIN) {
        for from in 0..2 {
            bytes.clear();
            let pairs = run.get(from..).unwrap_or_default().as_chunks::<2>().0;
            bytes.extend(pairs.iter().map(|[high, low]| hex_digit(*high) << 4 | hex_digit(*low)));
            found.extend(readable(bytes).filter(|_| found.len() < DECODED_MAX));
        }
    }
}

/// Bytes as a text, if enough of it in a row can be read.
fn readable(bytes: &[u8]) -> Option<String> {
    let (mut in_row, mut longest, mut missing) = (0_usize, 0, 0_u32);
    for byte in bytes {
        (in_row, missing) = match (byte, missing) {
            (0x80..=0xbf, 1) => (in_row + 1, 0),
            (0x80..=0xbf, 2..) => (in_row, missing - 1),
            (0x20..=0x7e, 0) => (in_row + 1, 0),
            (0x20..=0x7e, _) => (1, 0),
            (0xc2..=0xdf, _) => (if missing == 0 { in_row } else { 0 }, 1),
            (0xe0..=0xef, _) => (if missing == 0 { in_row } else { 0 }, 2),
            (0xf0..=0xf4, _) => (if missing == 0 { in_row } else { 0 }, 3),
            _ => (0, 0),
        };
        longest = longest.max(in_row);
    }
    if longest < READABLE_MIN {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let is_read = |c: char| !c.is_control() && c != char::REPLACEMENT_CHARACTER;
    let longest = text.split(|c: char| !is_read(c)).map(|run| run.chars().count()).max();
    longest.is_some_and(|longest| longest >= READABLE_MIN).then(|| text.into_owned())
}
