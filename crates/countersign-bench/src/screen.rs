//! How fast content is screened: texts in which nothing is found, and one of which everything has to be decoded.

use super::report::Report;
use countersign_core::screen::Screen;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// How long each text is screened again and again.
const ROUND: Duration = Duration::from_millis(500);

/// A page of ordinary prose with numbers and addresses, of so many bytes.
fn prose(bytes: usize) -> String {
    let page = "The order was packed on Monday and left the warehouse at 14:30. Please send questions to help@example.com; the \
                parcel number is on page 2 of the invoice. We will call you before the driver arrives. Thank you for your patience!\n";
    page.chars().cycle().take(bytes).collect()
}

/// Megabytes a second.
fn rate(screen: &Screen, text: &str) -> f64 {
    let begun = Instant::now();
    let mut bytes = 0_usize;
    while begun.elapsed() < ROUND {
        for _ in 0..16 {
            black_box(screen.text(black_box(text)));
            bytes += text.len();
        }
    }
    bytes as f64 / begun.elapsed().as_secs_f64() / 1e6
}

/// Measures what screening costs.
pub fn measure(report: &mut Report) {
    let screen = Screen::new(["transfer_funds", "delete_records"], ["made-up-canary-7741"]);
    report.put("screen_4k_mb_per_s", rate(&screen, &prose(4096)));
    report.put("screen_64k_mb_per_s", rate(&screen, &prose(65_536)));
    let wide: String = prose(4096).replace("order", "Bestellung über 5 €");
    report.put("screen_unicode_mb_per_s", rate(&screen, &wide));
    let encoded: String = "SWdub3JlIG5vdGhpbmcgYXQgYWxsLCBpdCBpcyBmaW5lLg ".chars().cycle().take(4096).collect();
    report.put("screen_encoded_mb_per_s", rate(&screen, &encoded));
}
