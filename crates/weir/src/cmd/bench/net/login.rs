//! Keys and passwords: from files, the environment and the terminal, never from the command line.

use std::io::{BufRead, IsTerminal, Stdin, Write};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use weir_bench_net::auth::{Guard, Login, Padding};
use weir_units::Bytes;

use crate::args::NetLogin;
use crate::interrupt;

/// iperf3's variable.
const PASSWORD: &str = "IPERF3_PASSWORD";

/// A password is no longer than what fits the largest key (8192 bits).
const MOST: u64 = 1024;

/// A thousand users, or any key.
const LONGEST: Bytes = Bytes(1_000_000);

/// The client's user, its password and the server's key.
pub(super) fn of_client(login: &NetLogin) -> anyhow::Result<Option<(Login, String, Padding)>> {
    let (Some(user), Some(key)) = (&login.username, &login.public_key) else { return Ok(None) };
    let key = read(key)?;
    let password = match std::env::var(PASSWORD) {
        Ok(password) => password,
        Err(_) => ask(user)?,
    };
    Ok(Some((Login { user: user.clone(), password }, key, padding(login))))
}

/// The server's key and users.
pub(super) fn of_server(login: &NetLogin) -> anyhow::Result<Option<Guard>> {
    let (Some(key), Some(users)) = (&login.private_key, &login.users) else { return Ok(None) };
    let skew = Duration::from_secs(login.time_skew_threshold.into());
    let guard = Guard::new(&read(key)?, &read(users)?, padding(login), skew)
        .with_context(|| format!("cannot use {} with {}", key.display(), users.display()))?;
    Ok(Some(guard))
}

fn padding(login: &NetLogin) -> Padding {
    if login.pkcs1 { Padding::Pkcs1 } else { Padding::Oaep }
}

fn read(path: &Path) -> anyhow::Result<String> {
    weir_units::read_text(path, LONGEST).with_context(|| format!("cannot read {}", path.display()))
}

/// Asks on the terminal, without showing what is typed.
fn ask(user: &str) -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    anyhow::ensure!(stdin.is_terminal(), "no password for {user}: set {PASSWORD}");
    write!(std::io::stderr(), "password of {user}: ")?;
    let line = {
        let _hidden = Hidden::new()?;
        typed(&stdin)
    };
    writeln!(std::io::stderr())?;
    Ok(line?.trim_end_matches(['\r', '\n']).to_owned())
}

/// One line; a signal ends it in order, so that the terminal shows again what is typed.
fn typed(stdin: &Stdin) -> anyhow::Result<String> {
    let stop = interrupt::stop()?;
    let glance = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    loop {
        if stop.load(Relaxed) {
            return Err(weir_bench_net::NetError::Interrupted.into());
        }
        match poll(&mut [PollFd::new(stdin, PollFlags::IN)], Some(&glance)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => break,
            Err(cause) => return Err(cause.into()),
        }
    }
    // A terminal gives whole lines.
    let mut line = String::new();
    std::io::Read::take(stdin.lock(), MOST).read_line(&mut line)?;
    Ok(line)
}

/// While it lives the terminal shows nothing of what is typed.
struct Hidden(Termios);

impl Hidden {
    fn new() -> anyhow::Result<Hidden> {
        let before = tcgetattr(std::io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes -= LocalModes::ECHO;
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Hidden(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
    }
}
