//! Commands, row by row, with a shell as the program (the adapter itself never uses one).

use super::{KEY, Told, attempt, call, found, probe, probed};
use crate::adapters::command::CommandAdapter;
use crate::config::Config;
use crate::config::adapters::AdapterSettings;
use countersign_core::call::{Evidence, Send};
use std::path::Path;
use std::time::{Duration, Instant};

fn adapter(script: &str, more: &str) -> CommandAdapter {
    let text = format!(
        "[adapters.payments]\nkind = \"command\"\nprogram = \"/bin/sh\"\nargs = [\"-c\", '''{script}''', \"sh\"]\n{more}"
    );
    let config = Config::parse(&text, Path::new("")).unwrap();
    let AdapterSettings::Command(settings) = &config.adapters["payments"] else { panic!("is a command") };
    let environment = |name: &str| match name {
        "TOKEN" => Some("sesame-open-sesame".to_owned()),
        "PATH" => Some("/usr/bin:/bin".to_owned()),
        _ => None,
    };
    CommandAdapter::new("payments", settings, &environment).unwrap()
}

fn args(args: &[&str]) -> Send {
    Send::Command { args: args.iter().map(|arg| (*arg).into()).collect() }
}

fn run(script: &str, more: &str, given: &[&str], timeout_ms: u64) -> (&'static str, Evidence) {
    found(attempt(&adapter(script, more), &call(args(given), timeout_ms), &Told::free()))
}

#[test]
fn arguments_arrive_as_they_are_and_no_shell_sees_them() {
    let (found, evidence) = run("printf '%s|' \"$@\"", "", &["a b", "$(id)", "; rm -rf /", "--flag", ""], 5_000);
    assert_eq!((found, evidence.status), ("done", Some(0)));
    assert_eq!(evidence.result.as_deref(), Some("a b|$(id)|; rm -rf /|--flag||"));
}

#[test]
fn the_environment_is_what_the_settings_say() {
    let more = "env = { TOKEN = { env = \"TOKEN\" }, MODE = \"live\" }\ncwd = \"/tmp\"";
    let (found, evidence) = run("/usr/bin/env | /usr/bin/sort; pwd", more, &[], 5_000);
    assert_eq!(found, "done", "{evidence:?}");
    let result = evidence.result.unwrap();
    // The shell adds a few of its own.
    let own = |line: &&str| !["PWD=", "SHLVL=", "_=", "OLDPWD="].iter().any(|own| line.starts_with(own));
    let lines: Vec<&str> = result.lines().filter(own).collect();
    let key = format!("COUNTERSIGN_IDEMPOTENCY_KEY={KEY}");
    assert_eq!(lines, [key.as_str(), "MODE=live", "PATH=/usr/bin:/bin", "TOKEN=[secret]", "/tmp"]);
}

#[test]
fn a_secret_that_crosses_a_cut_is_hidden_whole() {
    let more = "env = { TOKEN = { env = \"TOKEN\" } }\noutput_max = 8";
    let (_, evidence) = run("printf 'token=%s' $TOKEN; printf '%0195d%s' 0 $TOKEN >&2; exit 1", more, &[], 5_000);
    assert_eq!((evidence.result.as_deref(), evidence.is_cut), (Some("token=[secret]"), true));
    assert!(!evidence.words().contains("ses"), "{}", evidence.words());
    let (_, evidence) = run("printf '%04090d%s' 0 $TOKEN | tr -d 0 >&2; exit 1", more, &[], 5_000);
    assert!(!evidence.words().contains("ses"), "{}", evidence.words());
}

#[test]
fn every_exit_means_what_the_table_says() {
    let more = "refused_exits = [2, 65]";
    for (exit, expected) in
        [(0, "done"), (75, "not sent"), (2, "refused"), (65, "refused"), (1, "unknown"), (70, "unknown")]
    {
        let (found, evidence) = run("echo \"why not\" >&2; exit $1", more, &[&exit.to_string()], 5_000);
        assert_eq!((found, evidence.status), (expected, Some(exit)), "{evidence:?}");
        assert_eq!(evidence.words().ends_with(": why not"), exit != 0, "{}", evidence.words());
    }
    let (found, evidence) = run("kill -9 $$", more, &[], 5_000);
    assert_eq!((found, evidence.status), ("unknown", None));
    assert!(evidence.words().contains("signal 9"), "{}", evidence.words());
}

