//! Writes a verified file's bytes into an existing file, where no new file can take its name: the file has
//! several names that must stay names of one file, it is a mount point, or its folder cannot be written.
//!
//! Readers see the file change, and an error half way leaves both contents mixed. So the whole download is
//! verified first and stays where it is until the last byte is written, and an error says what the file now
//! holds.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{
    FallocateFlags, FileType, Mode, OFlags, Stat, copy_file_range, fallocate, fchmod, fcntl_setfl, fstat,
    fstatfs, openat,
};
use rustix::io::Errno;
use weir_units::{Bytes, atomic_file};

use super::folder::{Folder, Target, is_same, kind};

/// Bytes copied at a time: large enough that the calls cost nothing beside the bytes.
const COPIED: usize = 1 << 20;

/// `OVERLAYFS_SUPER_MAGIC` (statfs.2).
const OVERLAYFS: u64 = 0x794c_7630;

/// Whether the file may be written through its name in `folder`. Where others may put names, a hard link may
/// be bait and another user's file is theirs.
pub(crate) fn is_safe(old: &Stat, folder: &Folder) -> bool {
    !folder.is_shared() || old.st_nlink == 1 && folder.is_ours(old.st_uid)
}

/// Opens `target`, which is `old`, to write it. Nothing is changed yet.
pub fn open(target: &Target, old: &Stat) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let to = match openat(target.folder(), target.name(), flags, Mode::empty()) {
        Err(Errno::NOENT) => return Err(io::Error::other("it was removed")),
        opened => opened?,
    };
    let there = fstat(&to)?;
    let is_it = is_same(&there, old) || is_copied_up(&to, &there, target, old)?;
    if !is_it || kind(&there) != FileType::RegularFile || !is_safe(&there, target.folder()) {
        return Err(io::Error::other("it was replaced by another file"));
    }
    fcntl_setfl(&to, OFlags::WRONLY)?;
    Ok(to.into())
}

/// Whether it is `old` all the same, on an overlay: opening a file of a lower layer for writing copies it up,
/// and the copy of one with several names has an inode of its own.
fn is_copied_up(to: &OwnedFd, there: &Stat, target: &Target, old: &Stat) -> io::Result<bool> {
    let is_overlay = fstatfs(to).is_ok_and(|system| system.f_type as u64 == OVERLAYFS);
    let facts = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    let has_its_facts = is_overlay && facts(there) == facts(old);
    Ok(has_its_facts && target.look()?.is_some_and(|named| is_same(&named, there)))
}

/// Says of an error that the target was not touched.
pub fn unchanged(error: &io::Error, kept: &Path) -> io::Error {
    with(error, &format!("nothing was written there, and the complete download is {}", kept.display()))
}

/// Writes all of `from`, whose path is `kept`, into `to`.
pub fn write(from: &File, kept: &Path, to: &File, sync: bool) -> io::Result<()> {
    let there = fstat(to)?;
    let size = from.metadata()?.len();
    // Notice a full disk before the first byte is overwritten. File systems without fallocate report it
    // during the copy.
    if let Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) =
        fallocate(to, FallocateFlags::KEEP_SIZE, 0, size.max(1))
    {
        return Err(unchanged(&errno.into(), kept));
    }
    if there.st_mode & 0o6000 != 0 {
        // As the kernel does when someone other than root writes a file.
        let _ = fchmod(to, Mode::from_raw_mode(there.st_mode & 0o777));
    }
    let mixed = |(done, error): (u64, io::Error)| {
        let [done, size] = [done, size].map(Bytes);
        let text = format!(
            "it now holds {done} of the {size} of the new content, then the old; the complete download is {}",
            kept.display()
        );
        with(&error, &text)
    };
    copy(from, to, size).map_err(mixed)?;
    to.set_len(size).map_err(|error| mixed((size, error)))?;
    atomic_file::settled(to, sync).map_err(|error| mixed((size, error)))?;
    Ok(())
}

/// Copies the first `size` bytes. An error comes with how many were copied before.
pub fn copy(from: &File, to: &File, size: u64) -> Result<(), (u64, io::Error)> {
    copy_while(from, to, size, &|| true)
}

/// The same for as long as `go_on` says so.
pub(crate) fn copy_while(
    from: &File,
    to: &File,
    size: u64,
    go_on: &dyn Fn() -> bool,
) -> Result<(), (u64, io::Error)> {
    let (mut read, mut written) = (0, 0);
    while written < size {
        if !go_on() {
            return Err((written, io::ErrorKind::Interrupted.into()));
        }
        let wanted = usize::try_from(size - written).unwrap_or(usize::MAX).min(COPIED);
        match copy_file_range(from, Some(&mut read), to, Some(&mut written), wanted) {
            Ok(0) => return Err((written, io::ErrorKind::UnexpectedEof.into())),
            Ok(_) | Err(Errno::INTR) => {}
            // Two file systems that have nothing in common, or one that does not know the call.
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::IO) => {
                let mut bytes = vec![0; wanted];
                from.read_exact_at(&mut bytes, written).map_err(|error| (written, error))?;
                to.write_all_at(&bytes, written).map_err(|error| (written, error))?;
                written += wanted as u64;
                read = written;
            }
            Err(errno) => return Err((written, errno.into())),
        }
    }
    Ok(())
}

fn with(error: &io::Error, text: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{}; {text}", weir_units::plain(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_and_a_shorter_file_are_written_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (part, path) = (dir.path().join("part"), dir.path().join("x"));
        let target = Target::open(&path).unwrap();
        for (old, new) in [("", "something"), ("longer than that", "short"), ("same", "size"), ("all", "")] {
            std::fs::write(&path, old).unwrap();
            std::fs::write(&part, new).unwrap();
            let stat = target.look().unwrap().unwrap();
            let to = open(&target, &stat).unwrap();
            write(&File::open(&part).unwrap(), &part, &to, true).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), new);
        }
    }

    #[test]
    fn what_was_replaced_or_removed_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, "old").unwrap();
        std::fs::write(dir.path().join("other"), "").unwrap();
        let target = Target::open(&path).unwrap();
        let stat = target.look().unwrap().unwrap();
        std::fs::rename(dir.path().join("other"), &path).unwrap();
        let told = || unchanged(&open(&target, &stat).unwrap_err(), Path::new("part")).to_string();
        let rest = "nothing was written there, and the complete download is part";
        assert_eq!(told(), format!("it was replaced by another file; {rest}"));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(told(), format!("it was removed; {rest}"));
    }
}
