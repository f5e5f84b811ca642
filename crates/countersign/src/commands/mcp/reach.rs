//! What a server can reach of a gate's folder: its keys are there, and an agent that can write them is the gate.

use crate::mcp::settings::Place;
use std::path::{Path, PathBuf};

/// A folder that a word of the server's command names, or a variable of its environment, and that the data folder lies in, or that lies in
/// the data folder.
pub fn served(data: &Path, place: &Place) -> Option<PathBuf> {
    let Place::Command(program) = place else { return None };
    let words = program.words.iter().skip(1).map(String::as_str).chain(program.literals());
    reached(data, words)
}

/// Such a folder in a word that is itself a command line, as `sh -c` takes it. What the shell does with it is not known.
pub fn named_to_shell(data: &Path, place: &Place) -> Option<PathBuf> {
    let Place::Command(program) = place else { return None };
    let words: Vec<String> =
        program.words.iter().skip(1).map(String::as_str).chain(program.literals()).flat_map(words_of_shell).collect();
    reached(data, words.iter().map(String::as_str))
}

fn reached<'a>(data: &Path, words: impl Iterator<Item = &'a str>) -> Option<PathBuf> {
    let data = whole(data);
    let parts = words.flat_map(|word| word.split(['=', ',', ':']).chain([word, word.trim_start_matches("file://")]));
    let folders = parts.filter(|part| !part.is_empty()).filter_map(|part| Path::new(part).canonicalize().ok());
    folders.filter(|folder| folder.is_dir()).find(|folder| data.starts_with(folder) || folder.starts_with(&data))
}

/// The words of a command line that stands in one word, as `sh -c` takes it; none of a word without spaces. Quotes and signs of the shell
/// part words too: what is looked for is folders that are there, so a part too many does no harm.
fn words_of_shell(word: &str) -> Vec<String> {
    if !word.contains(char::is_whitespace) {
        return Vec::new();
    }
    let home = std::env::var("HOME").unwrap_or_default();
    let whole = |part: &str| match part.strip_prefix('~').or_else(|| part.strip_prefix("$HOME")) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
        _ => part.to_owned(),
    };
    let parts = word.split(|char: char| char.is_whitespace() || "'\"`;|&<>(){}".contains(char));
    // In quotes a path may have spaces.
    let quoted = word.split(['\'', '"']);
    parts.chain(quoted).filter(|part| !part.is_empty()).map(whole).collect()
}

/// The folder that the server runs in, where the data folder lies in it.
pub fn run_in(data: &Path, place: &Place) -> Option<PathBuf> {
    let Place::Command(_) = place else { return None };
    let folder = std::env::current_dir().ok()?.canonicalize().ok()?;
    whole(data).starts_with(&folder).then_some(folder)
}

/// A path without links, as far as it is there.
pub fn whole(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut missing = Vec::new();
    for above in path.ancestors() {
        if let Ok(found) = above.canonicalize() {
            return missing.iter().rev().fold(found, |path, name| path.join(name));
        }
        missing.extend(above.file_name().map(ToOwned::to_owned));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::settings::upstream;

    #[test]
    fn a_folder_is_found_in_a_word_or_behind_a_sign() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap();
        let shown = at.display();
        let of = |words: &str| served(&at.join("not/yet/there"), &upstream(&format!("x={words}")).unwrap().1);
        for words in
            [format!("s {shown}"), format!("s --root={shown}"), format!("s a:{shown}/"), format!("s file://{shown}")]
        {
            assert_eq!(of(&words).as_ref(), Some(&at), "{words}");
        }
        for words in [format!("{shown}/server"), format!("s {shown}-2"), "s --root=/nowhere/at/all".to_owned()] {
            assert_eq!(of(&words), None, "{words}");
        }
        assert_eq!(served(&at, &upstream("x=http://127.0.0.1:1/mcp").unwrap().1), None);
    }

    #[test]
    fn a_folder_is_found_in_the_command_line_of_a_shell() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap();
        let (shown, data) = (at.display(), at.join("not/yet/there"));
        let of = |words: &str| named_to_shell(&data, &upstream(&format!("x={words}")).unwrap().1);
        for words in [
            format!("sh -c 'exec node server.js {shown}'"),
            format!("bash -lc \"cd /nowhere; server --root={shown};true\""),
            format!("sh -c \"server '{shown}'\""),
        ] {
            assert_eq!(of(&words).as_ref(), Some(&at), "{words}");
        }
        assert_eq!(of("sh -c 'exec node server.js'"), None);
        let mut place = upstream("x=s").unwrap().1;
        place.add_environment(&[format!("ROOT={shown}")]).unwrap();
        assert_eq!(served(&data, &place).as_ref(), Some(&at), "a value of its environment");
    }
}
