//! docs/requirements.md, made from the rows that `countersign conform` reports on: one place has the words.

use std::path::Path;

use anyhow::{Context, Result};
use toml::{Table, Value};

/// Where the rows are.
pub const ROWS: &str = "crates/countersign/src/conform/requirements.toml";

/// What is made of them.
pub const DOCUMENT: &str = "docs/requirements.md";

/// Writes the document.
pub fn write(root: &Path) -> Result<bool> {
    let rows = std::fs::read_to_string(root.join(ROWS)).with_context(|| format!("{ROWS} cannot be read"))?;
    std::fs::write(root.join(DOCUMENT), document(&rows)?).with_context(|| format!("{DOCUMENT} cannot be written"))?;
    println!("{DOCUMENT} is as {ROWS} says");
    Ok(true)
}

/// The document of some rows.
pub fn document(rows: &str) -> Result<String> {
    let rows: Table = rows.parse().with_context(|| format!("{ROWS} is not TOML"))?;
    let mut text = format!("# {}\n\n{}\n", word(&rows, "title")?, word(&rows, "intro")?);
    for section in tables(&rows, "section")? {
        let (title, asks, shown) = (word(section, "title")?, word(section, "asks")?, word(section, "shown")?);
        text.push_str(&format!("\n## {title}\n\n| id | {asks} | state | {shown} |\n|---|---|---|---|\n"));
        for row in tables(section, "row")? {
            let (id, asks, state) = (word(row, "id")?, word(row, "asks")?, word(row, "state")?);
            text.push_str(&format!("| {id} | {asks} | {state} | {} |\n", shown_by(row)));
        }
    }
    Ok(text.replace(" |  |\n", " | |\n"))
}

/// Every id, and how far it is met.
pub fn claims(rows: &str) -> Result<Vec<(String, String)>> {
    let rows: Table = rows.parse().with_context(|| format!("{ROWS} is not TOML"))?;
    let mut claims = Vec::new();
    for section in tables(&rows, "section")? {
        for row in tables(section, "row")? {
            claims.push((word(row, "id")?.to_owned(), word(row, "state")?.to_owned()));
        }
    }
    Ok(claims)
}

/// What `conform` does, if it does anything, what else there is, and what is missing.
fn shown_by(row: &Table) -> String {
    let shown = word(row, "shown").unwrap_or_default();
    let text = match word(row, "conform") {
        Ok(conform) if shown.is_empty() => format!("`countersign conform` {conform}"),
        Ok(conform) => format!("`countersign conform` {conform}. Also: {shown}"),
        Err(_) => shown.to_owned(),
    };
    word(row, "missing").map_or(text.clone(), |missing| format!("{text}. **Missing:** {missing}"))
}

fn word<'a>(table: &'a Table, key: &str) -> Result<&'a str> {
    let value = table.get(key).and_then(Value::as_str);
    value.with_context(|| format!("{ROWS}: `{key}` is missing in {:?}", table.get("id").or_else(|| table.get("title"))))
}

fn tables<'a>(table: &'a Table, key: &str) -> Result<Vec<&'a Table>> {
    let items = table.get(key).and_then(Value::as_array).with_context(|| format!("{ROWS}: there is no `{key}`"))?;
    Ok(items.iter().filter_map(Value::as_table).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_a_table() {
        let rows = "title = 'T'\nintro = 'I'\n[[section]]\ntitle = 'S'\nasks = 'asks for'\nshown = 'shown by'\n\
                    [[section.row]]\nid = 'A-1'\nasks = 'this'\nstate = 'met'\nconform = 'tries it'\nshown = '`a`'\n\
                    [[section.row]]\nid = 'A-2'\nasks = 'that'\nstate = 'not yet'\n";
        let text = "# T\n\nI\n\n## S\n\n| id | asks for | state | shown by |\n|---|---|---|---|\n\
                    | A-1 | this | met | `countersign conform` tries it. Also: `a` |\n| A-2 | that | not yet | |\n";
        assert_eq!(document(rows).unwrap(), text);
        assert!(document("title = 'T'").is_err());
    }
}
