//! From where to where, and without what: a command's paths, as scp reads them, and its patterns.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use weir_cp::wire::message::{MAX_PATH, MAX_PATHS, MAX_ROOTS, Role};
use weir_tree::Filter;
use weir_tree::filter::MAX_RULE_FILE;
use weir_units::Bytes;

use crate::args::{Given, Patterns};
use crate::cmd::typed;
use crate::voice::Usage;

const WHERE: &str = "nothing to copy: weir cp SRC... DST, each a path or HOST:PATH \
                     (-c, -e, -F, -i, -J, -o, -P and -S take the word behind them)";

/// Which hosts a copy is between, and its paths there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// What this machine does.
    pub role: Role,
    /// The other machine, of two the one that receives; `None` for this one.
    pub host: Option<String>,
    /// Of two others the one that sends.
    pub from: Option<String>,
    /// The sources' paths.
    pub sources: Vec<Vec<u8>>,
    /// The target's path.
    pub target: Vec<u8>,
}

impl Route {
    /// From arguments: sources, which have to be on one host, and the target.
    pub fn of(paths: &[OsString]) -> Result<Route, Usage> {
        let places: Vec<HostPath> = paths.iter().map(place).collect();
        let (Some((target, sources)), true) = (places.split_last(), places.len() > 1) else {
            return Err(Usage(WHERE.into()));
        };
        // Of a host an empty path is the home folder; alone it is a variable that was not set, and the
        // current folder not meant.
        if places.iter().any(|place| place.host.is_none() && place.path.is_empty()) {
            return Err(Usage("an empty path; the current folder is .".into()));
        }
        let is_here = |path: &Path| path.symlink_metadata().is_ok();
        for (index, text) in paths.iter().enumerate() {
            let text = text.to_str().unwrap_or_default();
            if let Some(said) = typed::doubt(text, index + 1 == paths.len(), is_here) {
                return Err(Usage(said));
            }
        }
        let from = sources.first().and_then(|first| first.host.clone());
        if sources.iter().any(|source| source.host != from) {
            return Err(Usage("sources are on different hosts; take one host after the other".into()));
        }
        let (role, host, from) = match (from, target.host.clone()) {
            (None, host) => (Role::Sender, host, None),
            (Some(host), None) => (Role::Receiver, Some(host), None),
            (from, to) => (Role::Sender, to, from),
        };
        let sources: Vec<Vec<u8>> = sources.iter().map(|source| source.path.clone()).collect();
        let bytes: usize = sources.iter().map(Vec::len).sum();
        if sources.len() > MAX_ROOTS || bytes > MAX_PATHS {
            return Err(Usage(format!(
                "{} sources ({bytes} bytes of paths); at most {MAX_ROOTS} and {MAX_PATHS} bytes go in one command: name their folder, \
                 or pass their names by --files-from",
                sources.len()
            )));
        }
        if let Some(long) = sources.iter().chain([&target.path]).find(|path| path.len() >= MAX_PATH) {
            return Err(Usage(format!(
                "a path of {} bytes; the system takes {} at most: begin in a folder further down",
                long.len(),
                MAX_PATH - 1
            )));
        }
        Ok(Route { role, host, from, sources, target: target.path.clone() })
    }
}

/// The sources of a copy to hosts that are named elsewhere, and the host that they are on, if not this one.
pub fn sources(paths: &[OsString]) -> Result<(Option<String>, Vec<Vec<u8>>), Usage> {
    let here = [paths, &[OsString::from(".")]].concat();
    let route = Route::of(&here)?;
    Ok((route.host, route.sources))
}

/// A path and the host it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostPath {
    /// `[user@]host`; none for this machine.
    host: Option<String>,
    /// As it was written.
    path: Vec<u8>,
}

/// `[user@]host:path`, as scp reads it: a colon before any slash parts host and path; an IPv6 address is in
/// brackets.
fn place(text: &OsString) -> HostPath {
    let bytes = text.as_bytes();
    let local = || HostPath { host: None, path: bytes.to_vec() };
    let start = bytes.iter().position(|byte| *byte == b'[').filter(|at| *at == 0 || bytes[at - 1] == b'@');
    let colon = match start
        .and_then(|start| bytes[start..].iter().position(|byte| *byte == b']').map(|at| at + start))
    {
        Some(close) if bytes.get(close + 1) == Some(&b':') => Some(close + 1),
        Some(_) => None,
        None => bytes.iter().position(|byte| *byte == b':' || *byte == b'/').filter(|at| bytes[*at] == b':'),
    };
    let Some(colon) = colon.filter(|colon| *colon > 0) else { return local() };
    let Ok(host) = std::str::from_utf8(&bytes[..colon]) else { return local() };
    // ssh takes an IPv6 address without its brackets.
    let host = host.replace(['[', ']'], "");
    HostPath { host: Some(host), path: bytes[colon + 1..].to_vec() }
}

/// Adds these patterns to a filter: the first that matches decides, as rsync has it. `nul`: the lines of
/// files end with NUL.
pub fn filter(mut filter: Filter, patterns: &Patterns, nul: bool) -> Result<Filter, Usage> {
    for (given, text) in &patterns.rules {
        let bytes = text.as_bytes();
        let added = match given {
            Given::Exclude => filter.exclude(bytes),
            Given::Include => filter.include(bytes),
            Given::Filter => {
                filter.rule(bytes, &mut |path| read_rules(path).map_err(|error| weir_units::plain(&error)))
            }
            Given::ExcludeFrom | Given::IncludeFrom => {
                let list = read_rules(bytes).map_err(|error| {
                    let (path, why) = (Path::new(text).display(), weir_units::plain(&error));
                    Usage(format!("cannot read the patterns in {path}: {why}"))
                })?;
                let within = |error| Usage(format!("{}: {error}", Path::new(text).display()));
                filter.patterns(&list, *given == Given::IncludeFrom, nul).map_err(within)?;
                continue;
            }
        };
        added.map_err(|error| Usage(error.to_string()))?;
    }
    Ok(filter)
}

/// A file of patterns or rules; `-` is standard input.
fn read_rules(path: &[u8]) -> std::io::Result<Vec<u8>> {
    match path {
        b"-" => weir_units::read_up_to(std::io::stdin().lock(), Bytes(MAX_RULE_FILE)),
        path => weir_units::read_file(Path::new(OsStr::from_bytes(path)), Bytes(MAX_RULE_FILE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_parted_from_paths_as_scp_does() {
        let read = |text: &str| {
            let place = place(&OsString::from(text));
            (place.host.unwrap_or_default(), String::from_utf8(place.path).unwrap())
        };
        for (text, host, path) in [
            ("h:x", "h", "x"),
            ("u@h:", "u@h", ""),
            ("u@[::1]:a:b", "u@::1", "a:b"),
            ("[::1]:/x", "::1", "/x"),
            ("./a:b", "", "./a:b"),
            ("/a:b", "", "/a:b"),
            (":x", "", ":x"),
            ("x", "", "x"),
            ("[x", "", "[x"),
        ] {
            assert_eq!(read(text), (host.to_owned(), path.to_owned()), "{text}");
        }
    }
}
