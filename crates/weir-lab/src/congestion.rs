//! Which congestion controls the lab's namespaces may choose.
//!
//! A namespace other than the first may only select what `net.ipv4.tcp_allowed_congestion_control` of the first one
//! lists, even as root (net/ipv4/tcp_cong.c, `tcp_set_default_congestion_control`). Root can add to that list; it holds
//! for the whole machine, so the old value comes back with the last run that needed the change. It is kept in a file
//! that each of them holds locked, shared: whoever can lock it alone is the last, or the first after a crash.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::error::Error;

/// What a comparison needs.
const WANTED: [&str; 3] = ["reno", "bbr", "cubic"];

const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Where the old value is kept: in memory, so that it does not survive a reboot, as the change does not.
const FOLDER: &str = "/run/weir";

const RECORD: &str = "/run/weir/tcp_allowed_congestion_control";

/// While it lives, namespaces may choose reno, cubic and bbr, as far as this kernel has them.
#[derive(Debug)]
pub struct Allowed {
    record: Option<File>,
}

/// Adds reno, cubic and bbr to what namespaces may choose, if they are not there. Needs root in the first namespace.
pub fn allow() -> Result<Allowed, Error> {
    let missing = !missing(&read(ALLOWED)?, &read(AVAILABLE)?).is_empty();
    if !missing && !Path::new(RECORD).exists() {
        return Ok(Allowed { record: None });
    }
    let record = raise().map_err(|cause| Error::Refused {
        attempt: format!("cannot change {ALLOWED}"),
        cause,
        way_out: "run as root; the congestion controls it already lists can be chosen anyway",
    })?;
    Ok(Allowed { record: Some(record) })
}

impl Drop for Allowed {
    fn drop(&mut self) {
        if let Some(record) = &mut self.record
            && let Err(error) = restore(record)
        {
            tracing::warn!("cannot restore {ALLOWED}: {error}");
        }
    }
}

/// What to do where a value of TCP cannot be set.
pub(crate) fn advice(name: &str) -> String {
    if name != "net.ipv4.tcp_congestion_control" {
        return "its name or value is not one of this kernel's, or it is not a namespace's own".to_owned();
    }
    let allowed = fs::read_to_string(ALLOWED).unwrap_or_default();
    let works = match allowed.trim() {
        "" => "without it, the default works".to_owned(),
        names => format!("without it, these work: {names}"),
    };
    format!("allow it as root: sysctl -w net.ipv4.tcp_allowed_congestion_control='reno bbr cubic'; {works}")
}

/// Returns the record, locked shared, after the list is as it should be.
fn raise() -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o755).create(FOLDER)?;
    let _turn = take_turn()?;
    let mut record = File::options().read(true).write(true).create(true).truncate(false).open(RECORD)?;
    flock(&record, FlockOperation::LockShared)?;
    let mut original = String::new();
    record.read_to_string(&mut original)?;
    if original.is_empty() {
        original = fs::read_to_string(ALLOWED)?;
        // First the record, then the change: a crash between the two restores what is there anyway.
        record.write_all(original.as_bytes())?;
    }
    let available = fs::read_to_string(AVAILABLE)?;
    let mut names: Vec<&str> = original.split_whitespace().collect();
    names.extend(missing(&original, &available));
    fs::write(ALLOWED, names.join(" "))?;
    Ok(record)
}

/// Puts the old value back, unless another run still needs the new one.
fn restore(record: &mut File) -> io::Result<()> {
    let _turn = take_turn()?;
    match flock(&*record, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    record.rewind()?;
    let mut original = String::new();
    record.read_to_string(&mut original)?;
    fs::write(ALLOWED, original.trim())?;
    fs::remove_file(RECORD)
}

/// Only one run at a time looks at the record and acts on it.
fn take_turn() -> io::Result<File> {
    let folder = File::open(FOLDER)?;
    flock(&folder, FlockOperation::LockExclusive)?;
    Ok(folder)
}

/// What is wanted and there, but not allowed.
fn missing<'a>(allowed: &str, available: &'a str) -> Vec<&'a str> {
    let wanted = available.split_whitespace().filter(|name| WANTED.contains(name));
    wanted.filter(|name| !allowed.split_whitespace().any(|other| other == *name)).collect()
}

fn read(path: &str) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|cause| Error::Refused {
        attempt: format!("cannot read {path}"),
        cause,
        way_out: "it exists in the machine's first network namespace alone; the default congestion control works",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_there_and_not_yet_allowed_is_added() {
        assert_eq!(missing("reno bbr", "reno bbr cubic dctcp"), ["cubic"]);
        assert!(missing("reno cubic", "reno cubic").is_empty());
    }
}
