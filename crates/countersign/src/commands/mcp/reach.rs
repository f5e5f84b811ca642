//! What a server can reach of a gate's folder: its keys are there, and an agent that can write them is the gate.

use crate::mcp::settings::Place;
use std::path::{Path, PathBuf};

/// A folder that a word of the server's command names, or a variable of its environment, and that the data folder lies in, or that lies in
/// the data folder.
pub fn served(data: &Path, place: &Place) -> Option<PathBuf> {
    let Place::Command(program) = place else { return None };
    let data = whole(data);
    let words = program.words.iter().skip(1).map(String::as_str).chain(program.literals());
    let parts = words.flat_map(|word| word.split(['=', ',', ':']).chain([word, word.trim_start_matches("file://")]));
    let folders = parts.filter(|part| !part.is_empty()).filter_map(|part| Path::new(part).canonicalize().ok());
    folders.filter(|folder| folder.is_dir()).find(|folder| data.starts_with(folder) || folder.starts_with(&data))
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
}
