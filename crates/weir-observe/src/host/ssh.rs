//! Is there an ssh client?

use std::path::PathBuf;

use rustix::fs::{Access, access};
use weir_model::ability::Finding;

pub(super) fn client() -> Finding {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let candidates = std::env::split_paths(&folders).map(|folder| folder.join("ssh"));
    let runs = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    match candidates.into_iter().find(runs) {
        Some(path) => Finding::ok(path.display().to_string(), "PATH"),
        None => Finding::missing("no program called ssh", "PATH"),
    }
}
