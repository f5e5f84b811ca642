//! Calls by a program on this machine: no shell, an argument vector, an environment that is spelled out.
//!
//! The program has a process group of its own, and the whole group is ended when the program has ended or its time is up. Its
//! exit says what it did; what is not agreed upon means that no one knows.

mod child;

use super::kept;
use super::secret::{Environment, Known, Secret};
use crate::config::adapters::CommandSettings;
use crate::hinted::bail_hinted;
use anyhow::Result;
use child::{Ended, Output, Spec};
use countersign_core::call::{Evidence, Found, FoundCode, Send};
use countersign_core::screen::visible::one_line;
use countersign_engine::outbox::{Adapter, Attempt, Job, Probed};
use smol_str::SmolStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The variable in which a program finds the idempotency key.
pub const KEY: &str = "COUNTERSIGN_IDEMPOTENCY_KEY";
/// The exit that means "not now, and nothing was done": EX_TEMPFAIL of sysexits.
pub const TEMPORARY: i32 = 75;

/// What is looked at of what a program complains about.
const COMPLAINT_BYTES_MAX: usize = 4 << 10;
/// How much of its first line is kept.
const LINE_BYTES_MAX: usize = 200;

/// One program.
#[derive(Debug)]
pub struct CommandAdapter {
    name: String,
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(String, Secret)>,
    path: Option<String>,
    cwd: PathBuf,
    known: Known,
    output_bytes_max: usize,
    concurrency: usize,
    refused_exits: Vec<i64>,
    absent_exits: Vec<i64>,
}

impl CommandAdapter {
    /// An adapter by its settings; reads its secrets, and looks whether the program is there.
    pub fn new(name: &str, settings: &CommandSettings, environment: Environment<'_>) -> Result<Self> {
        let shown = settings.program.display();
        match std::fs::metadata(&settings.program) {
            Ok(file) if file.is_file() && file.permissions().mode() & 0o111 != 0 => {}
            Ok(_) => {
                bail_hinted!("`adapters.{name}.program`: {shown} is not a program"; "name an executable file")
            }
            Err(error) => bail_hinted!("`adapters.{name}.program`: {shown}: {error}"; "name an existing program"),
        }
        if !settings.cwd.is_dir() {
            let cwd = settings.cwd.display();
            bail_hinted!("`adapters.{name}.cwd`: {cwd} is not a folder"; "name an existing folder, or leave it out");
        }
        let mut known = Known::default();
        let mut env = Vec::new();
        for (variable, source) in &settings.env {
            let secret = source.read(&format!("adapters.{name}.env.{variable}"), environment)?;
            known.add(source, &secret);
            env.push((variable.clone(), secret));
        }
        Ok(Self {
            name: name.to_owned(),
            program: settings.program.clone(),
            args: settings.args.clone(),
            env,
            path: environment("PATH"),
            cwd: settings.cwd.clone(),
            known,
            output_bytes_max: settings.output_bytes_max,
            concurrency: settings.concurrency,
            refused_exits: settings.refused_exits.clone(),
            absent_exits: settings.absent_exits.clone(),
        })
    }

    /// Runs the program with more arguments; `Err` where it could not be started.
    fn run(&self, args: &[SmolStr], key: &str, timeout_ms: u64) -> Result<(Ended, Evidence), Evidence> {
        let until = Instant::now() + Duration::from_millis(timeout_ms);
        let variables = self.env.iter().map(|(name, secret)| (name.as_str(), secret.reveal()));
        let spec = Spec {
            program: &self.program,
            args: self.args.iter().map(String::as_str).chain(args.iter().map(SmolStr::as_str)).collect(),
            env: self.path.iter().map(|path| ("PATH", path.as_str())).chain(variables).chain([(KEY, key)]).collect(),
            cwd: &self.cwd,
            output_bytes_max: self.output_bytes_max.saturating_add(self.known.reach()),
            complaint_bytes_max: COMPLAINT_BYTES_MAX.saturating_add(self.known.reach()),
        };
        let (ended, output) = child::run(&spec, until)
            .map_err(|error| self.found(FoundCode::NotStarted.about(self.program.display()).and_said(error)))?;
        let evidence = self.evidence(ended, &output);
        Ok((ended, evidence))
    }

    fn evidence(&self, ended: Ended, output: &Output) -> Evidence {
        let (mut found, status) = match ended {
            Ended::Exit(code) => (FoundCode::Exited.alone(), Some(i64::from(code))),
            Ended::Signal(signal) => (FoundCode::Signalled.about(signal), None),
            Ended::Late => (FoundCode::TimedOut.alone(), None),
        };
        // Secrets go first: a cut through one would leave its front behind.
        let complaint =
            self.known.hide_front(String::from_utf8_lossy(&output.stderr).into_owned(), COMPLAINT_BYTES_MAX);
        if let Some(line) = complaint.lines().find(|line| !line.trim().is_empty()).filter(|_| ended != Ended::Exit(0)) {
            found = found.and_said(one_line(line.trim(), LINE_BYTES_MAX));
        }
        let (result, is_cut) = kept::text(&output.stdout, self.output_bytes_max, output.is_whole, &self.known);
        Evidence { status, result, is_cut, ..self.found(found) }
    }

    /// Evidence that is a finding, without secrets.
    fn found(&self, found: Found) -> Evidence {
        Evidence::of(found.map(|text| self.known.hide(text)))
    }

    fn args<'s>(&self, send: Option<&'s Send>) -> Result<&'s [SmolStr], Evidence> {
        match send {
            Some(Send::Command { args }) => Ok(args),
            _ => Err(self.found(FoundCode::WrongKind.about(&self.name))),
        }
    }
}

impl Adapter for CommandAdapter {
    fn attempt(&self, job: &Job<'_>) -> Attempt {
        if !job.call.outside.is_empty() {
            return Attempt::Refused(
                self.found(
                    FoundCode::WrongKind.about(&self.name).and_because(FoundCode::ReadsNoFacts.about(&self.name)),
                ),
            );
        }
        let args = match self.args(job.call.send.as_ref()) {
            Ok(args) => args,
            Err(evidence) => return Attempt::Refused(evidence),
        };
        if let Some(why) = job.held_back() {
            return Attempt::NotSent(self.found(why));
        }
        match self.run(args, job.key, job.call.timeout_ms) {
            // Nothing of the program has run.
            Err(evidence) => Attempt::NotSent(evidence),
            Ok((Ended::Exit(0), evidence)) => Attempt::Done(evidence),
            // What the word means since long before this: try again later, nothing was done.
            Ok((Ended::Exit(TEMPORARY), evidence)) => Attempt::NotSent(evidence),
            Ok((Ended::Exit(code), evidence)) if self.refused_exits.contains(&code.into()) => {
                Attempt::Refused(evidence)
            }
            // A program that fails may have failed after having done it.
            Ok((_, evidence)) => Attempt::Unknown(evidence),
        }
    }

    fn probe(&self, job: &Job<'_>) -> Probed {
        let probe = job.call.probe.as_ref().map(|probe| &probe.send);
        let ran = self.args(probe).and_then(|args| self.run(args, job.key, job.call.timeout_ms));
        match ran {
            Ok((Ended::Exit(0), evidence)) => Probed::There(evidence),
            Ok((Ended::Exit(code), evidence)) if self.absent_exits.contains(&code.into()) => Probed::Absent(evidence),
            Ok((_, evidence)) | Err(evidence) => Probed::Unknown(evidence),
        }
    }

    fn concurrency(&self) -> usize {
        self.concurrency
    }
}