#[test]
fn what_takes_too_long_is_ended_with_everything_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let script = format!("sleep 60 & echo $! $$ > {}; wait", pids.display());
    // On a busy machine the shell may be ended before it has started anything; then it gets more time.
    for timeout_ms in [500, 5_000, 20_000] {
        let started = Instant::now();
        let (found, evidence) = run(&script, "", &[], timeout_ms);
        assert_eq!(found, "unknown", "{evidence:?}");
        assert!(evidence.words().contains("took too long"), "{}", evidence.words());
        assert!(started.elapsed() < Duration::from_secs(50), "it waited for what was started");
        let written = std::fs::read_to_string(&pids).unwrap_or_default();
        if written.ends_with('\n') {
            assert_eq!(written.split_whitespace().count(), 2, "{written}");
            assert!(written.split_whitespace().all(is_gone), "something still runs of {written}");
            return;
        }
    }
    panic!("the script never came to start anything");
}

/// Whether a process has ended; one that no one has reaped yet has ended too.
fn is_gone(pid: &str) -> bool {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Err(_) => return true,
            Ok(stat) if stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])) => return true,
            Ok(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    false
}

#[test]
fn what_it_leaves_running_neither_holds_the_call_nor_lives_on() {
    let started = Instant::now();
    let (found, evidence) = run("sleep 60 & echo $!", "", &[], 40_000);
    assert_eq!(found, "done", "{evidence:?}");
    assert!(started.elapsed() < Duration::from_secs(50), "it waited for what was left running");
    assert!(is_gone(evidence.result.unwrap().trim()));
}

#[test]
fn a_long_output_is_cut_and_blocks_nobody() {
    let script = "i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done";
    let (found, evidence) = run(script, "output_max = 100", &[], 20_000);
    assert_eq!(found, "done", "{evidence:?}");
    let result = evidence.result.unwrap();
    assert!(evidence.is_cut && result.len() <= 100, "{result}");
}

#[test]
fn what_cannot_be_started_is_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    std::fs::write(&program, "#!/nowhere/at/all\n").unwrap();
    let allow = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&program, allow).unwrap();
    let text = format!("[adapters.p]\nkind = \"command\"\nprogram = \"{}\"", program.display());
    let config = Config::parse(&text, Path::new("")).unwrap();
    let adapters = crate::adapters::build(&config.adapters, &|_| None, "o").unwrap();
    let (found, evidence) = found(attempt(&*adapters["p"], &call(args(&[]), 1_000), &Told::free()));
    assert_eq!(found, "not sent", "{evidence:?}");
    assert!(evidence.words().contains("could not be started"), "{}", evidence.words());
}

#[test]
fn what_is_missing_is_said_at_the_start() {
    for (text, part) in [
        ("program = \"/nowhere/at/all\"", "/nowhere/at/all: "),
        ("program = \"/etc/passwd\"", "is not a program"),
        ("program = \"/bin/sh\"\ncwd = \"/nowhere/at/all\"", "is not a folder"),
        (
            "program = \"/bin/sh\"\nenv = { A = { env = \"NOPE\" } }",
            "`adapters.p.env.A`: the environment variable NOPE",
        ),
    ] {
        let text = format!("[adapters.p]\nkind = \"command\"\n{text}");
        let config = Config::parse(&text, Path::new("")).unwrap();
        let error = crate::adapters::build(&config.adapters, &|_| None, "o").err().unwrap();
        let said = crate::terminal::Report::of_error(&error).to_string();
        assert!(said.contains(part) && said.contains("\nhint: "), "{said}");
    }
}

#[test]
fn a_halt_counts_until_the_program_starts() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let adapter = adapter(&format!("touch {}", mark.display()), "");
    let (found, evidence) = found(attempt(&adapter, &call(args(&[]), 1_000), &Told::halted_after(0)));
    assert_eq!(found, "not sent");
    assert!(evidence.words().ends_with("halted") && !mark.exists(), "{}", evidence.words());
}

#[test]
fn a_probe_counts_only_exits_that_were_agreed_upon() {
    let adapter = adapter("exit $1", "absent_exits = [4]");
    for (exit, expected) in [("0", "there"), ("4", "absent"), ("1", "unknown"), ("75", "unknown")] {
        assert_eq!(probed(probe(&adapter, args(&[exit]), 5_000)).0, expected, "{exit}");
    }
}
