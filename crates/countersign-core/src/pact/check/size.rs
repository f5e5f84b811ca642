//! How large an expression may be.
//!
//! Cedar's parser, its validator and its evaluator recurse along the tree of an expression, and some of them do not watch
//! the stack. So the depth is bounded by counting, before anything recurses: by brackets and conditionals, which nest, and
//! by words and signs, each of which can add one level to a chain.

use crate::limits::{EXPRESSION_BYTES_MAX, EXPRESSION_DEPTH_MAX, EXPRESSION_TOKENS_MAX};

/// What is too large about an expression, and what to do about it.
pub(super) fn too_large(text: &str) -> Option<(String, &'static str)> {
    const HINT: &str = "split it into several preconditions; all of them must hold";
    if text.len() > EXPRESSION_BYTES_MAX {
        return Some((
            format!("an expression has at most {EXPRESSION_BYTES_MAX} bytes, this one has {}", text.len()),
            HINT,
        ));
    }
    let (mut tokens, mut depth, mut deepest, mut conditionals) = (0usize, 0usize, 0usize, 0usize);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            _ if c.is_whitespace() => continue,
            '"' => {
                let mut escaped = false;
                for (_, c) in chars.by_ref() {
                    match c {
                        _ if escaped => escaped = false,
                        '\\' => escaped = true,
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '/' if chars.peek().is_some_and(|(_, next)| *next == '/') => {
                while chars.next_if(|(_, c)| *c != '\n' && *c != '\r').is_some() {}
                continue;
            }
            // Signs of two characters are one sign.
            '&' | '|' | '=' | '!' | '<' | '>' | ':' => {
                chars.next_if(|(_, next)| matches!(next, '&' | '|' | '=' | ':'));
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ if c.is_alphanumeric() || c == '_' => {
                let mut end = at + c.len_utf8();
                while let Some((at, c)) = chars.next_if(|(_, c)| c.is_alphanumeric() || *c == '_') {
                    end = at + c.len_utf8();
                }
                conditionals += usize::from(text.get(at..end) == Some("if"));
            }
            _ => {}
        }
        tokens += 1;
        deepest = deepest.max(depth + conditionals);
    }
    if tokens > EXPRESSION_TOKENS_MAX {
        let message =
            format!("an expression has at most {EXPRESSION_TOKENS_MAX} words and signs, this one has {tokens}");
        return Some((message, HINT));
    }
    (deepest > EXPRESSION_DEPTH_MAX)
        .then(|| (format!("an expression nests at most {EXPRESSION_DEPTH_MAX} brackets and conditionals"), HINT))
}
