//! Workers as an array of Slurm: `sbatch` gets a script by its stdin, of which Slurm starts as many tasks as
//! were asked for, where and when there is room.
//!
//! The script replaces itself with `weir fleet work`, so that the SIGTERM of `scancel`, of the end of the
//! time limit and of a preemption is the worker's: it ends what it holds within 20 s and leaves, and Slurm's
//! SIGKILL comes after 30 s (`KillWait`). A task that Slurm starts again joins as a new worker.
//!
//! A password is never in the script, which `scontrol` shows to its user and keeps on every node, nor in an
//! argument: it goes by the environment of `sbatch`, which Slurm hands to the tasks.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_units::program::ProgramLimits;
use weir_units::{human_duration, quoted};

use super::said::{self, Refusal, one_line};
use crate::shell;

/// How long Slurm's programs may take: a controller that is busy or changes over to its backup keeps them
/// waiting for its `SlurmctldTimeout`, two minutes.
const LIMIT: Duration = Duration::from_secs(150);

/// Bytes of an answer: `sinfo` prints a line of some 60 a node, of which the largest clusters have 20,000.
const MOST: u64 = 8 << 20;

/// Options of `sbatch` that weir gives, or that would make something else of it, and what to do instead.
const OWN: &[(&[&str], &str)] = &[
    (&["--array", "-a"], "--slurm N is the size of the array"),
    (&["--wrap"], "weir gives the script"),
    (&["--wait", "-W"], "weir fleet status says when the plan is done"),
    (&["--parsable", "--quiet", "-Q"], "weir reads the answer"),
    (&["--test-only"], "weir fleet run --slurm N --print shows the script, for sbatch --test-only"),
    (&["--help", "-h", "--usage", "--version", "-V"], "they submit nothing"),
];

/// Options and variables that say which part of the environment tasks get.
const EXPORT: (&str, &str) = ("--export", "SBATCH_EXPORT");

/// Workers that Slurm is to start.
#[derive(Debug, Clone, Default)]
pub struct SlurmArray {
    /// How many.
    pub tasks: u32,
    /// The program, by its whole path, which all nodes see.
    pub program: PathBuf,
    /// Its arguments, which hold no secret.
    pub words: Vec<OsString>,
    /// For `sbatch`.
    pub options: Vec<String>,
    /// Variables that hold secrets.
    pub secrets: Vec<(String, String)>,
    /// The same of what a task may find by itself as well, in a file of its user's.
    pub spare: Vec<(String, String)>,
    /// The node that all tasks must be on, because the ledger is a file of it.
    pub node: Option<String>,
}

/// Why no array was submitted.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    /// An option that weir does not pass on.
    #[error("cannot pass {option} to sbatch: {why}")]
    Option {
        /// Which.
        option: String,
        /// Why, and what to do instead.
        why: String,
    },
    /// A program of Slurm's did not do it.
    #[error("cannot run {program}: {why}")]
    Program {
        /// Which.
        program: &'static str,
        /// Why, and the way out.
        why: String,
    },
    /// The ledger is a file, and no node is this host.
    #[error(
        "cannot start workers by Slurm on the ledger {place}: it is a file of this host, which is none of the \
         cluster's nodes; take a PostgreSQL database, or name the node that has the file by \
         --sbatch=--nodelist=NODE"
    )]
    NoNode {
        /// Which ledger.
        place: String,
    },
    /// A signal came.
    #[error("interrupted while {program} was asked; squeue --name weir-fleet shows what was submitted")]
    Interrupted {
        /// Which program.
        program: &'static str,
    },
}

impl SlurmArray {
    /// Whether the options can be passed on.
    ///
    /// # Errors
    /// [`SlurmError::Option`].
    pub fn check(&self) -> Result<(), SlurmError> {
        for option in &self.options {
            let refused = |why: &str| {
                Err(SlurmError::Option { option: format!("'{}'", quoted(option)), why: why.to_owned() })
            };
            if !option.starts_with('-') || option.trim_end_matches('-').is_empty() {
                return refused("expected one option, as in --sbatch=--partition=long");
            }
            if let Some((_, why)) = OWN.iter().find(|(own, _)| own.iter().any(|own| is_option(option, own))) {
                return refused(why);
            }
            let hides =
                is_option(option, EXPORT.0) && !exports_all(option.split_once('=').map_or("", |two| two.1));
            if hides && let Some((name, _)) = self.secrets.first() {
                return refused(&format!(
                    "tasks would not get {name}; leave it out, or write ALL,NAME=VALUE"
                ));
            }
        }
        Ok(())
    }

