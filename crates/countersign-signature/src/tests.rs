//! What is taken and what is refused, field by field.

use super::*;
use ed25519_dalek::SigningKey;

const ORIGIN: &str = "gate.example";
const NONCE: &str = "0123456789abcdef";

fn signable() -> Signable<'static> {
    Signable {
        method: "POST",
        authority: "127.0.0.1:8420",
        path: "/v1/actions",
        query: None,
        if_match: None,
        actions: None,
        body: "{\"a\":1}",
    }
}

fn wire<'a>(request: &Signable<'a>, headers: &'a Headers) -> Wire<'a> {
    Wire {
        method: request.method,
        authority: request.authority,
        path: request.path,
        query: request.query,
        if_match: request.if_match,
        actions: headers.actions.as_deref(),
        body: request.body,
        content_digest: headers.content_digest.as_deref(),
        input: Some(&headers.input),
        signature: Some(&headers.signature),
    }
}

fn headers() -> Headers {
    sign(&SigningKey::from_bytes(&[7; 32]), &signable(), ORIGIN, 1_794_700_000, NONCE).unwrap()
}

#[test]
fn what_is_signed_verifies_and_is_rebuilt_from_what_is_kept() {
    let request = signable();
    let headers = headers();
    let presented = parse(&wire(&request, &headers), ORIGIN).unwrap();
    assert_eq!(presented.created_s, 1_794_700_000);
    assert_eq!(presented.nonce, NONCE);
    assert_eq!(verify_strict(&presented.signed, None), Ok(()));
    let kept = Signed { body: None, ..presented.signed.clone() };
    assert_eq!(verify_strict(&kept, Some(request.body)), Ok(()));
    assert_eq!(verify_strict(&kept, Some("{\"a\":2}")), Err(SignatureError::Invalid));
    let key = key_name(&SigningKey::from_bytes(&[7; 32]).verifying_key());
    let expected = format!(
        "\"@method\": POST\n\"@authority\": 127.0.0.1:8420\n\"@path\": /v1/actions\n\"content-digest\": {}\n\
         \"@signature-params\": (\"@method\" \"@authority\" \"@path\" \"content-digest\");created=1794700000;\
         nonce=\"{NONCE}\";keyid=\"{key}\";tag=\"countersign:{ORIGIN}\"",
        content_digest(request.body.as_bytes())
    );
    assert_eq!(base(&kept, Some(request.body)).unwrap(), expected);
}

#[test]
fn nothing_that_is_covered_can_be_altered() {
    let headers = headers();
    let request = signable();
    let altered = [
        Signable { method: "PUT", ..request },
        Signable { authority: "127.0.0.1:8421", ..request },
        Signable { path: "/v1/actions/check", ..request },
    ];
    for altered in altered {
        let presented = parse(&wire(&altered, &headers), ORIGIN).unwrap();
        assert_eq!(verify_strict(&presented.signed, None), Err(SignatureError::Invalid), "{altered:?}");
    }
    let query = Signable { query: Some("a=1"), ..request };
    assert_eq!(parse(&wire(&query, &headers), ORIGIN).unwrap_err(), SignatureError::Incomplete("@query".to_owned()));
    let added = Signable { if_match: Some("\"7\""), ..request };
    assert_eq!(parse(&wire(&added, &headers), ORIGIN).unwrap_err(), SignatureError::Incomplete("if-match".to_owned()));
    let body = Signable { body: "{\"a\":2}", ..request };
    assert_eq!(parse(&wire(&body, &headers), ORIGIN).unwrap_err(), SignatureError::Digest);
}

