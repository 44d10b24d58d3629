//! The `get` of `weir get --to-hosts`, on the host that fetches: told over the connection by which it was
//! started, and run as a program that has weir as a library runs it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use weir_cp::peer::HandedOver;
use weir_cp::roots;
use weir_fleet::launch::far_command::{CommandEnd, CommandFile, CommandLine, CommandLook, CommandOrder};

use crate::library::{self, Handle};

/// Fetches. Returns the exit code.
pub fn run(handed: HandedOver) -> anyhow::Result<u8> {
    let HandedOver { input, output, .. } = handed;
    let handle: Arc<Handle> = Arc::default();
    let (stops, looks) = (Arc::clone(&handle), Arc::clone(&handle));
    let look = move || {
        let look = looks.news()?;
        let (rate, connections) = (look.rate.max(0.0), look.connections);
        Some(CommandLook { bytes: look.bytes, total: look.total, rate, connections })
    };
    let (writes, folder) = (Arc::clone(&handle), Arc::new(OnceLock::new()));
    let is_folder = Arc::clone(&folder);
    let grows = move || {
        let name = writes.grows_at()?.file_name()?.to_str()?.to_owned();
        Some(CommandFile { name, is_folder: *is_folder.get()? })
    };
    let opened = CommandLine::open(input, output, move || stops.stop(), look, grows);
    let (line, order) = opened.map_err(anyhow::Error::msg)?;
    let end = fetch(&order, &handle, &folder);
    Ok(u8::from(!line.end(end)))
}

/// `folder` is told whether the target is one.
fn fetch(order: &CommandOrder, handle: &Handle, folder: &OnceLock<bool>) -> CommandEnd {
    let failed = |error: String| CommandEnd { code: 1, record: None, error: Some(error), is_folder: false };
    if order.words.first().is_none_or(|word| word != "get") {
        return failed("it was told to do something else than to fetch".to_owned());
    }
    let (output, is_folder) = output(&order.path, order.name.as_deref());
    let _ = folder.set(is_folder);
    let folder = if is_folder && order.name.is_none() { Some(output.as_path()) } else { output.parent() };
    if let Some(folder) = folder.filter(|folder| order.makes_folders && !folder.as_os_str().is_empty())
        && let Err(error) = std::fs::create_dir_all(folder)
    {
        return failed(format!("cannot make the folder {}: {}", folder.display(), weir_units::plain(&error)));
    }
    let mut words: Vec<OsString> = order.words.iter().map(OsString::from).collect();
    // Before what may be a URL that looks like a flag.
    let mut given = OsString::from("--output=");
    given.push(&output);
    words.insert(1, given);
    let ended = library::run(&words, None, handle);
    CommandEnd { code: ended.code, record: ended.record, error: ended.error, is_folder }
}

/// What `-o` is, where the target was written as `path`, and whether that is a folder: as `cp` has it, one
/// that is there, or that is written with `/` at its end; also where the file has a name of its own.
fn output(path: &str, name: Option<&str>) -> (PathBuf, bool) {
    let place = roots::expand(path.as_bytes());
    let ends_so = place.as_os_str().as_bytes().ends_with(b"/") || path.is_empty();
    let is_folder = ends_so || name.is_some() || place.is_dir();
    match name {
        Some(name) => (place.join(name), true),
        None if is_folder => (place.join(""), true),
        // A dash alone is stdout.
        None => (Path::new("./").join(place), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders() {
        for (path, name, place, is_folder) in [
            ("", None, "./", true),
            ("data/", None, "data/", true),
            ("data", None, "./data", false),
            ("-", None, "./-", false),
            ("/data/x", None, "/data/x", false),
            ("data", Some("x"), "data/x", true),
            ("", Some("x"), "./x", true),
            ("/", None, "/", true),
        ] {
            let (output, folder) = output(path, name);
            assert_eq!((output.to_str().unwrap(), folder), (place, is_folder), "{path} {name:?}");
        }
    }
}
