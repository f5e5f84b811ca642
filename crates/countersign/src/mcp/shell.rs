//! Words of a command that people are told to paste. Names and paths in it are a server's own.

use countersign_core::screen::visible::inline;

/// As a shell takes it for one word, in one line.
pub fn word(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "/_-.,:@".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", inline(word).replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_calls_its_parts_cannot_leave_the_word() {
        assert_eq!(word("/ticks,/a/b"), "/ticks,/a/b");
        assert_eq!(word("/items/*/at"), "'/items/*/at'");
        assert_eq!(word("/a'; rm -rf ~ '"), "'/a'\\''; rm -rf ~ '\\'''");
        assert_eq!(word("shop/a\nNot done"), "'shop/a\\nNot done'");
        assert_eq!(word(""), "''");
    }
}
