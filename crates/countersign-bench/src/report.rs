//! What was measured, as a table for people and as one JSON object for programs.

use std::fmt::Write as _;

/// The figures of one run.
#[derive(Debug, Default)]
pub struct Report {
    figures: Vec<(String, f64)>,
    notes: Vec<(String, String)>,
}

/// A ratio that is to be reached: its name, the two figures, the bar, and whether it is a least or a most.
struct Bar {
    name: &'static str,
    over: &'static str,
    under: &'static str,
    bar: f64,
    at_least: bool,
}

const BARS: [Bar; 7] = [
    Bar { name: "commit / floor", over: "commit_per_s", under: "floor_per_s", bar: 0.4, at_least: true },
    Bar { name: "commit / postgres", over: "commit_per_s", under: "postgres_per_s", bar: 12.0, at_least: true },
    Bar {
        name: "commit / postgres chained",
        over: "commit_per_s",
        under: "postgres_chained_per_s",
        bar: 60.0,
        at_least: true,
    },
    Bar { name: "hot / commit", over: "hot_per_s", under: "commit_per_s", bar: 0.6, at_least: true },
    Bar { name: "single / fsync", over: "single_p50_us", under: "fsync_p50_us", bar: 1.5, at_least: false },
    Bar { name: "pg fact / pg direct", over: "pg_fact_per_s", under: "pg_direct_per_s", bar: 0.7, at_least: true },
    Bar { name: "growth / floor's growth", over: "growth", under: "floor_growth", bar: 1.2, at_least: false },
];

/// Figures that have a least of their own: signed actions a second over HTTP, one by one and in batches; megabytes a second of content
/// that is screened.
const LEASTS: [(&str, f64); 4] = [
    ("http_signed_per_s", 10_000.0),
    ("batch_per_s", 50_000.0),
    ("screen_4k_mb_per_s", 100.0),
    ("screen_64k_mb_per_s", 100.0),
];

/// Figures that have a most of their own: what `decide` may take, and what the MCP gateway may add to a call that passes, and
/// to one that is decided, beyond the call itself and one more reading of the server; and to one that rests on 1, 5 and 20 readings,
/// beyond the same calls and readings made directly.
const MOSTS: [(&str, f64); 11] = [
    ("decide_ns", 6_000.0),
    ("mcp_pass_added_ms", 1.0),
    ("mcp_gated_added_ms", 2.0),
    ("mcp_http_pass_added_ms", 1.0),
    ("mcp_http_gated_added_ms", 2.0),
    ("mcp_as_read_1_added_ms", 2.6),
    ("mcp_as_read_5_added_ms", 3.0),
    ("mcp_as_read_20_added_ms", 4.5),
    ("mcp_http_as_read_1_added_ms", 2.6),
    ("mcp_http_as_read_5_added_ms", 3.0),
    ("mcp_http_as_read_20_added_ms", 4.5),
];

impl Report {
    /// Adds a figure, and shows it to whoever waits.
    pub fn put(&mut self, name: &str, figure: f64) {
        eprintln!("  {name} {}", rounded(figure));
        self.figures.push((name.to_owned(), figure));
    }

    /// A figure; not a number where it was not measured.
    pub fn get(&self, name: &str) -> f64 {
        self.figures.iter().find(|(n, _)| n == name).map_or(f64::NAN, |(_, figure)| *figure)
    }

    /// Adds what a reader should know beside the figures.
    pub fn note(&mut self, about: &str, text: &str) {
        self.notes.push((about.to_owned(), text.to_owned()));
    }

    /// Works out what depends on several figures.
    pub fn ratios(&mut self) {
        let growth = self.get("small_per_s") / self.get("large_per_s");
        let floor_growth = self.get("small_floor_per_s") / self.get("large_floor_per_s");
        if growth.is_finite() && floor_growth.is_finite() {
            self.put("growth", growth);
            self.put("floor_growth", floor_growth);
        }
    }

    fn reached(&self) -> Vec<(&'static str, f64, String, bool)> {
        let mut rows = Vec::new();
        for bar in &BARS {
            let ratio = self.get(bar.over) / self.get(bar.under);
            if ratio.is_finite() {
                let (sign, reached) =
                    if bar.at_least { ("at least", ratio >= bar.bar) } else { ("at most", ratio <= bar.bar) };
                rows.push((bar.name, ratio, format!("{sign} {}", bar.bar), reached));
            }
        }
        for (name, most) in MOSTS {
            let figure = self.get(name);
            if figure.is_finite() {
                rows.push((name, figure, format!("at most {most}"), figure <= most));
            }
        }
        for (name, least) in LEASTS {
            let figure = self.get(name);
            if figure.is_finite() {
                rows.push((name, figure, format!("at least {least}"), figure >= least));
            }
        }
        rows
    }

    /// A table for people.
    pub fn table(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        for (name, figure) in &self.figures {
            let _ = writeln!(out, "{name:<28}{:>14}", rounded(*figure));
        }
        let _ = writeln!(out);
        for (name, ratio, bar, reached) in self.reached() {
            let mark = if reached { "reached" } else { "missed" };
            let _ = writeln!(out, "{name:<28}{:>14}   {bar:<16} {mark}", rounded(ratio));
        }
        let _ = writeln!(out);
        for (about, text) in &self.notes {
            let _ = writeln!(out, "{about}: {text}");
        }
        out
    }

    /// One JSON object for programs.
    pub fn json(&self) -> serde_json::Value {
        let mut object = serde_json::Map::new();
        for (name, figure) in &self.figures {
            object.insert(name.clone(), rounded(*figure).parse::<f64>().map_or(serde_json::Value::Null, Into::into));
        }
        let bars = self.reached().into_iter().map(|(name, ratio, bar, reached)| {
            serde_json::json!({"name": name, "value": ratio, "bar": bar, "reached": reached})
        });
        object.insert("bars".to_owned(), bars.collect());
        let notes = self.notes.iter().map(|(about, text)| serde_json::json!({"about": about, "text": text}));
        object.insert("notes".to_owned(), notes.collect());
        object.insert("cores".to_owned(), std::thread::available_parallelism().map_or(0, usize::from).into());
        serde_json::Value::Object(object)
    }
}

fn rounded(figure: f64) -> String {
    if figure.abs() >= 100.0 { format!("{figure:.0}") } else { format!("{figure:.2}") }
}

/// The median of a few figures.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
