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
        let (mut node, is_error) = told(result);
        if let Some(only) = self.only_of(&node).filter(|_| !is_error) {
            node = only;
        }
        // Whoever chooses the shape of an answer must not choose that nothing of it is compared.
        node.without(&self.ignore).unwrap_or(node).text()
    }

    /// Whether leaving out what is to be left out leaves nothing of a result. Then all of it is compared.
    pub fn leaves_nothing(&self, result: &str) -> bool {
        let (node, is_error) = told(result);
        let node = self.only_of(&node).filter(|_| !is_error).unwrap_or(node);
        node.without(&self.ignore).is_none()
    }

    /// The paths that alone count; `None` where one of them is not there. Then all of the answer counts: whoever chooses the shape of an
    /// answer must not choose that nothing of it is compared.
    fn only_of(&self, node: &Node) -> Option<Node> {
        let of = |path: &SmolStr| Some((path.to_string(), node.at(path)?.clone()));
        let found: BTreeMap<String, Node> = self.only.iter().map(of).collect::<Option<_>>()?;
        (!found.is_empty()).then_some(Node::Object(found))
    }

    /// The paths that name nothing in a result.
    pub fn unfound(&self, result: &str) -> Vec<String> {
        let (node, _) = told(result);
        let leaves_out = |path: &&SmolStr| {
            let mut without = node.clone();
            without.leave_out(path);
            without != node
        };
        let only = self.only.iter().filter(|path| node.at(path).is_none());
        let ignore = self.ignore.iter().filter(|path| !leaves_out(path));
        only.chain(ignore).map(ToString::to_string).collect()
    }
}

/// All that a model reads of a result, and whether that is an error. Texts that hold JSON are read as JSON, and said once where a result
/// says the same twice. Two results that a model could tell apart never become the same: paths begin inside where there is but one part,
/// unless what is inside could pass for a result of another shape.
fn told(result: &str) -> (Node, bool) {
    // What cannot be read in one way is compared as it stands.
    let Some(Node::Object(mut members)) = Node::parse(result) else {
        return (part(UNREAD, Node::Text(result.to_owned())), false);
    };
    // What is meant for programs between server and model, and differs each time.
    members.remove("_meta");
    members.remove("resultType");
    if members.get("isError") == Some(&Node::Bool(false)) {
        members.remove("isError");
    }
    let is_error = members.contains_key("isError") || members.contains_key("error");
    let Some(Node::List(items)) = members.get("content") else {
        return match members.get("contents") {
            Some(contents) if members.len() == 1 => (inside("contents", contents.clone()), is_error),
            _ => (Node::Object(members), is_error),
        };
    };
    let items: Vec<Node> = items.iter().map(read).collect();
    let node = match (members.len(), items.as_slice(), members.get("structuredContent")) {
        (2, items, Some(structured)) if says(items, structured) => inside("structuredContent", structured.clone()),
        (1, [item], None) => inside("content", item.clone()),
        _ => {
            members.insert("content".to_owned(), Node::List(items));
            Node::Object(members)
        }
    };
    (node, is_error)
}

/// The name under which stands what could not be read in one way.
const UNREAD: &str = "unread";

/// Names of which an object could pass for a whole result, or for one of which some paths alone are compared.
fn is_reserved(name: &str) -> bool {
    ["content", "contents", "error", "isError", "structuredContent", UNREAD].contains(&name) || name.starts_with('/')
}

fn part(name: &str, node: Node) -> Node {
    Node::Object(BTreeMap::from([(name.to_owned(), node)]))
}

/// The only part of a result.
fn inside(name: &str, node: Node) -> Node {
    match &node {
        Node::Object(members) if members.keys().any(|name| is_reserved(name)) => part(name, node),
        _ => node,
    }
}

/// An item as a model reads it: of a text, what it says.
fn read(item: &Node) -> Node {
    // An item is an object; what is none must not look like the text of one.
    let Node::Object(members) = item else { return Node::List(vec![part(UNREAD, item.clone())]) };
    let is_text = members.get("type") == Some(&Node::Text("text".to_owned()));
    let (true, 2, Some(Node::Text(text))) = (is_text, members.len(), members.get("text")) else { return item.clone() };
    match Node::parse(text) {
        Some(json @ Node::List(_)) => json,
        // A text must not look like an item of another kind.
        Some(json @ Node::Object(_)) if !is_item(&json) => json,
        _ => Node::Text(text.clone()),
    }
}

fn is_item(node: &Node) -> bool {
    let kinds = ["text", "image", "audio", "resource", "resource_link"];
    matches!(node.at("/type"), Some(Node::Text(kind)) if kinds.contains(&kind.as_str()))
}

