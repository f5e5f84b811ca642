//! Pastes the guides, as a person would: every block of every guide in order, into one shell, in a new folder, exactly as written.
//!
//! The conventions are visible to readers, so there is no second copy of a guide anywhere:
//!
//! | in the guide | what happens |
//! |---|---|
//! | a block `sh` | is fed to the shell; a command that fails fails the test |
//! | a comment with `exit code 1` in it | the command is meant to fail with that code |
//! | a block whose first line is a comment with nothing but a file name | is saved under that name |
//! | a block `text` after a block `sh`, under the same heading | its lines were printed by that block, in that order |
//! | `<!-- not pasted: REASON -->` before a block | the block is left out |
//!
//! A guide ends as it began: no process left and no file left.

mod page;
mod postgres;
mod shell;
mod shown;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::setup;
use crate::venv;
use page::{Block, Does};
use postgres::Cluster;
use shell::Shell;

/// The pages besides `docs/guides/*.md` that tell people what to paste.
const OTHER_PAGES: &[&str] = &["README.md", "clients/python/README.md"];

/// The guide that needs a PostgreSQL server, which its reader starts with a command of their own.
const POSTGRES_GUIDE: &str = "docs/guides/postgres.md";

/// How long one block may take. The demo is the slowest, and the machine may be busy.
const BLOCK_WAIT: Duration = Duration::from_secs(120);

/// How long a gate may take to finish after its guide has stopped it.
const END_WAIT: Duration = Duration::from_secs(60);

/// Runs the guides; `false` when one does not work as written. `GUIDE=name` runs only the pages whose path contains the name, and
/// `COUNTERSIGN=path` pastes with that binary, such as one that is to be released.
pub fn run(root: &Path) -> Result<bool> {
    let client = root.join("clients/python");
    let python = venv::python(&venv::target(root).join("python-venv"), &client.join("requirements.txt"))?;
    let given = std::env::var_os("COUNTERSIGN").map(PathBuf::from);
    let Some(binary) = given.map_or_else(|| venv::binary(root), |given| Ok(Some(given)))? else { return Ok(false) };
    let place = Place {
        root: std::path::absolute(root)?,
        binary: std::path::absolute(binary)?,
        python: std::path::absolute(python)?,
        isolated: shell::can_isolate(),
        end_wait: END_WAIT,
    };
    if !place.isolated {
        shell::ports_are_free()?;
    }
    let only = std::env::var("GUIDE").unwrap_or_default();
    let mut failed = 0;
    let mut skipped = Vec::new();
    for path in pages(root)?.into_iter().filter(|path| path.contains(&only)) {
        let text = std::fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {path}"))?;
        let blocks = page::blocks(&text);
        skipped.extend(blocks.iter().filter_map(|block| match &block.does {
            Does::Skip(reason) => Some(format!("{path}:{}: {reason}", block.line)),
            _ => None,
        }));
        let started = Instant::now();
        let result = walk(&place, &path, &blocks);
        let took = started.elapsed().as_secs_f64();
        match result {
            Ok(pasted) => println!("guide {path}: {pasted} blocks pasted in {took:.1} s"),
            Err(error) => {
                failed += 1;
                println!("guide {path}: FAILED in {took:.1} s\n{error:#}\n");
            }
        }
    }
    skipped.iter().for_each(|line| println!("not pasted: {line}"));
    Ok(failed == 0)
}

/// What the guides are run with.
struct Place {
    root: PathBuf,
    binary: PathBuf,
    python: PathBuf,
    /// Whether each guide has a network of its own, so that its ports are free whatever else runs on this machine.
    isolated: bool,
    /// How long what a guide has started may take to end.
    end_wait: Duration,
}

fn pages(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("docs/guides");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut pages: Vec<String> = OTHER_PAGES.iter().map(|page| (*page).to_owned()).collect();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            pages.push(format!("docs/guides/{name}"));
        }
    }
    pages.sort();
    Ok(pages)
}

/// Pastes one page; says how many blocks that were.
fn walk(place: &Place, path: &str, blocks: &[Block]) -> Result<usize> {
    for block in blocks.iter().filter(|block| block.does == Does::Parse) {
        block.text.parse::<toml::Table>().with_context(|| format!("{path}:{}: this is not TOML", block.line))?;
    }
    if !blocks.iter().any(|block| matches!(block.does, Does::Paste(_))) {
        return Ok(0);
    }
    // Short: the path of a socket in a data folder in this folder may have 107 bytes.
    let name = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
    let folder = std::env::temp_dir().join(format!("guide-{}-{name}", std::process::id()));
    let outcome = in_folder(place, path, blocks, &folder);
    let removed = std::fs::remove_dir_all(&folder);
    let pasted = outcome?;
    removed.with_context(|| format!("cannot remove {}", folder.display()))?;
    Ok(pasted)
}

