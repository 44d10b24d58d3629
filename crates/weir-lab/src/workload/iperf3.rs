//! iperf3, with the data from far to near (`-R`).

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Done, PORT, Stage, WorkError};
use crate::child::Running;
use crate::scenario::Iperf3;
use crate::sshd::is_listening;

/// A server that does not listen by then never will.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn play(stage: &Stage<'_>, work: &Iperf3) -> Result<Done, WorkError> {
    let port = PORT.to_string();
    let mut server = Command::new("iperf3");
    server.args(["-s", "-1", "-p", &port]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    stage.bed.far().enter(&mut server)?;
    let server = Running::start(&mut server, stage.stop).map_err(WorkError::start("iperf3"))?;
    stage.sender.is_process(server.pid());
    wait_for_listener(stage)?;
    let mut client = Command::new("iperf3");
    let host = stage.bed.far_address().to_string();
    client.args(["-c", &host, "-p", &port, "-R", "-P", &work.streams.to_string()]);
    client.args(["-n", &work.bytes.0.0.to_string()]).args(&work.args);
    client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    stage.at_near(&mut client)?;
    let client = Running::start(&mut client, stage.stop).map_err(WorkError::start("iperf3"))?;
    stage.reader.is_process(client.pid());
    let (status, wall) = client.finish().map_err(WorkError::program("cannot wait for iperf3"))?;
    server.kill();
    if !status.success() {
        return Err(WorkError::Failed(format!("iperf3: {status}")));
    }
    Ok(Done { bytes: work.bytes.0.0, wall, exit_code: status.code(), ..Done::default() })
}

fn wait_for_listener(stage: &Stage<'_>) -> Result<(), WorkError> {
    let start = Instant::now();
    while !is_listening(stage.bed.far(), PORT)? {
        if start.elapsed() > TIMEOUT {
            return Err(WorkError::Failed(format!("iperf3 did not listen within {TIMEOUT:?}")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