/// Whether the items say what the structured content does: all of it, in its order, and nothing else.
fn says(items: &[Node], structured: &Node) -> bool {
    // Servers wrap what is no object: a list as `result`, and a text under any name.
    let (wrapped, list) = match structured {
        Node::Object(members) if members.len() == 1 => (members.values().next(), members.get("result")),
        _ => (None, None),
    };
    match (items, list) {
        ([item], _) if item == structured || Some(item) == wrapped => true,
        (items, Some(Node::List(listed))) => items == listed.as_slice(),
        _ => false,
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
            (r#"{"content":[],"structuredContent":{"result":[]}}"#, r#"{"result":[]}"#),
            (
                r#"{"content":[{"type":"text","text":"a\nb"}],"structuredContent":{"content":"a\nb"}}"#,
                r#"{"structuredContent":{"content":"a\nb"}}"#,
            ),
            (r#"{"content":[{"type":"text","text":"a"}],"structuredContent":{"said":"a"}}"#, r#"{"said":"a"}"#),
            (
                r#"{"content":[{"type":"text","text":"other"}],"structuredContent":{"a":2}}"#,
                r#"{"content":["other"],"structuredContent":{"a":2}}"#,
            ),
            (r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#, r#"{"content":["no"],"isError":true}"#),
            (r#"{"contents":[{"uri":"a://1","text":"b"}]}"#, r#"[{"text":"b","uri":"a://1"}]"#),
            (r#"{"a":1,"a":2}"#, r#"{"unread":"{\"a\":1,\"a\":2}"}"#),
        ] {
            assert_eq!(compared(result), text, "{result}");
        }
    }

    #[test]
    fn what_is_left_out_makes_no_difference_and_the_rest_does() {
        let rules = Rules { ignore: vec!["/at".into()], only: Vec::new() };
        let of = |rules: &Rules, at: u32, n: u32| {
            let content = format!(r#"{{"at":{at},"n":{n}}}"#);
            let text = Node::Text(content.clone()).text();
            rules.compared(&format!(r#"{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{content}}}"#))
        };
        assert_eq!(of(&rules, 1, 1), of(&rules, 2, 1));
        assert_ne!(of(&rules, 1, 1), of(&rules, 1, 2));
        let only = Rules { ignore: Vec::new(), only: vec!["/n".into()] };
        assert_eq!(of(&only, 1, 7), r#"{"/n":7}"#);
        assert_ne!(rules.name(), only.name());
    }

    /// Results of one tool, no two of which a model reads alike.
    const DIFFERENT: [&str; 19] = [
        r#"{"content":[{"type":"text","text":"yes"}],"structuredContent":{"result":["yes","never"]}}"#,
        r#"{"content":[{"type":"text","text":"never"}],"structuredContent":{"result":["yes","never"]}}"#,
        r#"{"content":[{"type":"text","text":"yes"},{"type":"text","text":"never"}],"structuredContent":{"result":["yes","never"]}}"#,
        r#"{"content":[{"type":"text","text":"never"},{"type":"text","text":"yes"}],"structuredContent":{"result":["yes","never"]}}"#,
        r#"{"content":[],"structuredContent":{"result":["yes","never"]}}"#,
        r#"{"structuredContent":{"result":["yes","never"]}}"#,
        r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#,
        r#"{"content":[{"type":"text","text":"no"}]}"#,
        r#"{"content":[{"type":"text","text":"{\"content\":[\"no\"],\"isError\":true}"}]}"#,
        r#"{"content":[{"type":"text","text":"{\"content\":\"no\",\"isError\":true}"}]}"#,
        r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
        r#"{"content":[{"type":"text","text":"[\"a\",\"b\"]"}]}"#,
        r#"{"content":[{"type":"text","text":"{\"content\":[\"a\",\"b\"]}"}]}"#,
        r#"{"content":["a","b"]}"#,
        r#"{"content":[{"type":"image","data":"aaaa","mimeType":"image/png"}]}"#,
        r#"{"content":[{"type":"text","text":"{\"type\":\"image\",\"data\":\"aaaa\",\"mimeType\":\"image/png\"}"}]}"#,
        r#"{"content":[{"type":"text","text":"{\"/n\":7}"}]}"#,
        r#"{"content":[{"type":"text","text":"{\"n\":7}"}]}"#,
        r#"{"content":[]}"#,
    ];

    #[test]
    fn results_that_a_model_reads_differently_are_never_compared_as_equal() {
        let only = Rules { ignore: Vec::new(), only: vec!["/n".into()] };
        for rules in [Rules::default(), only] {
            for (at, one) in DIFFERENT.iter().enumerate() {
                for other in DIFFERENT.iter().skip(at + 1) {
                    assert_ne!(rules.compared(one), rules.compared(other), "{one} and {other}");
                }
            }
        }
    }

    #[test]
    fn paths_that_name_nothing_compare_all_of_the_answer() {
        let only = Rules { ignore: Vec::new(), only: vec!["/stock".into()] };
        let both = Rules { ignore: Vec::new(), only: vec!["/stock".into(), "/price".into()] };
        for shape in [
            // Beside a text of another wording, two texts, a list, an error, a name twice.
            r#"{"content":[{"type":"text","text":"N left"}],"structuredContent":{"stock":N}}"#,
            r#"{"content":[{"type":"text","text":"{\"stock\":N}"},{"type":"text","text":"left"}]}"#,
            r#"{"content":[{"type":"text","text":"[{\"stock\":N}]"}]}"#,
            r#"{"content":[{"type":"text","text":"{\"stock\":1,\"why\":N}"}],"isError":true}"#,
            r#"{"content":[{"type":"text","text":"{\"stock\":N,\"stock\":N}"}]}"#,
        ] {
            let (ten, two) = (shape.replace('N', "10"), shape.replace('N', "2"));
            assert_ne!(only.compared(&ten), only.compared(&two), "{shape}");
            assert_eq!(only.compared(&ten), only.compared(&ten));
        }
        let plain = r#"{"content":[{"type":"text","text":"{\"stock\":10,\"at\":N}"}]}"#;
        let (one, other) = (plain.replace('N', "1"), plain.replace('N', "2"));
        assert_eq!(only.compared(&one), only.compared(&other));
        assert_ne!(both.compared(&one), both.compared(&other), "there is no price");
        assert_eq!((only.unfound(&one), both.unfound(&one)), (Vec::new(), vec!["/price".to_owned()]));
        let ignore = Rules { ignore: vec!["/at".into(), "/items/*/at".into()], only: Vec::new() };
        assert_eq!(ignore.unfound(&one), ["/items/*/at"]);
    }
}
