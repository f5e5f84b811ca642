//! The commands that operators are told to run. At a gate they approve otherwise; a trial is started again with another option. Where the
//! gate is in this process, its folder is part of the command.

use super::adapter::RESOURCE;
use super::shell::word;
use countersign_core::node::WHOLE;
use countersign_core::reason::RESOLVED_BY;

/// Where the commands are run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperatorCommands {
    /// The option that names the gate, where it is in this process.
    option: Option<String>,
    /// Whether that is a trial.
    is_trial: bool,
    /// Whether its gate is that of another window, and ends with it.
    is_beside: bool,
}

/// A tool that differs by itself.
#[derive(Clone, Copy)]
pub struct Volatile<'a> {
    /// As the reader knows it.
    pub name: &'a str,
    pub upstream: &'a str,
    pub tool: &'a str,
    /// What it was called with, as JSON.
    pub arguments: &'a str,
    /// Where its answers differ.
    pub paths: &'a [String],
}

impl OperatorCommands {
    /// At a gate; in this process where an option names it.
    pub fn at(option: Option<String>) -> Self {
        Self { option, ..Self::default() }
    }

    /// In the trial that an option names, whose gate may be that of another window.
    pub fn in_trial(option: String, is_beside: bool) -> Self {
        Self { option: Some(option), is_trial: true, is_beside }
    }

    /// Whether the gate is that of another window, so that nothing here brings it back.
    pub fn is_beside(&self) -> bool {
        self.is_beside
    }

    /// Says that a reading differs by itself, and what an operator can do about it. Where all of an answer differs, that is to end the
    /// guard by this tool: it is not proposed for one of many queries, and the text says what is lost.
    pub fn of_volatile(&self, volatile: Volatile<'_>) -> String {
        let Volatile { name, upstream, tool, arguments, paths } = volatile;
        if tool == RESOURCE {
            let named: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
            let uri = named.get("uri").and_then(serde_json::Value::as_str).unwrap_or(name);
            return format!(
                "The resource {} differs whenever it is read, and no part of a resource can be left out of the comparison",
                word(uri)
            );
        }
        let name = word(name);
        let is_whole = paths.iter().any(|path| path == WHOLE);
        let takes_arguments = !["", "{}"].contains(&arguments.trim());
        if is_whole && takes_arguments {
            return format!(
                "{name} differs whenever it is read with these arguments. Ask it for something that does not change by itself, such as the \
                 same without a clock, a counter or a random value"
            );
        }
        let differs = match is_whole {
            true => String::new(),
            false => format!(", at {}", paths.iter().map(|path| word(path)).collect::<Vec<_>>().join(", ")),
        };
        let (way, option) = match (is_whole, self.is_trial) {
            (true, true) => (
                "take this tool out of the guard, and then no write rests on anything that it answers",
                format!("--writes {}", word(tool)),
            ),
            (true, false) => (
                "take this tool out of the guard, and then no write rests on anything that it answers",
                "--guard none".to_owned(),
            ),
            (false, _) => ("leave that out of the comparison", format!("--ignore {}", word(&paths.join(",")))),
        };
        let command = match self.is_trial {
            true => format!("add {option} to `countersign mcp try` in the settings of this agent, and start it again"),
            false => format!("countersign mcp approve {} {option}", word(&format!("{upstream}/{tool}"))),
        };
        format!("{name} differs whenever it is read{differs}. An operator can {way}: {command}")
    }

    /// The commands that say what became of a call in doubt.
    pub fn resolve(&self, effect: &str) -> String {
        self.completed(&countersign_core::reason::resolving(effect))
    }

    /// A text of the gate, which does not know how an operator reaches it.
    pub fn completed(&self, text: &str) -> String {
        match &self.option {
            Some(option) => {
                let whole = format!("{RESOLVED_BY} {option}");
                // Once is enough.
                text.replace(&whole, RESOLVED_BY).replace(RESOLVED_BY, &whole)
            }
            None => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_of_the_place_where_they_are_run() {
        let (gate, trial) =
            (OperatorCommands::at(None), OperatorCommands::in_trial("--server 'unix:/a b'".to_owned(), false));
        let of = |paths: &'static [String], arguments| Volatile {
            name: "get_clock",
            upstream: "shop",
            tool: "get_clock",
            arguments,
            paths,
        };
        let ticks: &[String] = Vec::leak(vec!["/ticks".to_owned()]);
        let whole: &[String] = Vec::leak(vec![WHOLE.to_owned()]);
        assert!(gate.of_volatile(of(ticks, "{}")).ends_with("mcp approve shop/get_clock --ignore /ticks"));
        assert!(trial.of_volatile(of(ticks, "{}")).contains("add --ignore /ticks to `countersign mcp try`"));
        // To end the guard by a tool says what is lost.
        let said = gate.of_volatile(of(whole, "{}"));
        assert!(
            said.contains("no write rests on anything") && said.ends_with("mcp approve shop/get_clock --guard none")
        );
        assert!(trial.of_volatile(of(whole, "{}")).contains("add --writes get_clock to"));
        // For one query of many it is not proposed.
        for operator in [&gate, &trial] {
            let said = operator.of_volatile(of(whole, "{\"query\":\"select now()\"}"));
            assert!(!said.contains("countersign mcp") && said.contains("Ask it for something"), "{said}");
        }
        // No tool is approved by the name of a resource, so no command is named.
        for operator in [&gate, &trial] {
            let (tool, arguments) = (RESOURCE, "{\"uri\":\"shop://clock\"}");
            let said =
                operator.of_volatile(Volatile { name: RESOURCE, upstream: "shop", tool, arguments, paths: ticks });
            assert!(said.starts_with("The resource shop://clock differs"), "{said}");
            assert!(!said.contains("countersign mcp") && !said.contains("operator"), "{said}");
        }
        assert_eq!(
            gate.resolve("eff_1"),
            "`countersign effect resolve eff_1 settled --reason TEXT` if it was carried out, else `countersign effect resolve eff_1 failed \
             --reason TEXT`"
        );
        assert_eq!(trial.resolve("eff_1").matches("--reason TEXT --server 'unix:/a b'`").count(), 2);
    }
}
