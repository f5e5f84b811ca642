//! How deep JSON is nested and how many parts it has. One pass that does not recurse, so no depth is too deep for it.

/// How deep and how many.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub depth: usize,
    /// Objects, lists, and what stands in them behind a comma.
    pub items: usize,
}

impl Size {
    /// Of JSON; of what is none, some number.
    pub fn of(json: &str) -> Self {
        let (mut size, mut depth) = (Self::default(), 0_usize);
        let (mut is_string, mut is_escaped) = (false, false);
        for byte in json.bytes() {
            if is_string {
                is_string = byte != b'"' || is_escaped;
                is_escaped = byte == b'\\' && !is_escaped;
                continue;
            }
            match byte {
                b'"' => is_string = true,
                b'{' | b'[' => {
                    depth = depth.saturating_add(1);
                    size.depth = size.depth.max(depth);
                    size.items = size.items.saturating_add(1);
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                b',' => size.items = size.items.saturating_add(1),
                _ => {}
            }
        }
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_count_outside_strings() {
        for (json, depth, items) in
            [("12", 0, 0), (r#"{"a": [1, "[[\"[", {"b": true}], "c": "{"}"#, 3, 6), ("]]][", 1, 1)]
        {
            assert_eq!(Size::of(json), Size { depth, items }, "{json}");
        }
    }
}