    fn check_surroundings(&self) -> Result<(), SlurmError> {
        let exported = std::env::var(EXPORT.1).ok().filter(|value| !exports_all(value));
        match (exported, self.secrets.first()) {
            (Some(value), Some((name, _))) => Err(SlurmError::Option {
                option: format!("{}={}", EXPORT.1, quoted(&value)),
                why: format!("tasks would not get {name}; unset it, or let it say ALL"),
            }),
            _ => Ok(()),
        }
    }

    /// Whether an option says which nodes are taken.
    pub fn names_nodes(&self) -> bool {
        let nodes = ["--nodelist", "-w", "--nodefile", "-F"];
        self.options.iter().any(|option| nodes.iter().any(|name| is_option(option, name)))
    }

    /// What `sbatch` reads.
    pub fn script(&self) -> Vec<u8> {
        let mut script = b"#!/bin/sh\n\
            #SBATCH --job-name=weir-fleet\n\
            #SBATCH --ntasks=1\n\
            #SBATCH --requeue\n\
            #SBATCH --open-mode=append\n"
            .to_vec();
        if let Some(node) = &self.node {
            script.extend(format!("#SBATCH --nodelist={node}\n").as_bytes());
        }
        script.extend(b"exec ");
        shell::push_word(&mut script, self.program.as_os_str().as_bytes());
        for word in &self.words {
            script.push(b' ');
            shell::push_word(&mut script, word.as_bytes());
        }
        script.push(b'\n');
        script
    }

    /// Submits it. Returns the number of the job.
    ///
    /// # Errors
    /// [`SlurmError`]: nothing was submitted, but where the answer did not come.
    pub fn submit(&self, stop: &AtomicBool) -> Result<String, SlurmError> {
        self.check()?;
        self.check_surroundings()?;
        let mut command = Command::new("sbatch");
        command.arg("--parsable").arg(format!("--array=0-{}", self.tasks.saturating_sub(1)));
        let secrets = self.spare.iter().chain(&self.secrets).map(|(name, value)| (name, value));
        command.args(&self.options).envs(secrets);
        // With them sbatch would wait for the end, or for none of its options.
        command.env_remove("SBATCH_WAIT").env_remove("SBATCH_ARRAY_INX");
        let answer = asked("sbatch", command, &self.script(), stop)?;
        // `NUMBER`, or `NUMBER;CLUSTER`.
        let number = answer.trim().split(';').next().unwrap_or_default();
        match !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
            true => Ok(number.to_owned()),
            false => Err(SlurmError::Program {
                program: "sbatch",
                why: format!("it gave no number of a job, but '{}'", quoted(answer.trim())),
            }),
        }
    }
}

/// The node of the cluster that is the host with this name.
///
/// # Errors
/// [`SlurmError::NoNode`] where there is none; `place` is the ledger that needs it.
pub fn node_of_host(host: &str, place: &Path, stop: &AtomicBool) -> Result<String, SlurmError> {
    let mut command = Command::new("sinfo");
    command.args(["--noheader", "--Node", "--format=%N %n"]);
    let answer = asked("sinfo", command, b"", stop)?;
    found_node(&answer, host).ok_or_else(|| SlurmError::NoNode { place: place.display().to_string() })
}

/// In lines of a node's name and its host's.
fn found_node(lines: &str, host: &str) -> Option<String> {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let two = lines.lines().filter_map(|line| line.trim().split_once(' '));
    two.filter(|(_, of)| short(of) == short(host)).map(|(node, _)| node.to_owned()).next()
}

/// Whether `text` is the option `name`, alone or with a value: `-aVALUE`, `--array=VALUE`, or what
/// getopt_long(3) takes for it, `--arr`.
fn is_option(text: &str, name: &str) -> bool {
    match name.starts_with("--") {
        false => text.starts_with(name) && !text.starts_with("--"),
        true => {
            let said = text.split('=').next().unwrap_or_default();
            // Of the options that begin with `--`, three letters tell those above from the others.
            said == name || (said.len() >= 5 && name.starts_with(said))
        }
    }
}

fn exports_all(value: &str) -> bool {
    value.split(',').any(|name| name == "ALL")
}

