//! The source of a copy to many hosts, where it is on another machine: what it is called, and what if it is
//! among the hosts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use weir_cp::chain::ChainJob;
use weir_cp::roots;
use weir_cp::ssh::Host;
use weir_fleet::launch::hosts::Grouped;
use weir_report::escape::escape;

use crate::voice::{self, Usage};

/// From whom a host has it; none for this machine.
pub(super) fn feeder(job: &ChainJob, index: Option<usize>) -> Option<&str> {
    match index {
        Some(index) => Some(&job.hosts[index].name),
        None => job.from.as_ref().map(Host::shown),
    }
}

/// The hosts that are to get it: without the one that it comes `from`, where the sources are in the target.
pub(super) fn without(
    mut hosts: Vec<Grouped>,
    from: Option<&str>,
    sources: &[Vec<u8>],
    target: &[u8],
) -> Result<Vec<Grouped>, Usage> {
    let Some(from) = from.filter(|_| sources.iter().all(|source| is_there(source, target))) else {
        return Ok(hosts);
    };
    let before = hosts.len();
    hosts.retain(|(_, host)| host.login.as_deref() != Some(from));
    if hosts.is_empty() {
        return Err(Usage(format!("{from} has it there already, and --to-hosts names no other host")));
    }
    if hosts.len() < before {
        voice::warn(&escape(&format!("{from} has it there already, and only passes it on")));
    }
    Ok(hosts)
}

/// Whether a copy to `target` on the source's own host would be one onto itself, as far as the words tell.
fn is_there(source: &[u8], target: &[u8]) -> bool {
    // Of a folder whose content is meant (DIR/) nothing is called as the folder is.
    let is_content = roots::name_of(source).is_ok_and(|name| name.is_root());
    let [source, target] = [source, target].map(|path| {
        let path = path.strip_prefix(b"~/").unwrap_or(path);
        // Without `.` and slashes at the end.
        Path::new(OsStr::from_bytes(path)).components().as_path().to_owned()
    });
    let source = source.strip_prefix(".").unwrap_or(&source);
    let target = target.strip_prefix(".").unwrap_or(&target);
    source == target || !is_content && source.parent() == Some(target) && source.file_name().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_onto_itself_is_seen() {
        for (source, target, is_itself) in [
            ("/data/m", "/data/", true),
            ("/data/m", "/data", true),
            ("/data/m", "/data/m", true),
            ("/data/m/", "/data/m", true),
            ("m", "", true),
            ("~/m", "./", true),
            ("/data/m", "", false),
            ("/data/m", "/other/", false),
            ("/data/m", "/data/n", false),
            ("a/m", "", false),
            ("/data/m/", "/data", false),
            ("m/.", "", false),
        ] {
            assert_eq!(is_there(source.as_bytes(), target.as_bytes()), is_itself, "{source} {target}");
        }
    }
}
