//! What of an answer is compared when a tool is read again: all that a model reads of it, in one form, but for what an operator has
//! said to leave out.

use countersign_core::node::Node;
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// What an operator said about a tool's answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Paths that are left out.
    pub(super) ignore: Vec<SmolStr>,
    /// Paths that alone count, where any are named.
    pub(super) only: Vec<SmolStr>,
}

impl Rules {
    /// With these paths left out, and these alone where any are named.
    pub fn new(ignore: &[String], only: &[String]) -> Self {
        let all = |paths: &[String]| paths.iter().map(SmolStr::from).collect();
        Self { ignore: all(ignore), only: all(only) }
    }

    /// What names them: a reading under other rules is another reading.
    pub(super) fn name(&self) -> SmolStr {
        let list =
            |sign: &str, paths: &[SmolStr]| paths.iter().map(|path| format!("{sign}{path}\n")).collect::<String>();
        format!("{}{}", list("-", &self.ignore), list("+", &self.only)).into()
    }

    /// What is compared of a result.
    pub fn compared(&self, result: &str) -> String {
        // What cannot be read in one way is compared as it stands.
        let Some(Node::Object(members)) = Node::parse(result) else { return Node::Text(result.to_owned()).text() };
        let mut node = told(members);
        if !self.only.is_empty() {
            let of = |path: &SmolStr| Some((path.to_string(), node.at(path)?.clone()));
            node = Node::Object(self.only.iter().filter_map(of).collect());
        }
        self.ignore.iter().for_each(|path| node.leave_out(path));
        node.text()
    }
}

/// All that a model reads of a result. Texts that hold JSON are read as JSON, and said once where a result says the same twice.
fn told(mut members: BTreeMap<String, Node>) -> Node {
    // What is meant for programs between server and model, and differs each time.
    members.remove("_meta");
    members.remove("resultType");
    if members.get("isError") == Some(&Node::Bool(false)) {
        members.remove("isError");
    }
    if let Some(Node::List(items)) = members.get_mut("content") {
        items.iter_mut().for_each(read_text);
        let structured = members.get("structuredContent");
        let Some(Node::List(items)) = members.get("content") else { return Node::Object(members) };
        let is_said = items.iter().all(|item| structured.is_some_and(|structured| says(item, structured)));
        if is_said && structured.is_some() || items.is_empty() {
            members.remove("content");
        } else if let [item] = items.as_slice()
            && let Node::Object(_) | Node::List(_) | Node::Text(_) = item
        {
            let item = item.clone();
            members.insert("content".to_owned(), item);
        }
    }
    // Where there is but one of them, paths begin inside.
    match (members.len(), members.keys().next().map(String::as_str)) {
        (1, Some("content" | "structuredContent" | "contents")) => members.into_values().next().unwrap_or(Node::Null),
        _ => Node::Object(members),
    }
}

/// A text item becomes what it says.
fn read_text(item: &mut Node) {
    let Node::Object(members) = &*item else { return };
    let is_text = members.get("type") == Some(&Node::Text("text".to_owned()));
    if let (true, 2, Some(Node::Text(text))) = (is_text, members.len(), members.get("text")) {
        *item = match Node::parse(text) {
            Some(json @ (Node::Object(_) | Node::List(_))) => json,
            _ => Node::Text(text.clone()),
        };
    }
}

/// Whether an item says what the structured content does.
fn says(item: &Node, structured: &Node) -> bool {
    let wrapped = match structured {
        Node::Object(members) if members.len() == 1 => members.get("result"),
        _ => None,
    };
    item == structured || Some(item) == wrapped || {
        let in_list = |list: &Node| matches!(list, Node::List(items) if items.contains(item));
        wrapped.is_some_and(in_list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(result: &str) -> String {
        Rules::default().compared(result)
    }

    #[test]
    fn what_a_model_reads_is_compared_and_nothing_else() {
        for (result, text) in [
            (r#"{"content":[{"type":"text","text":"a\nb"}],"_meta":{"at":1},"isError":false}"#, r#""a\nb""#),
            (r#"{"content":[{"type":"text","text":"{\"b\":1.50, \"a\":2}"}]}"#, r#"{"a":2,"b":1.50}"#),
            (r#"{"content":[{"type":"text","text":"{\"a\":2}"}],"structuredContent":{"a":2}}"#, r#"{"a":2}"#),
            (r#"{"content":[{"type":"text","text":"[1]"}],"structuredContent":{"result":[1]}}"#, r#"{"result":[1]}"#),
            (
                r#"{"content":[{"type":"text","text":"other"}],"structuredContent":{"a":2}}"#,
                r#"{"content":"other","structuredContent":{"a":2}}"#,
            ),
            (r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#, r#"{"content":"no","isError":true}"#),
            (r#"{"a":1,"a":2}"#, r#""{\"a\":1,\"a\":2}""#),
        ] {
            assert_eq!(compared(result), text, "{result}");
        }
    }

    #[test]
    fn what_is_left_out_makes_no_difference_and_the_rest_does() {
        let rules = Rules { ignore: vec!["/at".into()], only: Vec::new() };
        let of =
            |at: u32, n: u32| rules.compared(&format!(r#"{{"content":[],"structuredContent":{{"at":{at},"n":{n}}}}}"#));
        assert_eq!(of(1, 1), of(2, 1));
        assert_ne!(of(1, 1), of(1, 2));
        let only = Rules { ignore: Vec::new(), only: vec!["/n".into()] };
        assert_eq!(only.compared(r#"{"structuredContent":{"at":1,"n":7}}"#), r#"{"/n":7}"#);
        assert_ne!(rules.name(), only.name());
    }
}
