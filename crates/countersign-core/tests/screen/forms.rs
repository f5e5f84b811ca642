//! The forms that texts of the corpus are written in: see the README beside them.

/// What must never leave, in these texts.
pub const CANARY: &str = "Heron-5521-Quartz";

const ALNUM: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// Characters that look drawn at random, and are the same each time.
fn random(count: usize, alphabet: &str) -> String {
    let letters: Vec<char> = alphabet.chars().collect();
    (0..count).map(|at| letters[(at * 17 + at * at * 7 + 3) % letters.len()]).collect()
}

/// A text as it is meant.
pub fn made(written: &str) -> String {
    directives(&unescaped(written))
}

fn unescaped(written: &str) -> String {
    let mut out = String::new();
    let mut rest = written;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = &rest[at..];
        let (text, len) = match escape.as_bytes().get(1) {
            Some(b'n') => ("\n".to_owned(), 2),
            Some(b'r') => ("\r".to_owned(), 2),
            Some(b't') => ("\t".to_owned(), 2),
            Some(b'\\') => ("\\".to_owned(), 2),
            Some(b'u') if escape.as_bytes().get(2) == Some(&b'{') => {
                let end = escape.find('}').unwrap();
                let code = u32::from_str_radix(&escape[3..end], 16).unwrap();
                (char::from_u32(code).unwrap().to_string(), end + 1)
            }
            _ => ("\\".to_owned(), 1),
        };
        out.push_str(&text);
        rest = &escape[len..];
    }
    out + rest
}

/// Carries out `{{name:…}}`, the innermost first.
fn directives(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(begins) = text.rfind("{{") {
        let Some(ends) = text[begins..].find("}}").map(|at| begins + at) else { break };
        let inner = text[begins + 2..ends].to_owned();
        let Some(made) = directive(&inner) else { break };
        text.replace_range(begins..ends + 2, &made);
    }
    text
}

fn directive(inner: &str) -> Option<String> {
    let (name, of) = inner.split_once(':')?;
    Some(match name {
        "base64" => base64(of.as_bytes()),
        "hex" => of.bytes().map(|byte| format!("{byte:02x}")).collect(),
        "percent" => of.bytes().map(|byte| format!("%{byte:02X}")).collect(),
        "rot13" => of.chars().map(rot13).collect(),
        "entities" => of.chars().map(|c| format!("&#{};", u32::from(c))).collect(),
        "reverse" => of.chars().rev().collect(),
        "leet" => of.chars().map(leet).collect(),
        "spaced" => of.chars().map(|c| format!("{c} ")).collect::<String>().trim_end().to_owned(),
        "tags" => of.chars().filter_map(|c| char::from_u32(0xe0000 + u32::from(c))).collect(),
        "repeat" => of.split_once(':').map(|(count, of)| of.repeat(count.parse().unwrap()))?,
        "nest" => of.parse().map(|depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth))).ok()?,
        "secret" => secret(of)?,
        _ => return None,
    })
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(*group.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= group.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

fn rot13(c: char) -> char {
    match c {
        'a'..='m' | 'A'..='M' => char::from(c as u8 + 13),
        'n'..='z' | 'N'..='Z' => char::from(c as u8 - 13),
        _ => c,
    }
}

fn leet(c: char) -> char {
    match c {
        'a' => '4',
        'e' => '3',
        'i' => '1',
        'o' => '0',
        's' => '5',
        _ => c,
    }
}

/// A made-up secret, put together here so that no scanner takes these files for a leak.
fn secret(name: &str) -> Option<String> {
    let key = |kind: &str| {
        format!("-----BEGIN {kind} KEY-----\n{}\n{}\n-----END {kind} KEY-----", random(64, ALNUM), random(40, ALNUM))
    };
    Some(match name {
        "pem" => key("RSA PRIVATE"),
        "pem_openssh" => key("OPENSSH PRIVATE"),
        "aws_id" => format!("{}{}", "AKIA", random(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")),
        "github" => format!("{}_{}", "ghp", random(36, ALNUM)),
        "github_fine" => format!("{}_{}_{}", "github_pat", random(22, ALNUM), random(59, ALNUM)),
        "gitlab" => format!("{}-{}", "glpat", random(20, ALNUM)),
        "slack" => format!("{}-{}-{}", "xoxb", random(12, "0123456789"), random(24, ALNUM)),
        "slack_hook" => {
            let parts = (random(9, "ABCDEFGH0123456789"), random(9, "ABCDEFGH0123456789"), random(24, ALNUM));
            format!("https://hooks.{}.com/services/T{}/B{}/{}", "slack", parts.0, parts.1, parts.2)
        }
        "stripe" => format!("sk_{}_{}", "live", random(24, ALNUM)),
        "google" => format!("{}{}", "AIza", random(35, ALNUM)),
        "jwt" => {
            let part = |json: &str| base64(json.as_bytes()).trim_end_matches('=').to_owned();
            let (header, claims) =
                (part(r#"{"alg":"HS256","typ":"JWT"}"#), part(r#"{"sub":"1234567890","name":"made up"}"#));
            format!("{header}.{claims}.{}", random(43, ALNUM))
        }
        "anthropic" => format!("sk-{}-api03-{}", "ant", random(60, ALNUM)),
        "openai" => format!("sk-{}-{}", "proj", random(48, ALNUM)),
        "sendgrid" => format!("SG.{}.{}", random(22, ALNUM), random(43, ALNUM)),
        "npm" => format!("{}_{}", "npm", random(36, ALNUM)),
        "telegram" => format!("{}:{}{}", "123456789", "AA", random(33, ALNUM)),
        "azure" => format!("AccountName=made;{}={}==", "AccountKey", random(86, ALNUM)),
        "vault" => format!("{}.{}", "hvs", random(24, ALNUM)),
        "random" => random(14, ALNUM),
        "random_long" => random(40, ALNUM),
        "canary" => CANARY.to_owned(),
        _ => return None,
    })
}
