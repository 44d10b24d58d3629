//! A program that downloads over HTTP from a server at the far end.

use std::fs::{self, File};
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use weir_serve::{Config, Content, Handle, Server, TlsSource};

use super::weak_server::{ERROR_PAGE, WeakServer};
use super::{Done, PORT, Stage, WorkError};
use crate::child::Running;
use crate::scenario::{Download, Quantity, Workload};

/// Either keeps serving until it is dropped.
enum Serving {
    Good(#[allow(dead_code, reason = "held for its drop")] Handle),
    Weak(#[allow(dead_code, reason = "held for its drop")] WeakServer),
}

pub(super) fn play(stage: &Stage<'_>, work: &Download) -> Result<Done, WorkError> {
    let serving = serve(stage, work)?;
    let output = stage.output.join("out");
    fs::create_dir_all(&output).map_err(WorkError::program(format!("cannot make {}", output.display())))?;
    let evidence = stage.notes.join("evidence.json");
    let list = stage.notes.join("urls.txt");
    fs::write(&list, urls(stage, work).join("\n") + "\n")
        .map_err(WorkError::program("cannot write the list of URLs"))?;
    let mut command = command(stage, work, &output, &list, &evidence);
    stage.at_near(&mut command)?;
    let name = command.get_program().display().to_string();
    let log = stage.notes.join("client.log");
    let said = File::create(&log).map_err(WorkError::program("cannot write the client's log"))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    let running = Running::start(&mut command, stage.stop).map_err(WorkError::start(&name))?;
    stage.reader.is_process(running.pid());
    let (status, wall) = running.finish().map_err(WorkError::program(format!("cannot wait for {name}")))?;
    drop(serving);
    let (bytes, error_pages) = arrived(&output);
    // Whichever code it is, a figure judges it where there is one.
    let is_judged = stage.scenario.figures.iter().any(|figure| figure.of == Quantity::ExitCode);
    if !status.success() && !is_judged {
        let log = fs::read_to_string(&log).unwrap_or_default();
        let last = log.lines().last().unwrap_or_default();
        return Err(WorkError::Failed(format!(
            "{name}: {status}: {last}; if that is what must come out, expect it by a figure of exit-code"
        )));
    }
    let evidence = fs::read(&evidence).ok().and_then(|text| serde_json::from_slice(&text).ok());
    Ok(Done { bytes, wall, exit_code: status.code(), error_pages, evidence })
}

fn serve(stage: &Stage<'_>, work: &Download) -> Result<Serving, WorkError> {
    let address = SocketAddr::from((stage.bed.far_address(), PORT));
    let server = &work.server;
    if let Some(most) = server.refuse_above {
        let delay = server.delay.map(|delay| delay.0.0).unwrap_or_default();
        let weak = WeakServer::start(stage.bed.far(), address, most, delay, work.bytes.0.0)?;
        return Ok(Serving::Weak(weak));
    }
    let files = (0..work.files).map(|number| (file_name(number), work.bytes.0.0)).collect();
    let config = Config {
        tls: work.tls.then(|| TlsSource::SelfSigned { names: vec![address.ip().to_string()] }),
        limit_rate: server.rate.map(|rate| rate.0),
        delay: server.delay.map(|delay| delay.0.0).unwrap_or_default(),
        send_buffer: server.send_buffer.map(|bytes| bytes.0),
        ..Config::new(Content::Generated(files)).listen(address)
    };
    // The listening socket belongs to the namespace in which it is made, wherever its threads run.
    let server = stage.bed.far().run(|| Server::bind(config))??;
    Ok(Serving::Good(server.spawn()?))
}

fn file_name(number: u32) -> String {
    format!("{number:03}.bin")
}

fn urls(stage: &Stage<'_>, work: &Download) -> Vec<String> {
    let scheme = if work.tls { "https" } else { "http" };
    let host = stage.bed.far_address();
    (0..work.files).map(|number| format!("{scheme}://{host}:{PORT}/{}", file_name(number))).collect()
}

fn command(stage: &Stage<'_>, work: &Download, output: &Path, list: &Path, evidence: &Path) -> Command {
    let mut command = match stage.scenario.workload {
        Workload::Curl(_) => {
            let mut command = Command::new("curl");
            command.args(["-sS", "-k", "--remote-name-all", "--output-dir"]).arg(output);
            if work.fresh {
                // HTTP/2 would send all requests over one connection.
                command.args(["--http1.1", "-H", "Connection: close"]);
            }
            if work.at_once > 1 {
                command.args(["-Z", "--parallel-immediate", "--parallel-max", &work.at_once.to_string()]);
            }
            command.args(urls(stage, work));
            command
        }
        Workload::Wget(_) => {
            let mut command = Command::new("wget");
            command.args(["-q", "--no-check-certificate", "-P"]).arg(output).arg("-i").arg(list);
            command
        }
        _ => {
            let mut command = Command::new(stage.weir);
            // weir takes the '/' at the end for a folder.
            command.args(["--no-config", "get", "-q", "-k", "-o"]).arg(output.join("")).arg("-i").arg(list);
            command.arg("--evidence").arg(evidence);
            command
        }
    };
    command.args(&work.args);
    for name in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(name);
    }
    command
}

/// Payload bytes in `folder`, and files that are the error page.
fn arrived(folder: &Path) -> (u64, u64) {
    let (mut bytes, mut pages) = (0, 0);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let mut start = vec![0; ERROR_PAGE.len()];
        let is_page = File::open(entry.path()).and_then(|mut file| file.read_exact(&mut start)).is_ok()
            && start == ERROR_PAGE.as_bytes();
        if is_page {
            pages += 1;
        } else {
            bytes += entry.metadata().map_or(0, |metadata| metadata.len());
        }
    }
    (bytes, pages)
}
