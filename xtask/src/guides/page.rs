//! The fenced blocks of a page, and what becomes of each.

/// One block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its fence, from 1.
    pub line: usize,
    /// Everything between the fences.
    pub text: String,
    /// What is done with it.
    pub does: Does,
}

/// What is done with a block.
#[derive(Debug, PartialEq, Eq)]
pub enum Does {
    /// Fed to the shell; some of its commands are meant to fail, with these codes in this order.
    Paste(Vec<i32>),
    /// Saved under this name, in the folder that the shell is in.
    Save(String),
    /// Compared with what the block before it has printed.
    Show,
    /// A piece of TOML for illustration, which must at least be TOML.
    Parse,
    /// Left out, with the reason that the page gives.
    Skip(String),
    /// Not for machines.
    Nothing,
}

/// What comes before the reason for leaving the next block out.
const SKIP: &str = "<!-- not pasted: ";

/// What a comment says about a command that is meant to fail.
const EXIT_CODE: &str = "exit code ";

/// All blocks, in order.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = page.lines().zip(1..);
    let mut reason = None;
    // Output is shown right after what printed it, under the same heading.
    let mut after_paste = false;
    while let Some((line, number)) = lines.next() {
        if let Some(rest) = line.strip_prefix(SKIP) {
            reason = Some(rest.trim_end_matches("-->").trim().to_owned());
            continue;
        }
        let Some(language) = line.strip_prefix("```") else {
            if !line.trim().is_empty() {
                reason = None;
            }
            after_paste &= !line.starts_with('#');
            continue;
        };
        let mut text = String::new();
        for (line, _) in lines.by_ref().take_while(|(line, _)| !line.starts_with("```")) {
            text.push_str(line);
            text.push('\n');
        }
        let does = match reason.take() {
            Some(reason) => Does::Skip(reason),
            None => does(language, &text, after_paste),
        };
        after_paste = matches!(does, Does::Paste(_)) || (after_paste && does == Does::Show);
        blocks.push(Block { line: number, text, does });
    }
    blocks
}

fn does(language: &str, text: &str, after_paste: bool) -> Does {
    if language == "sh" {
        return Does::Paste(text.lines().filter_map(expected_code).collect());
    }
    if let Some(name) = text.lines().next().and_then(file_name) {
        return Does::Save(name.to_owned());
    }
    match language {
        "text" if after_paste => Does::Show,
        "toml" => Does::Parse,
        _ => Does::Nothing,
    }
}

/// The code in a comment like `# rejected: exit code 1`.
fn expected_code(line: &str) -> Option<i32> {
    let (_, comment) = line.rsplit_once('#')?;
    let (_, code) = comment.split_once(EXIT_CODE)?;
    let digits: String = code.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// The name in a comment that holds nothing else: `# stock.toml`.
fn file_name(line: &str) -> Option<&str> {
    let name = line.strip_prefix("# ").or_else(|| line.strip_prefix("// "))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
    let relative = !name.starts_with('/') && !name.contains("..");
    (relative && name.contains('.') && !name.ends_with('.') && name.chars().all(plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(page: &str) -> Vec<Does> {
        blocks(page).into_iter().map(|block| block.does).collect()
    }

    #[test]
    fn every_kind_of_block_is_told_from_the_others() {
        let page = "\
# A guide
```toml
# stock.toml
pact = \"stock\"
```
```sh
countersign serve &
countersign act a=1     # rejected: exit code 1
```
It prints this:
```text
rejected
```
```toml
[action.a]
```
```sh
countersign halt list
```
## Another heading
```text
a drawing
```
<!-- not pasted: takes ten minutes -->
```sh
cargo build
```
";
        let expected = [
            Does::Save("stock.toml".to_owned()),
            Does::Paste(vec![1]),
            Does::Show,
            Does::Parse,
            Does::Paste(vec![]),
            Does::Nothing,
            Does::Skip("takes ten minutes".to_owned()),
        ];
        assert_eq!(of(page), expected);
        assert_eq!(blocks(page).first().map(|block| (block.line, block.text.lines().count())), Some((2, 2)));
    }

    #[test]
    fn a_reason_counts_for_the_next_block_only() {
        let page =
            "<!-- not pasted: no -->\n\n```sh\na\n```\n```sh\nb\n```\n<!-- not pasted: no -->\nwords\n```sh\nc\n```\n";
        assert_eq!(of(page), [Does::Skip("no".to_owned()), Does::Paste(vec![]), Does::Paste(vec![])]);
    }

    #[test]
    fn only_a_bare_relative_name_is_a_file() {
        assert_eq!(file_name("# nginx/gate.conf"), Some("nginx/gate.conf"));
        for line in ["# The pact.", "# /etc/passwd", "# ../up.toml", "# stock", "stock.toml", "# two words.toml"] {
            assert_eq!(file_name(line), None, "{line}");
        }
    }
}
