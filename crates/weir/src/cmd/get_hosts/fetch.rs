//! The host that fetches: the first of the list that can. One that cannot be reached, or is lost, leaves it
//! to the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_cp::chain::ChainHost;
use weir_cp::error::CopyError;
use weir_fleet::launch::far_command::{
    self, CommandEnd, CommandFile, CommandLook, CommandNews, CommandOrder,
};
use weir_report::json;
use weir_report::schema::Record;
use weir_tree::Name;

use crate::args::VERSION;
use crate::interrupt::INTERRUPTED;

/// Hosts that are tried: what keeps five from fetching keeps all.
const MOST: usize = 5;

/// Exit codes of a `get`.
const USAGE: u8 = 2;
const MISMATCH: u8 = 3;
const RESUMABLE: u8 = 4;

/// A host that could not fetch, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) host: usize,
    pub(super) why: String,
}

/// Where a file is that is fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FetchedFile {
    pub(super) host: usize,
    /// The target is a folder.
    pub(super) is_folder: bool,
    /// What the file is called.
    pub(super) name: String,
}

/// What is known while a host fetches.
pub(super) enum FetchNews<'a> {
    /// How far it is.
    Look(&'a CommandLook),
    /// This file grows.
    Grows(FetchedFile),
    /// It does not any more: it could not be fetched there.
    Failed,
}

/// What was fetched, and by whom.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) file: FetchedFile,
    /// The record of its `get`.
    pub(super) record: Record,
    /// How long it took, from the first word to the last.
    pub(super) elapsed: Duration,
}

/// How it went.
#[derive(Debug)]
pub(super) struct Fetching {
    pub(super) attempts: Vec<Attempt>,
    /// What was fetched; or the exit code, and the record of the last one who tried.
    pub(super) result: Result<Fetched, (u8, Option<Record>)>,
}

/// Lets the first of `hosts` fetch that can.
pub(super) fn by_one(
    hosts: &[ChainHost],
    order: &CommandOrder,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(FetchNews<'_>),
) -> Fetching {
    let mut attempts: Vec<Attempt> = Vec::new();
    let (mut code, mut record) = (None, None);
    for (host, at) in hosts.iter().enumerate().take(MOST) {
        if host > 0 {
            tell(FetchNews::Failed);
        }
        let start = Instant::now();
        tracing::info!("{} fetches", at.name);
        let shown = at.name.clone();
        let hears = Arc::new(move |line: &str| tracing::debug!("{shown}: {line}"));
        let mut news = |news: CommandNews<'_>| match news {
            CommandNews::Look(look) => tell(FetchNews::Look(look)),
            CommandNews::Grows(CommandFile { name, is_folder }) => {
                if let Err(why) = is_due(order, name, *is_folder) {
                    return tracing::debug!("{}: {why}", at.name);
                }
                let (name, is_folder) = (name.clone(), *is_folder);
                tell(FetchNews::Grows(FetchedFile { host, is_folder, name }));
            }
        };
        let ended = far_command::run((&at.host, VERSION), order.clone(), stop, hears, &mut news);
        let elapsed = start.elapsed();
        let end = match ended {
            _ if stop.load(Relaxed) => {
                return Fetching { attempts, result: Err((INTERRUPTED, record)) };
            }
            Ok(end) => end,
            Err(error) => {
                attempts.push(Attempt { host, why: error.to_string() });
                code.get_or_insert(code_of(&error));
                continue;
            }
        };
        let said = end.record.as_deref().and_then(|text| json::parse(text).ok());
        if end.code == 0 {
            match fetched(host, order, &end, said, elapsed) {
                Ok(fetched) => return Fetching { attempts, result: Ok(fetched) },
                Err(why) => {
                    attempts.push(Attempt { host, why });
                    return Fetching { attempts, result: Err((1, record)) };
                }
            }
        }
        let why = end.error.unwrap_or_else(|| format!("its get ended with code {}", end.code));
        let is_last = is_of_all(end.code) || attempts.iter().any(|attempt| attempt.why == why);
        attempts.push(Attempt { host, why });
        code.get_or_insert(end.code);
        record = said.or(record);
        if is_last {
            code = Some(end.code);
            break;
        }
    }
    Fetching { attempts, result: Err((code.unwrap_or(1), record)) }
}

/// Whether every other host would end so too. What two say in the same words is so as well.
fn is_of_all(code: u8) -> bool {
    matches!(code, USAGE | MISMATCH)
}

/// Of a host that was lost: the same command goes on.
fn code_of(error: &CopyError) -> u8 {
    match error {
        CopyError::Lost { .. } => RESUMABLE,
        _ => 1,
    }
}

/// What a host says that it has fetched: one file, whose name lies in the target. All else it says is for
/// people.
fn fetched(
    host: usize,
    order: &CommandOrder,
    end: &CommandEnd,
    record: Option<Record>,
    elapsed: Duration,
) -> Result<Fetched, String> {
    let Some(record) = record else { return Err("it sent no record of what it fetched".to_owned()) };
    let [file] = &record.files[..] else {
        return Err(format!("it fetched {} files, and one was asked for", record.files.len()));
    };
    let (name, is_folder) = (last_of(&file.path), end.is_folder);
    is_due(order, &name, is_folder)?;
    Ok(Fetched { file: FetchedFile { host, is_folder, name }, record, elapsed })
}

fn last_of(path: &str) -> String {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
}

/// Whether a file of this name may be what was to be fetched.
fn is_due(order: &CommandOrder, name: &str, is_folder: bool) -> Result<(), String> {
    let due = order.name.clone().or_else(|| (!is_folder).then(|| last_of(&order.path)));
    // No name that the user did not give hides, or is a file of a login: as for names that servers give.
    let is_odd = due.is_none() && name.starts_with('.') || name.starts_with('~') && !is_folder;
    if due.is_some_and(|due| due != name) || is_odd {
        return Err(format!("it fetched into another file: {name}"));
    }
    match Name::new(name.as_bytes()) {
        Ok(one) if !one.is_root() && !name.contains('/') => Ok(()),
        _ => Err(format!("the file that it fetched has no name of its own: {name}")),
    }
}

#[cfg(test)]
mod tests {
    use weir_report::schema::{FileRecord, RunOutcome};

    use super::*;

    #[test]
    fn only_a_file_in_the_target_was_fetched() {
        let order = |path: &str, name: Option<&str>| CommandOrder {
            words: Vec::new(),
            path: path.to_owned(),
            name: name.map(str::to_owned),
            makes_folders: false,
        };
        for (path, name, is_folder, said, is_called) in [
            ("/data/", None, true, "/data/x", Some("x")),
            ("/data/", Some("y"), true, "/data/y", Some("y")),
            ("/data/", Some("y"), true, "/data/x", None),
            ("/data/z", None, false, "/data/z", Some("z")),
            ("/data/z", None, false, "/etc/passwd", None),
            ("/data/", None, true, "/data/..", None),
            ("/data/", None, true, "", None),
            ("/data/", None, true, "/data/.bashrc", None),
            ("/data/", Some(".bashrc"), true, "/data/.bashrc", Some(".bashrc")),
        ] {
            let mut record = Record::new("get", RunOutcome::Complete, 1, 1.0);
            record.files = vec![FileRecord { path: said.to_owned(), ..FileRecord::default() }];
            let end = CommandEnd { code: 0, record: None, error: None, is_folder };
            let found = fetched(0, &order(path, name), &end, Some(record), Duration::ZERO);
            assert_eq!(found.ok().map(|found| found.file.name).as_deref(), is_called, "{path} {said}");
        }
    }
}
