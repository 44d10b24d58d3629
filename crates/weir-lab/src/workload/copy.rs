//! A file copied from the near to the far end, where a real sshd is: by weir cp, which judges itself, or by
//! programs that `weir why` watches from the end that sends.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use weir_bench::corpus::Corpus;

use super::{Done, Stage, WorkError};
use crate::child::Running;
use crate::scenario::{Transfer, Workload};
use crate::sshd::Sshd;

/// sshd's, at the far end.
const SSH_PORT: u16 = 22;

/// Where everything of one copy lies.
struct Places {
    source: PathBuf,
    target: PathBuf,
    evidence: PathBuf,
    log: PathBuf,
    /// The client's configuration.
    config: PathBuf,
}

pub(super) fn play(stage: &Stage<'_>, work: &Transfer) -> Result<Done, WorkError> {
    let here = |name: &str| stage.notes.join(name);
    let address = (stage.bed.far_address(), SSH_PORT);
    let sshd = Sshd::start(stage.bed.far(), address, &here("ssh"), stage.weir)?;
    let places = Places {
        source: here("source"),
        target: here("target"),
        evidence: here("evidence.json"),
        log: here("client.log"),
        config: sshd.config().to_owned(),
    };
    write_source(work, &places.source).map_err(WorkError::program("cannot write the source"))?;
    let mut command = command(stage, work, &places);
    stage.at_near(&mut command)?;
    let program = stage.scenario.workload.program();
    let said = File::create(&places.log).map_err(WorkError::program("cannot write the client's log"))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    let running = Running::start(&mut command, stage.stop)
        .map_err(WorkError::program(format!("cannot run {program}")))?;
    stage.sender.is_process(running.pid());
    let ended = running.finish().map_err(WorkError::program(format!("cannot wait for {program}")));
    drop(sshd);
    let (status, wall) = ended?;
    if !status.success() {
        let log = fs::read_to_string(&places.log).unwrap_or_default();
        let last = log.lines().last().unwrap_or_default();
        return Err(WorkError::Failed(format!("{program}: {status}: {last}")));
    }
    if !same(&places.source, &places.target).map_err(WorkError::program("cannot read the copy"))? {
        return Err(WorkError::Failed(format!("{program}: the copy differs from its source")));
    }
    let evidence = fs::read(&places.evidence).ok().and_then(|text| serde_json::from_slice(&text).ok());
    Ok(Done { bytes: work.bytes.0.0, wall, exit_code: status.code(), evidence, ..Done::default() })
}

fn write_source(work: &Transfer, path: &Path) -> io::Result<()> {
    // Far above what any codec looks back, so that what repeats in a longer file helps none of them.
    const PERIOD: u64 = 64 << 20;
    let corpus = Corpus::generate(work.data.kind(), work.bytes.0.0.min(PERIOD));
    let mut file = BufWriter::new(File::create(path)?);
    let mut left = work.bytes.0.0 as usize;
    while left > 0 {
        for block in corpus.blocks() {
            let piece = &block[..block.len().min(left)];
            file.write_all(piece)?;
            left -= piece.len();
        }
    }
    file.flush()
}

fn command(stage: &Stage<'_>, work: &Transfer, places: &Places) -> Command {
    let Places { source, target, evidence, config, .. } = places;
    let mut command = Command::new(stage.weir);
    let at_far = format!("far:{}", target.display());
    match stage.scenario.workload {
        Workload::Scp(_) => {
            command
                .args(["--no-config", "why", "-q", "--evidence"])
                .arg(evidence)
                .args(["--", "scp", "-q", "-F"])
                .arg(config);
            command.args(&work.args).arg(source).arg(at_far);
        }
        Workload::Gzip(_) => {
            // The lab's own paths have nothing that a shell would read in another way.
            let (from, to, config) = (source.display(), target.display(), config.display());
            let options = work.args.join(" ");
            let pipe = format!("gzip -c {options} {from} | ssh -F {config} far 'gunzip -c > {to}'");
            command
                .args(["--no-config", "why", "-q", "--evidence"])
                .arg(evidence)
                .args(["--", "sh", "-c", &pipe]);
        }
        _ => {
            command.args(["--no-config", "cp", "-q", "--evidence"]).arg(evidence).arg("-F").arg(config);
            // Its far end has this one too: what this machine was once measured to do is no part of a
            // scenario.
            command.env("XDG_CACHE_HOME", config.with_file_name("cache"));
            command.args(&work.args).arg(source).arg(at_far);
        }
    }
    command
}

fn same(one: &Path, other: &Path) -> io::Result<bool> {
    Ok(fs::read(one)? == fs::read(other)?)
}
