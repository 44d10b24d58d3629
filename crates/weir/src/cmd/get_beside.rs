//! Files that `weir get` reads or writes beside its downloads: no two of them are one, and no download
//! becomes one of them.

use std::path::{Path, PathBuf};

use weir_get::sink::{home, links};

use crate::args::Get;
use crate::voice::Usage;

/// The option of the files that are downloads.
const OUTPUT: &str = "-o";

/// The option of the files that are read alone.
const LIST: &str = "-i";

/// Where they lie, each with the option that names it. An error where two options name one file, a single
/// `-o FILE` among them.
pub fn reserved(get: &Get) -> Result<Vec<(PathBuf, &'static str)>, Usage> {
    let beside = [
        ("--report", get.voice.report.as_deref()),
        ("--evidence", get.evidence.as_deref()),
        ("--save-cookies", get.login.save_cookies.as_deref()),
        ("--json-files", get.json_files.as_deref()),
    ];
    let beside = beside.into_iter().filter_map(|(option, path)| Some((option, path?)));
    let lists = get.list.iter().map(|list| (LIST, Path::new(list)));
    let outputs = get.output.iter().map(|output| (OUTPUT, Path::new(output)));
    let mut known: Vec<(PathBuf, &'static str)> = Vec::new();
    for (option, path) in lists.chain(beside).chain(outputs) {
        let Some(place) = file_at(path) else { continue };
        if let Some((_, other)) = known.iter().find(|(own, _)| *own == place) {
            if (*other, option) == (LIST, LIST) {
                continue;
            }
            let path = path.display();
            return Err(Usage(match *other == option {
                true => format!("{option} names {path} twice; give each URL a file of its own"),
                false => format!("{other} and {option} both name {path}; give each a file of its own"),
            }));
        }
        known.push((place, option));
    }
    let (outputs, known): (Vec<_>, Vec<_>) = known.into_iter().partition(|(_, option)| *option == OUTPUT);
    for (place, _) in &outputs {
        refuse(&known, place, || OUTPUT.to_owned())?;
    }
    Ok(known)
}

/// An error where one of `known` would be written over the download at `target`, or over what that is while
/// it grows; `whose` says what names the download. A list is only read: the engine refuses its name.
pub fn refuse(
    known: &[(PathBuf, &'static str)],
    target: &Path,
    whose: impl Fn() -> String,
) -> Result<(), Usage> {
    let mut written = known.iter().filter(|(_, option)| *option != LIST).peekable();
    if written.peek().is_none() {
        return Ok(());
    }
    let (part, journal) = home::names(target);
    let names: [&Path; 3] = [target, &part, &journal];
    // Only what is called alike costs a look at its folder.
    let is_at =
        |name: &Path, place: &Path| name.file_name() == place.file_name() && links::place_of(name) == *place;
    for (place, option) in written {
        if let Some(name) = names.into_iter().find(|name| is_at(name, place)) {
            let (name, whose) = (name.strip_prefix(".").unwrap_or(name).display(), whose());
            return Err(Usage(format!("{option} and {whose} both name {name}; give each a file of its own")));
        }
    }
    Ok(())
}

/// Where the file at `path` lies, or will; `None`: it is none, but stdin, stdout, a folder, a pipe or a
/// device.
fn file_at(path: &Path) -> Option<PathBuf> {
    let text = path.as_os_str().as_encoded_bytes();
    let is_none = matches!(text, b"" | b"-") || text.ends_with(b"/");
    let is_other = std::fs::metadata(path).is_ok_and(|there| !there.is_file());
    (!is_none && !is_other).then(|| links::place_of(&links::end_or_new(path).0))
}
