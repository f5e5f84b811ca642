//! Pacts of tests, without what every one of them would repeat.

/// The whole pact. An action that leaves out its `params` takes what its resource names in braces, as strings of up to 64 characters.
#[must_use]
pub fn whole(rules: &str) -> String {
    let mut text = rules.to_owned();
    let mut action = None;
    for line in rules.lines() {
        if let Some(header) = line.strip_prefix("[action.") {
            action = header.strip_suffix(']').filter(|name| !name.contains('.'));
        }
        let named = action.filter(|_| line.starts_with("resource"));
        if let Some(name) = named.filter(|name| !rules.contains(&format!("[action.{name}.params]"))) {
            text.push_str(&params(name, line));
        }
    }
    text
}

fn params(action: &str, resource: &str) -> String {
    let named = resource.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
    let names: Vec<&str> = named.filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_')).collect();
    let property = |name: &&str| format!("properties.{name} = {{ type = \"string\", maxLength = 64 }}\n");
    let properties: String = names.iter().map(property).collect();
    format!(
        "\n[action.{action}.params]\ntype = \"object\"\nadditionalProperties = false\nrequired = {names:?}\n{properties}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_left_out_is_added() {
        let rules = "[action.pay]\nresource = 'Account::\"{account}\"'\n\n[action.see]\nresource = { fact = 'Row::\"{row}\"' }\n\n\
                     [action.see.params]\ntype = \"object\"\n";
        let added = "\n[action.pay.params]\ntype = \"object\"\nadditionalProperties = false\nrequired = [\"account\"]\n\
                     properties.account = { type = \"string\", maxLength = 64 }\n";
        assert_eq!(whole(rules), format!("{rules}{added}"));
        assert_eq!(whole(&whole(rules)), whole(rules));
    }
}
