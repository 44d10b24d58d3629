//! Files that a run writes besides its downloads: a page, a record, evidence. Each is written whole or not at
//! all, an existing one keeps its rights, and another user's link is replaced, not followed.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat, fcntl_setfl};
use weir_get::sink::folder::Target;
use weir_get::sink::home::Home;
use weir_get::sink::{self, beside, links, naming};

/// Says before a run what would keep the file from being written after it. What is there is not touched.
pub fn check(path: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let OutputKind::File(end) = place(path)? else { return Ok(()) };
    let target = Target::open(&end).with_context(cannot)?;
    let may_be_written = accessat(CWD, &end, Access::WRITE_OK, AtFlags::empty());
    if target.folder().is_writable() || may_be_written.is_ok() {
        return Ok(());
    }
    // For its words: permission denied, a file system that is read-only.
    let (passing, file) = beside::create_passing(target.folder(), target.name()).with_context(cannot)?;
    beside::remove(target.folder(), &passing, &file);
    Ok(())
}

/// Writes it, in place of what is there.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    match place(path)? {
        OutputKind::Stream => open_stream(path).and_then(|mut to| to.write_all(bytes)).with_context(cannot),
        OutputKind::File(end) => {
            let target = Target::open(&end).with_context(cannot)?;
            let home = || {
                let failed = |source| sink_error(&end, source);
                Home::of(&target, None).map_err(failed)
            };
            Ok(sink::store_whole(&target, home, bytes, false)?)
        }
    }
}

/// Writes a secret, in place of what is there: nobody else may read it, whoever could read the file before.
pub fn write_private(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    match place(path)? {
        OutputKind::Stream => open_stream(path).and_then(|mut to| to.write_all(bytes)).with_context(cannot),
        OutputKind::File(end) => {
            let target = Target::open(&end).with_context(cannot)?;
            let (passing, mut draft) =
                beside::create_passing(target.folder(), target.name()).with_context(cannot)?;
            let written = draft.write_all(bytes).and_then(|()| naming::swap_in(&draft, &target, &passing));
            written.inspect_err(|_| beside::remove(target.folder(), &passing, &draft)).with_context(cannot)
        }
    }
}

fn sink_error(path: &Path, source: io::Error) -> weir_get::GetError {
    weir_get::GetError::Local { action: "write", path: path.to_owned(), source, kept: None }
}

/// Where the bytes go.
enum OutputKind {
    /// A file, links followed as far as they may be.
    File(PathBuf),
    /// A pipe, a terminal, a device: it takes bytes as it is.
    Stream,
}

fn place(path: &Path) -> anyhow::Result<OutputKind> {
    let (end, is_foreign) = links::end_or_new(path);
    if is_foreign {
        tracing::warn!("{} is a link of another user; it is replaced, not followed", end.display());
        return Ok(OutputKind::File(end));
    }
    match std::fs::metadata(&end) {
        Ok(found) if found.is_dir() => {
            anyhow::bail!("cannot write {}: it is a folder; name a file in it", path.display())
        }
        Ok(found) if !found.is_file() => Ok(OutputKind::Stream),
        Ok(_) => Ok(OutputKind::File(end)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(OutputKind::File(end)),
        Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
    }
}

/// Opens a pipe or device. A pipe that no program reads is an error: the open would block and ignore the
/// first signal.
fn open_stream(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().write(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = file.map_err(|error| match rustix::io::Errno::from_io_error(&error) {
        Some(rustix::io::Errno::NXIO) => {
            io::Error::new(error.kind(), "no program reads this pipe; start one first")
        }
        _ => error,
    })?;
    let kind = file.metadata()?.file_type();
    if !kind.is_fifo() && !kind.is_char_device() {
        return Err(io::Error::other("it is neither a file nor a pipe"));
    }
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}
