//! Style checks as a test: what rustfmt and clippy do not know about this project.
//!
//! The tree is read once into memory; every check is a pure function from the tree to findings, so that each is tested on
//! a made-up tree. A finding fails the run unless it is a warning.

mod citations;
mod codes;
mod crates;
mod features;
mod markdown;
mod modules;
mod requirements;
mod sentences;
mod source;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};

/// Folders and files at any depth that are not part of the project, besides what `.gitignore` names.
const NOT_OURS: &[&str] = &[".git", "target", "node_modules", "__pycache__", ".venv"];

/// One file that is text: its path from the root with `/` between the parts, and its contents.
#[derive(Debug)]
pub struct File {
    /// The path from the root.
    pub path: String,
    /// The whole file.
    pub text: String,
}

impl File {
    /// What follows the last dot of the name, or nothing.
    pub fn extension(&self) -> &str {
        self.name().rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(self.path.as_str(), |(_, name)| name)
    }

    /// The lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// The project's files, sorted by path.
#[derive(Debug, Default)]
pub struct Tree {
    /// Every text file.
    pub files: Vec<File>,
    /// The paths of all files, also of those that are not text, and of all folders.
    pub paths: Vec<String>,
}

impl Tree {
    /// The file at a path.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The files whose names end in an extension.
    pub fn with_extension<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| file.extension() == extension)
    }

    /// Whether a file or folder is there; the root is the empty path.
    pub fn holds(&self, path: &str) -> bool {
        path.is_empty() || self.paths.iter().any(|held| held == path)
    }
}

/// Something that a check does not like.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file.
    pub path: String,
    /// The line, or 0 for the file as a whole.
    pub line: usize,
    /// What is wrong and what to do about it.
    pub message: String,
    /// Whether it is only worth a look.
    pub warning: bool,
}

impl Finding {
    /// A finding that fails the run.
    pub fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into(), warning: false }
    }

    /// A finding that is printed and fails nothing.
    pub fn warning(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { warning: true, ..Self::new(path, line, message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = if self.warning { "warning" } else { "error" };
        match self.line {
            0 => write!(out, "{level}: {}: {}", self.path, self.message),
            line => write!(out, "{level}: {}:{line}: {}", self.path, self.message),
        }
    }
}

/// Checks the tree under a root and prints what it finds; `false` when there is an error among it.
pub fn run(root: &Path) -> Result<bool> {
    let tree = read(root)?;
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| !finding.warning).count();
    println!("tidy: {} files, {errors} errors, {} warnings", tree.files.len(), findings.len() - errors);
    Ok(errors == 0)
}

/// Every check there is, findings in order of their place.
fn check(tree: &Tree) -> Vec<Finding> {
    let checks = [
        source::check,
        markdown::check,
        modules::check,
        citations::check,
        codes::check,
        crates::check,
        words::check,
        features::check,
        requirements::check,
        sentences::check,
    ];
    let mut findings: Vec<Finding> = checks.iter().flat_map(|check| check(tree)).collect();
    findings.sort();
    findings
}

fn read(root: &Path) -> Result<Tree> {
    let ignored = std::fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    let ignored: Vec<&str> = ignored.lines().map(|line| line.trim_matches('/')).collect();
    let mut tree = Tree::default();
    read_folder(root, "", &ignored, &mut tree)?;
    tree.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(tree)
}

fn read_folder(folder: &Path, prefix: &str, ignored: &[&str], tree: &mut Tree) -> Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("{} cannot be read", folder.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if NOT_OURS.contains(&name.as_str()) || ignored.contains(&path.as_str()) || ignored.contains(&name.as_str()) {
            continue;
        }
        let kind = entry.file_type().with_context(|| format!("{path} cannot be read"))?;
        if kind.is_dir() {
            read_folder(&entry.path(), &format!("{path}/"), ignored, tree)?;
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path()).with_context(|| format!("{path} cannot be read"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                tree.files.push(File { path: path.clone(), text });
            }
        }
        tree.paths.push(path);
    }
    Ok(())
}

/// A made-up tree for the tests of the checks.
#[cfg(test)]
pub fn made_up(files: &[(&str, &str)]) -> Tree {
    let mut tree = Tree::default();
    for (path, text) in files {
        tree.files.push(File { path: (*path).to_owned(), text: (*text).to_owned() });
        for (end, _) in path.match_indices('/') {
            tree.paths.push(path[..end].to_owned());
        }
        tree.paths.push((*path).to_owned());
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_read_without_its_build_output() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tree = read(root).unwrap();
        assert!(tree.file("xtask/src/tidy.rs").is_some());
        assert!(tree.holds("crates/countersign-core"));
        assert!(!tree.paths.iter().any(|path| path.starts_with("target/") || path.starts_with(".git/")));
    }

    #[test]
    fn findings_name_their_place() {
        assert_eq!(Finding::new("a.rs", 3, "bad").to_string(), "error: a.rs:3: bad");
        assert_eq!(Finding::warning("a.rs", 0, "long").to_string(), "warning: a.rs: long");
    }
}
