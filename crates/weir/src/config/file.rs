//! Where the configuration file lies, and its text.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use weir_report::escape::escape;
use weir_units::plain;

use crate::base_folder;
use crate::voice::Usage;

/// Every flag of every command, explained, is not a quarter of this.
const MOST: u64 = 64 << 10;

/// Names a file in the usual one's place; empty: none.
const VARIABLE: &str = "WEIR_CONFIG";

/// The file's name in weir's folder, and the one of earlier versions, in TOML.
const NAMES: [&str; 2] = ["config", "config.toml"];

/// The file.
#[derive(Debug)]
pub struct ConfigFile {
    path: PathBuf,
    mode: u32,
    /// What stands in it.
    pub text: String,
}

impl ConfigFile {
    /// Its path, for messages.
    pub fn shown(&self) -> String {
        shown(&self.path)
    }

    /// It has the form of earlier versions.
    pub fn is_old(&self) -> bool {
        self.path.extension().is_some_and(|ending| ending == "toml")
    }

    /// Its mode lets its group or everyone read it.
    pub fn others_can_read(&self) -> bool {
        self.mode & 0o044 != 0
    }
}

/// Reads the file that `variable` (the environment) leads to. `None` where there is none, which only the
/// usual place allows.
pub fn find(variable: impl Fn(&str) -> Option<OsString>) -> anyhow::Result<Option<ConfigFile>> {
    let (paths, way_out) = match variable(VARIABLE) {
        Some(path) if path.is_empty() => return Ok(None),
        Some(path) => (vec![PathBuf::from(path)], "name another by"),
        None => match base_folder::config(variable) {
            Some(folder) => (NAMES.map(|name| folder.join(name)).to_vec(), "name none by --no-config or"),
            None => return Ok(None),
        },
    };
    for path in &paths {
        match read(path) {
            Ok(file) => return Ok(Some(file)),
            Err(error) if paths.len() > 1 && is_absent(path, &error) => {}
            Err(error) => {
                let text = format!("cannot read {}: {}; {way_out} {VARIABLE}", shown(path), plain(&error));
                return Err(Usage(text).into());
            }
        }
    }
    Ok(None)
}

/// Not there, or behind a folder that this user may not enter: then it is another user's.
fn is_absent(path: &Path, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => true,
        io::ErrorKind::PermissionDenied => fs::metadata(path).is_err(),
        _ => false,
    }
}

fn read(path: &Path) -> io::Result<ConfigFile> {
    let wrong = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text);
    // Without waiting: a pipe may never have a writer.
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    let found = file.metadata()?;
    // /dev/null is an empty one.
    if !found.is_file() && !found.file_type().is_char_device() {
        return Err(wrong("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(wrong("it is larger than 64 KiB"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        wrong(&format!("line {line} is not UTF-8"))
    })?;
    Ok(ConfigFile { path: path.to_owned(), mode: found.permissions().mode(), text })
}

fn shown(path: &Path) -> String {
    escape(&path.to_string_lossy()).into_owned()
}
