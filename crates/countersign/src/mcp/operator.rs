//! The commands that operators are told to run. At a gate they approve otherwise; a trial is started again with another option. Where the
//! gate is in this process, its folder is part of the command.

use super::shell::word;
use countersign_core::node::WHOLE;
use std::path::{Path, PathBuf};

/// The words by which an operator says what became of a call, but for where.
pub const RESOLVES: &str = "settled|failed --reason TEXT";

/// Where the commands are run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperatorCommands {
    /// The folder of the gate in this process.
    data: Option<PathBuf>,
    /// Whether that is a trial.
    is_trial: bool,
}

impl OperatorCommands {
    /// At a gate; in this process where a folder is named.
    pub fn at(data: Option<&Path>) -> Self {
        Self { data: data.map(Path::to_owned), is_trial: false }
    }

    /// In the trial of a folder.
    pub fn in_trial(data: &Path) -> Self {
        Self { data: Some(data.to_owned()), is_trial: true }
    }

    /// Says that a tool, which the reader knows by this name, differs by itself, and what an operator can do about it.
    pub fn of_volatile(&self, (name, upstream, tool): (&str, &str, &str), paths: &[String]) -> String {
        let id = word(&format!("{upstream}/{tool}"));
        let (differs, way, option) = match paths.iter().any(|path| path == WHOLE) {
            true => {
                let option = if self.is_trial { format!("--writes {}", word(tool)) } else { "--guard none".to_owned() };
                (String::new(), "let writes rest on nothing of it", option)
            }
            false => {
                let at = paths.iter().map(|path| word(path)).collect::<Vec<_>>().join(", ");
                (
                    format!(", at {at}"),
                    "leave that out of the comparison",
                    format!("--ignore {}", word(&paths.join(","))),
                )
            }
        };
        let command = match self.is_trial {
            true => format!("add {option} to `countersign mcp try` in the settings of this agent, and start it again"),
            false => format!("countersign mcp approve {id} {option}"),
        };
        format!("{} differs whenever it is read{differs}. An operator can {way}: {command}", word(name))
    }

    /// The command that says what became of a call in doubt.
    pub fn resolve(&self, effect: &str) -> String {
        self.completed(&format!("countersign effect resolve {effect} {RESOLVES}"))
    }

    /// A text of the gate, which does not know by which folder an operator reaches it.
    pub fn completed(&self, text: &str) -> String {
        match &self.data {
            Some(data) => {
                let whole = format!("{RESOLVES} --data {}", word(&data.display().to_string()));
                // Once is enough.
                text.replace(&whole, RESOLVES).replace(RESOLVES, &whole)
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
        let (gate, trial) = (OperatorCommands::at(None), OperatorCommands::in_trial(Path::new("/a b")));
        let paths = ["/ticks".to_owned()];
        assert!(
            gate.of_volatile(("get_clock", "shop", "get_clock"), &paths)
                .ends_with("mcp approve shop/get_clock --ignore /ticks")
        );
        assert!(
            trial
                .of_volatile(("get_clock", "shop", "get_clock"), &paths)
                .contains("add --ignore /ticks to `countersign mcp try`")
        );
        let whole = [WHOLE.to_owned()];
        assert!(gate.of_volatile(("now", "shop", "now"), &whole).ends_with("mcp approve shop/now --guard none"));
        assert!(trial.of_volatile(("now", "shop", "now"), &whole).contains("add --writes now to"));
        assert_eq!(gate.resolve("eff_1"), "countersign effect resolve eff_1 settled|failed --reason TEXT");
        assert_eq!(
            trial.resolve("eff_1"),
            "countersign effect resolve eff_1 settled|failed --reason TEXT --data '/a b'"
        );
    }
}
