//! Files that `weir get` reads or writes beside its downloads: no two of them are one, and no download
//! becomes one of them.

use std::path::{Path, PathBuf};

use weir_get::sink::links;

use crate::args::Get;
use crate::voice::Usage;

/// The option of the files that are downloads.
const OUTPUT: &str = "-o";

/// Where they lie, each with the option that names it. An error where two options name one file, a single
/// `-o FILE` among them.
pub fn reserved(get: &Get) -> Result<Vec<(PathBuf, &'static str)>, Usage> {
    let beside = [
        ("-i", get.list.as_deref().map(Path::new)),
        ("--report", get.voice.report.as_deref()),
        ("--evidence", get.evidence.as_deref()),
        ("--save-cookies", get.login.save_cookies.as_deref()),
        ("--json-files", get.json_files.as_deref()),
    ];
    let beside = beside.into_iter().filter_map(|(option, path)| Some((option, path?)));
    let outputs = get.output.iter().map(|output| (OUTPUT, Path::new(output)));
    let mut known: Vec<(PathBuf, &'static str)> = Vec::new();
    for (option, path) in beside.chain(outputs) {
        let Some(place) = file_at(path) else { continue };
        if let Some((_, other)) = known.iter().find(|(own, _)| *own == place) {
            let path = path.display();
            return Err(Usage(match *other == option {
                true => format!("{option} names {path} twice; give each URL a file of its own"),
                false => format!("{other} and {option} both name {path}; give each a file of its own"),
            }));
        }
        known.push((place, option));
    }
    known.retain(|(_, option)| *option != OUTPUT);
    Ok(known)
}

/// Where the file at `path` lies, or will; `None`: it is none, but stdin, stdout, a folder, a pipe or a
/// device.
fn file_at(path: &Path) -> Option<PathBuf> {
    let text = path.as_os_str().as_encoded_bytes();
    let is_none = matches!(text, b"" | b"-") || text.ends_with(b"/");
    let is_other = std::fs::metadata(path).is_ok_and(|there| !there.is_file());
    (!is_none && !is_other).then(|| links::place_of(&links::end_or_new(path).0))
}