fn asked(
    name: &'static str,
    command: Command,
    input: &[u8],
    stop: &AtomicBool,
) -> Result<String, SlurmError> {
    let failed = |why: String| SlurmError::Program { program: name, why };
    let limits = ProgramLimits { time: LIMIT, output: MOST, stop };
    let absent =
        "it is not installed here; run the same on a host of the cluster, or start weir fleet work there";
    let late = format!(
        "no answer within {}; squeue --name weir-fleet shows whether something was submitted",
        human_duration(LIMIT)
    );
    match said::asked(command, input, limits, (absent, &late)) {
        Ok(out) => Ok(String::from_utf8_lossy(&out).into_owned()),
        Err(Refusal::Interrupted) => Err(SlurmError::Interrupted { program: name }),
        Err(Refusal::Why(why)) => Err(failed(why)),
        Err(Refusal::Complaint(words)) => Err(failed(complaint(&words))),
    }
}

/// What a program of Slurm's complained, in one line.
fn complaint(bytes: &[u8]) -> String {
    // Each line of it begins with the program's name.
    let said = one_line(bytes).replace("sbatch: error: ", "").replace("sinfo: error: ", "");
    let way_out = match &said {
        said if said.contains("Invalid job array") => {
            "; scontrol show config names the largest array (MaxArraySize)"
        }
        said if said.contains("contact slurm controller") => {
            "; nothing was submitted, run the same command again"
        }
        _ => "",
    };
    format!("{said}{way_out}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(options: &[&str]) -> SlurmArray {
        SlurmArray {
            tasks: 4,
            program: "/opt/it's/weir".into(),
            words: ["fleet", "work", "--ledger", "/a b/$HOME.db"].map(OsString::from).to_vec(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            ..SlurmArray::default()
        }
    }

    #[test]
    fn the_script_says_each_word_as_it_is() {
        let script = SlurmArray { node: Some("n1".to_owned()), ..array(&[]) }.script();
        let script = String::from_utf8(script).unwrap();
        assert!(script.starts_with("#!/bin/sh\n#SBATCH --job-name=weir-fleet\n"), "{script}");
        assert!(script.contains("\n#SBATCH --nodelist=n1\nexec "), "{script}");
        let exec = r"exec '/opt/it'\''s/weir' 'fleet' 'work' '--ledger' '/a b/$HOME.db'";
        assert!(script.ends_with(&format!("{exec}\n")), "{script}");
        let said = Command::new("sh").arg("-c").arg(exec.replace("exec", "printf %s,")).output().unwrap();
        assert_eq!(said.stdout, b"/opt/it's/weir,fleet,work,--ledger,/a b/$HOME.db,".as_slice());
    }

    #[test]
    fn options_go_through_but_those_that_make_something_else_of_it() {
        for good in
            ["--partition=long", "-plong", "--time=1:00:00", "--export=NONE", "-wn1", "--acctg-freq=3"]
        {
            array(&[good]).check().unwrap_or_else(|error| panic!("{good}: {error}"));
        }
        for bad in
            ["--array=0-9", "-a1", "--arr=1", "--wrap=true", "-W", "--wait", "--test-only", "long", "--", "-"]
        {
            let error = array(&[bad]).check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot pass '{bad}' to sbatch: ")), "{error}");
        }
        let secret = |option| SlurmArray {
            secrets: vec![("PGPASSWORD".to_owned(), "p".to_owned())],
            ..array(&[option])
        };
        assert!(secret("--export=ALL,A=1").check().is_ok());
        let hidden = secret("--export=NONE").check().unwrap_err().to_string();
        assert!(hidden.contains("tasks would not get PGPASSWORD; leave it out"), "{hidden}");
        assert!(array(&["--nodelist=a"]).names_nodes() && array(&["-wa"]).names_nodes());
        assert!(!array(&["--nodes=1", "-N1"]).names_nodes());
    }

    #[test]
    fn a_node_is_found_by_its_hosts_name() {
        let lines = "n1 login\nn2  vm.example.org\nn2 vm.example.org\n";
        assert_eq!(found_node(&lines.replace("  ", " "), "vm").as_deref(), Some("n2"));
        assert_eq!(found_node(lines, "login.example.org").as_deref(), Some("n1"));
        assert_eq!((found_node(lines, "other"), found_node("", "vm")), (None, None));
    }

    #[test]
    fn complaints_are_one_line_with_a_way_out() {
        let text = b"sbatch: error: Batch job submission failed: Invalid job array specification\n";
        let said = complaint(text);
        assert!(
            said.starts_with("Batch job submission failed: Invalid job array")
                && said.contains("MaxArraySize")
        );
        assert_eq!(complaint(b"sbatch: error: a\n\nsbatch: error: b\n\x1b"), "a; b");
    }
}