fn in_folder(place: &Place, path: &str, blocks: &[Block], folder: &Path) -> Result<usize> {
    let (home, here, programs) = (folder.join("home"), folder.join("here"), folder.join("bin"));
    for new in [&home, &here, &programs] {
        std::fs::create_dir_all(new).with_context(|| format!("cannot make {}", new.display()))?;
    }
    std::os::unix::fs::symlink(&place.binary, programs.join("countersign"))?;
    let mut shell = Shell::start(place, &folder.join("shell"), &home, &here, &programs)?;
    // Dropped before the shell, which is where its network is.
    let cluster = if path == POSTGRES_GUIDE { Some(Cluster::start(&mut shell, folder)?) } else { None };
    let mut pasted = 0;
    let mut printed = String::new();
    for block in blocks {
        let at = || format!("{path}:{}", block.line);
        match &block.does {
            Does::Paste(expected) => {
                let ran = shell.paste(&block.text, BLOCK_WAIT).with_context(at)?;
                ran.judge(expected, &block.text).with_context(at)?;
                printed = ran.printed;
                pasted += 1;
            }
            Does::Save(name) => {
                let target = shell.folder().join(name);
                std::fs::write(&target, &block.text).with_context(|| format!("cannot write {}", target.display()))?;
                pasted += 1;
            }
            Does::Show => shown::compare(&block.text, &printed).with_context(at)?,
            Does::Parse | Does::Skip(_) | Does::Nothing => {}
        }
    }
    if let Some(cluster) = cluster {
        cluster.stop(&mut shell)?;
    }
    ends_clean(place, shell, &here)?;
    Ok(pasted)
}

/// A reader is left with nothing that runs and nothing on the disk.
fn ends_clean(place: &Place, mut shell: Shell, here: &Path) -> Result<()> {
    let running = shell.paste("jobs -rl", BLOCK_WAIT)?.printed;
    if shell.paste("wait", place.end_wait).is_err() {
        bail!("the guide leaves processes running\nhint: end it with `kill %1 && wait`\n{running}");
    }
    let left: Vec<String> = std::fs::read_dir(here)
        .with_context(|| format!("cannot read {}", here.display()))?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    if !left.is_empty() {
        bail!("the guide leaves files behind: {}\nhint: end it by removing its folder", left.join(", "));
    }
    shell.end()
}

/// Where the programs of PostgreSQL are, which Debian keeps out of `PATH`.
fn postgres_programs() -> Result<PathBuf> {
    let found = setup::provide(&[&setup::POSTGRESQL])?;
    let initdb = found.first().context("initdb was not found")?;
    // A wrapper in `PATH` need not have its neighbours beside it.
    let real = std::fs::canonicalize(initdb).unwrap_or_else(|_| initdb.clone());
    Ok(real.parent().map_or_else(|| PathBuf::from("/"), Path::to_path_buf))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pastes a made-up guide; the error in words.
    fn pasted(name: &str, page: &str) -> Result<usize, String> {
        let root = PathBuf::from("/");
        let (binary, python) = (PathBuf::from("/bin/true"), PathBuf::from("/usr/bin/python3"));
        let place = Place { root, binary, python, isolated: false, end_wait: Duration::from_secs(1) };
        walk(&place, name, &page::blocks(page)).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_guide_is_pasted_into_one_shell_in_its_own_folder() {
        let page = "\
```sh
mkdir a && cd a
NAME=kettle
sleep 1000 &
```
```text
# stock.txt
one
two
```
```sh
cat stock.txt
echo \"a $NAME\"
test -e gone \\
    -o -e lost      # not there: exit code 1
```
```text
two
a kettle
```
```sh
kill %1 && wait
cd .. && rm -r a
```
";
        assert_eq!(pasted("good", page), Ok(4));
    }

    #[test]
    fn whatever_does_not_work_as_written_is_found() {
        let rows = [
            ("fails", "```sh\ntrue\nfalse\n```\n", "exit code 1: false"),
            ("fails-inside", "```sh\nX=$(exit 7)\n```\n", "exit code 7"),
            ("fails-in-a-pipe", "```sh\nfalse | cat\n```\n", "exit code 1"),
            ("is-missing", "```sh\nno-such-command\n```\n", "exit code 127"),
            ("works", "```sh\ntrue     # rejected: exit code 1\n```\n", "expected: [1]"),
            ("fails-otherwise", "```sh\n(exit 3)     # rejected: exit code 1\n```\n", "exit code 3"),
            ("prints-otherwise", "```sh\necho a\n```\n```text\nb\n```\n", "it was not printed"),
            ("leaves-a-file", "```sh\ntouch left\n```\n", "leaves files behind: left"),
            ("leaves-a-process", "```sh\nsleep 1000 &\n```\n", "leaves processes running"),
            ("ends-the-shell", "```sh\nexit\n```\n", "the shell ended"),
            ("is-no-toml", "```toml\na = = 1\n```\n", "not TOML"),
        ];
        for (name, page, said) in rows {
            let error = pasted(name, page).expect_err(name);
            assert!(error.contains(said), "{name}: {error}");
        }
    }
}
