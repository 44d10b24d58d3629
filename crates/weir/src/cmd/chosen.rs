//! What a copy takes of its sources, from flags to what both ends are told: for the copy itself, and for the
//! plan that foretells it.

use std::path::PathBuf;

use weir_cp::list::List;
use weir_cp::wire::message::Options;
use weir_cp::wire::selection::{Backup, Selection};
use weir_tree::Filter;
use weir_units::Bytes;

use crate::args::{Given, Patterns, What};
use crate::cmd::route;
use crate::voice::Usage;

/// Bytes of `~/.cvsignore` that are read: more than anybody lists.
const CVSIGNORE: Bytes = Bytes(64 << 10);

/// What both ends are told of it, with all else as it is by default; and the list of what is copied, if there
/// is one. `sources`: how many were named.
pub fn options(what: &What, sources: usize) -> Result<(Options, Option<List>), Usage> {
    let delete = what.delete || what.choice.delete_excluded;
    let list = list(what, sources, delete)?;
    let selection = what.choice.selection()?;
    let filter = filter(what, &selection)?;
    let options = Options {
        archive: what.archive,
        recursive: list.is_none() || what.recursive,
        update: what.update,
        modify_window: what.modify_window,
        checksum: what.checksum,
        delete,
        filter,
        devices: what.nodes.devices || what.nodes.nodes,
        specials: what.nodes.specials || what.nodes.nodes,
        listed: list.is_some(),
        selection,
        ..Options::default()
    };
    Ok((options, list))
}

/// The sources' paths. What a list names is in the source, whether that was written with a slash at its end
/// or not.
pub fn source_paths(paths: &[Vec<u8>], list: Option<&List>) -> Vec<Vec<u8>> {
    let path = |path: &Vec<u8>| {
        let ends = path.is_empty() || path.ends_with(b"/");
        let slash = if list.is_some() && !ends { &b"/"[..] } else { b"" };
        [path, slash].concat()
    };
    paths.iter().map(path).collect()
}

/// What is left out, and what is spared: backups beside what they are of as well, as in rsync.
fn filter(what: &What, selection: &Selection) -> Result<Filter, Usage> {
    let bad = |error: weir_tree::filter::BadRule| Usage(error.to_string());
    let filter = Filter::new(what.choice.delete_excluded).with_cvs_words(cvs_words()).map_err(bad)?;
    let mut filter = route::filter(filter, &what.patterns, what.from0)?;
    if what.patterns.cvs_exclude {
        // As rsync adds them, behind all others (send_filter_list in its exclude.c).
        for rule in [&b":C"[..], b"-C"] {
            filter.rule(rule, &mut |_| Err(String::new())).map_err(bad)?;
        }
    }
    if let Some(Backup { folder: None, suffix }) = &selection.backup {
        let rule = [b"P *", &escaped(suffix)[..]].concat();
        filter.rule(&rule, &mut |_| Err(String::new())).map_err(bad)?;
    }
    Ok(filter)
}

/// What the user leaves out of CVS: the words of `~/.cvsignore`, then those of `$CVSIGNORE`.
fn cvs_words() -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let file = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cvsignore"));
    let read = file.and_then(|file| weir_units::read_file(&file, CVSIGNORE).ok()).unwrap_or_default();
    let given = std::env::var_os("CVSIGNORE").unwrap_or_default();
    [&read, &b" "[..], given.as_bytes()].concat()
}

/// A text as a pattern of itself, behind a wildcard.
fn escaped(text: &[u8]) -> Vec<u8> {
    text.iter()
        .flat_map(|byte| [b'\\', *byte].into_iter().skip(usize::from(!b"*?[\\".contains(byte))))
        .collect()
}

/// The list of what is copied, if there is one.
fn list(what: &What, sources: usize, deletes: bool) -> Result<Option<List>, Usage> {
    let reads = |Patterns { rules, .. }: &Patterns| {
        rules.iter().any(|(given, _)| matches!(given, Given::ExcludeFrom | Given::IncludeFrom))
    };
    let Some(file) = &what.files_from else {
        return match what.from0 && !reads(&what.patterns) {
            true => {
                Err(Usage("-0 is for --files-from, --exclude-from and --include-from: none is given".into()))
            }
            false => Ok(None),
        };
    };
    if sources != 1 {
        return Err(Usage("--files-from names what is in one folder; there are several sources".into()));
    }
    if deletes {
        return Err(Usage(
            "--delete would remove all that --files-from leaves out; use --exclude instead".into(),
        ));
    }
    let path = (file != "-").then(|| PathBuf::from(file));
    if let Some(path) = &path
        && let Err(error) = std::fs::metadata(path)
    {
        return Err(Usage(format!("cannot read {}: {}", path.display(), weir_units::plain(&error))));
    }
    Ok(Some(List::new(path, what.from0)))
}