#[test]
fn a_condition_can_neither_be_stripped_nor_exchanged() {
    let request = Signable { method: "PUT", path: "/v1/facts/Account/42", if_match: Some("\"7\""), ..signable() };
    let headers = sign(&SigningKey::from_bytes(&[7; 32]), &request, ORIGIN, 1_794_700_000, NONCE).unwrap();
    let presented = parse(&wire(&request, &headers), ORIGIN).unwrap();
    assert_eq!(verify_strict(&presented.signed, None), Ok(()));
    assert_eq!(verify_kept(&presented.signed, None, ORIGIN), Ok(()), "and years later");
    let lacks = SignatureError::Incomplete("if-match".to_owned());
    let stripped = Signable { if_match: None, ..request };
    assert_eq!(parse(&wire(&stripped, &headers), ORIGIN).unwrap_err(), lacks);
    let lost = Signed { if_match: None, ..presented.signed };
    assert_eq!(verify_strict(&lost, None), Err(lacks.clone()));
    assert_eq!(verify_kept(&lost, None, ORIGIN), Err(lacks));
    let exchanged = Signable { if_match: Some("\"8\""), ..request };
    let presented = parse(&wire(&exchanged, &headers), ORIGIN).unwrap();
    assert_eq!(verify_strict(&presented.signed, None), Err(SignatureError::Invalid));
}

#[test]
fn what_is_missing_doubled_or_ambiguous_is_refused_by_its_code() {
    let request = signable();
    let good = headers();
    let cases: [(&str, &str, &str); 12] = [
        ("\"@method\" ", "", "signature_incomplete"),
        (" \"content-digest\"", "", "signature_incomplete"),
        (";created=1794700000", "", "signature_incomplete"),
        (";created=1794700000", ";created=\"1794700000\"", "signature_malformed"),
        (";created=1794700000", ";created=1;created=1794700000", "signature_malformed"),
        ("countersign:gate.example", "countersign:other.example", "signature_tag"),
        ("0123456789abcdef", "short", "signature_malformed"),
        (";tag=", ";alg=\"hmac-sha256\";tag=", "signature_algorithm"),
        (";tag=", ";surprise=1;tag=", "signature_malformed"),
        ("\"@path\"", "\"@path\" \"@target-uri\"", "signature_malformed"),
        ("\"@path\"", "\"@path\" \"@path\"", "signature_malformed"),
        ("did:key:z6Mk", "did:web:z6Mk", "signature_malformed"),
    ];
    for (from, to, code) in cases {
        let headers = Headers { input: good.input.replace(from, to), ..good.clone() };
        assert_ne!(headers.input, good.input);
        let error = parse(&wire(&request, &headers), ORIGIN).unwrap_err();
        assert_eq!(error.code(), code, "{from} -> {to}: {error}");
    }
    let twice = Headers { input: format!("{}, {}", good.input, good.input), ..good.clone() };
    assert_eq!(parse(&wire(&request, &twice), ORIGIN).unwrap_err().code(), "signature_malformed");
    let other = Headers { signature: good.signature.replace("sig1", "sig2"), ..good.clone() };
    assert_eq!(parse(&wire(&request, &other), ORIGIN).unwrap_err().code(), "signature_malformed");
    let none = Wire { input: None, ..wire(&request, &good) };
    assert_eq!(parse(&none, ORIGIN).unwrap_err(), SignatureError::Missing);
}

#[test]
fn other_orders_and_more_that_is_known_are_taken() {
    let request = Signable { query: Some("x=%41"), ..signable() };
    let key = SigningKey::from_bytes(&[9; 32]);
    let mut signed = parse(&wire(&request, &sign(&key, &request, ORIGIN, 5, NONCE).unwrap()), ORIGIN).unwrap().signed;
    let reordered = signed.input.replace("\"@path\" \"@query\"", "\"@request-target\" \"@query\" \"@path\"");
    signed.input = Arc::from(reordered.replace(";tag=", ";alg=\"ed25519\";tag="));
    let text = base(&signed, None).unwrap();
    assert!(text.contains("\"@request-target\": /v1/actions?x=%41\n\"@query\": ?x=%41\n"), "{text}");
    use ed25519_dalek::Signer as _;
    signed.signature = key.sign(text.as_bytes()).to_bytes();
    assert_eq!(verify_strict(&signed, None), Ok(()));
}

#[test]
fn the_port_that_http_implies_is_left_out() {
    assert_eq!(authority("Gate.Example:80"), "gate.example");
    assert_eq!(authority("gate.example:443"), "gate.example");
    assert_eq!(authority("gate.example:8443"), "gate.example:8443");
    assert_eq!(authority("127.0.0.1:8420"), "127.0.0.1:8420");
}
