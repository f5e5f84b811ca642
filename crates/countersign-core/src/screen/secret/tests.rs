//! Each kind of secret, and what looks like one and is none. Secrets are put together here, so that no scanner takes them for real.

use super::*;

/// Characters that look drawn at random, and are the same each time.
fn random(count: usize, alphabet: &str) -> String {
    let letters: Vec<char> = alphabet.chars().collect();
    (0..count).map(|at| letters[(at * 17 + at * at * 7 + 3) % letters.len()]).collect()
}

const ALNUM: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEX: &str = "0123456789abcdef";

fn found(text: &str) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    look(text, &mut |rule, range| found.push((rule, text[range].to_owned())));
    found
}

#[test]
fn tokens_are_known_by_their_shape() {
    let header = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";
    for (rule, token) in [
        ("secret_cloud_key", format!("{}{}", "AKIA", random(16, UPPER))),
        ("secret_cloud_key", format!("{}{}", "AIza", random(35, ALNUM))),
        ("secret_cloud_key", format!("{}{}", "hvs.", random(24, ALNUM))),
        ("secret_forge_token", format!("{}_{}", "ghp", random(36, ALNUM))),
        ("secret_forge_token", format!("{}_{}_{}", "github_pat", random(22, ALNUM), random(59, ALNUM))),
        ("secret_forge_token", format!("{}-{}", "glpat", random(20, ALNUM))),
        ("secret_chat_token", format!("{}-{}-{}", "xoxb", random(12, "0123456789"), random(24, ALNUM))),
        ("secret_payment_key", format!("sk_{}_{}", "live", random(24, ALNUM))),
        ("secret_model_key", format!("sk-{}-{}", "ant", random(40, ALNUM))),
        ("secret_jwt", format!("{header}.{}.{}", "eyJzdWIiOiIxMjM0NTY3ODkwIn0", random(43, ALNUM))),
        ("secret_chat_token", format!("{}:{}{}", random(9, "123456789"), "AA", random(33, ALNUM))),
    ] {
        assert_eq!(found(&format!("use {token} for it")), [(rule, token.clone())], "{token}");
        assert_eq!(found(&token).len(), 1, "{token}");
        let inside = format!("x{token}");
        assert!(rule == "secret_chat_token" || found(&inside).is_empty(), "{inside}");
    }
}

#[test]
fn private_keys_are_found_to_their_end() {
    let key =
        format!("-----BEGIN {} KEY-----\n{}\n-----END {} KEY-----", "RSA PRIVATE", random(60, ALNUM), "RSA PRIVATE");
    assert_eq!(found(&format!("a\n{key}\nb")), [("secret_private_key", key)]);
    assert_eq!(found("-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----"), []);
}

#[test]
fn attack_what_stands_behind_the_beginning_of_a_private_key_is_not_hidden_with_it() {
    let begin = format!("-----BEGIN {} KEY-----", "PRIVATE");
    let lines = format!("{}\\n{}", random(64, ALNUM), random(30, ALNUM));
    for (masked, shown) in [
        (begin.clone(), "\nDeliver to Mallory, 1 Harbour St."),
        (begin.clone(), " Deliver to Mallory"),
        (begin.clone(), "\",\"to\":\"mallory\"}"),
        (format!("{begin}\\n{lines}"), "\",\"to\":\"mallory\"}"),
        (format!("{begin}\\n{lines}\\n"), " to mallory -----END"),
    ] {
        let [(rule, hidden)] = found(&format!("{masked}{shown}")).try_into().unwrap();
        assert_eq!(rule, "secret_private_key");
        assert!(hidden.trim_end() == masked.trim_end() && !hidden.to_lowercase().contains("mallory"), "{hidden:?}");
    }
}

#[test]
fn cards_are_known_by_issuer_length_and_check_digit() {
    for (rule, text) in [
        ("secret_card", "4111 1111 1111 1111"),
        ("secret_card", "5555-5555-5555-4444"),
        ("secret_card", "378282246310005"),
        ("secret_card", "3782 822463 10005"),
        ("secret_card", "6011111111111117"),
        ("secret_card", "4111.1111.1111.1111"),
    ] {
        assert_eq!(found(text), [(rule, text.to_owned())], "{text}");
        assert_eq!(found(&format!("pay {text}, thanks")).len(), 1, "{text}");
        // Another last digit is another number.
        let last = text.len() - 1;
        let other = format!("{}{}", &text[..last], if text.ends_with('0') { '1' } else { '0' });
        assert_eq!(found(&other), [], "{other}");
    }
    for text in [
        "41111111111111110",
        "a4111111111111111",
        "4485-2291-0037-1182",
        "00340434161094042557",
        "1767225600123",
        "978-3-16-148410-0",
        "DE00 1234 5678 9012 3456 78",
        "RF18 5390 0754 7034",
        "123e4567-e89b-12d3-a456-426614174000",
        "DE89 3704 0044 0532 0130 00",
        "4111 1111 1111 11",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}

#[test]
fn values_are_announced_by_words() {
    let value = random(24, ALNUM);
    for text in [
        format!("password: {value}"),
        format!("\"client_secret\": \"{value}\""),
        format!("API_TOKEN={value}"),
        format!("the api key is {value}."),
        format!("Das Passwort lautet {value}"),
        format!("contraseña: {value}"),
        format!("密码：{value}"),
        format!("token = 'Bearer {value}'"),
    ] {
        assert_eq!(found(&text), [("secret_value", value.clone())], "{text}");
    }
    let address = format!("postgres://app:{value}@db.example.com/app");
    assert_eq!(found(&address), [("secret_in_address", value.clone())]);
    for text in [
        "password: ${DB_PASSWORD}",
        "API_TOKEN=<your-token>",
        "my password even though I ticked it",
        "password: hunter",
        "token: see https://docs.example.com/tokens2",
        "secret: aaaaaaaa1111aaaaaaaa1111",
        "Authorization: Bearer $TOKEN1234567890abc",
        "https://user@example.com/a:b",
        "the secret is out since 2019",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
    assert_eq!(found(&random(64, HEX)), [], "a digest by itself is none");
}
