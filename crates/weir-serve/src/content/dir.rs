//! What does a path below a served directory name? How it is kept there is [`beneath`](super::beneath)'s.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, OFlags, Stat, fstat, fstatfs, statat};
use rustix::io::Errno;
use weir_http::filename::KEPT;
use weir_http::request_target::Path as Target;

use super::beneath::{Beneath, PATH_ONLY, READ};
use super::{Entry, File, Item, Resolve, http_time, media_type, sort};
use crate::ServeError;
use crate::source::Source;

/// An open directory.
pub(crate) struct Dir(Beneath);

impl Dir {
    pub(crate) fn open(root: &Path, follow_links: bool) -> rustix::io::Result<Dir> {
        Beneath::open(root, follow_links).map(Dir)
    }

    /// What is there. A FIFO or a device is looked at, never opened: opening some devices has effects.
    fn look(&self, path: &[u8]) -> rustix::io::Result<Stat> {
        fstat(self.0.open_path(path, PATH_ONLY)?)
    }

    fn look_up(&self, target: &Target) -> rustix::io::Result<Entry> {
        let stat = self.look(&target.bytes)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if target.slash || self.is_kept(&target.bytes, &stat) => Ok(Entry::Absent),
            FileType::RegularFile => self.file(&target.bytes),
            FileType::Directory if !target.slash => Ok(Entry::Slashless),
            FileType::Directory => self.directory(&target.bytes),
            _ => Ok(Entry::Absent),
        }
    }

    /// A regular file; anything else is [`Entry::Absent`].
    fn file(&self, path: &[u8]) -> rustix::io::Result<Entry> {
        let file = self.0.open_path(path, READ)?;
        let mut stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(Entry::Absent);
        }
        if stat.st_size == 0 && rustix::io::pread(&file, &mut [0u8], 0)? > 0 {
            // Written to just now, or made as it is read (/proc, some of FUSE).
            stat = fstat(&file)?;
            if stat.st_size == 0 {
                return Ok(Entry::Failed(io::Error::other("the file has bytes, and says it has none")));
            }
        }
        Ok(Entry::File(File {
            len: stat.st_size as u64,
            modified: http_time(stat.st_mtime),
            date_proves: stat.st_ctime <= stat.st_mtime,
            tag: entity_tag(&stat),
            media_type: media_type::of(path),
            source: Source::file(file, path, stat),
        }))
    }

    /// Its `index.html`, or what it holds where there is none. One that cannot be opened is not passed over:
    /// whoever put it there does not want the directory to be seen.
    fn directory(&self, path: &[u8]) -> rustix::io::Result<Entry> {
        let index = join(path, b"index.html");
        match self.look(&index).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::RegularFile) => self.file(&index),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => Ok(Entry::Folder),
            Err(err) => Err(err),
        }
    }

    fn items(&self, path: &[u8]) -> rustix::io::Result<Vec<Item>> {
        let directory = self.0.open_path(path, READ | OFlags::DIRECTORY)?;
        let mut items = Vec::new();
        for entry in rustix::fs::Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            // An entry that vanished, or a link that leads out, is not shown, as it would not be served.
            items.extend(self.describe(&directory, path, name));
        }
        sort(&mut items);
        Ok(items)
    }

    fn describe(&self, directory: &OwnedFd, path: &[u8], name: &[u8]) -> Option<Item> {
        let mut stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            stat = self.look(&join(path, name)).ok()?;
        }
        let is_directory = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => true,
            FileType::RegularFile => false,
            _ => return None,
        };
        if !is_directory && self.is_kept(&join(path, name), &stat) {
            return None;
        }
        let size = if is_directory { 0 } else { stat.st_size as u64 };
        Some(Item { name: name.to_vec(), is_directory, size, modified: http_time(stat.st_mtime) })
    }

    /// Whether something has this name, or may have: it could not be looked at.
    fn lies_there(&self, path: &[u8]) -> bool {
        !matches!(self.look(path), Err(Errno::NOENT))
    }

    /// Whether a file is what weir keeps beside one that grows: bytes that may have holes, or a journal. They
    /// are nobody's but the run's that writes them.
    ///
    /// A name that ends so may be somebody's own. weir's are for their owner alone, and where a file system
    /// keeps no modes, part and journal lie beside each other, or the part that no journal is for has four
    /// digits in its name. File systems without case would give them out under other names too.
    fn is_kept(&self, path: &[u8], stat: &Stat) -> bool {
        let [part, journal, draft] = KEPT;
        let is_passing = |whole: &[u8]| {
            let end = whole.last_chunk::<5>();
            end.is_some_and(|end| end[0] == b'.' && end[1..].iter().all(u8::is_ascii_hexdigit))
        };
        if before(path, COPIED).is_some() {
            return true;
        }
        let of_part = before(path, part).map(|whole| (whole, journal));
        let of_journal = || before(path, journal).or_else(|| before(path, draft));
        let Some((whole, other)) = of_part.or_else(|| Some((of_journal()?, part))) else { return false };
        stat.st_mode & 0o777 == PRIVATE
            || self.lies_there(&[whole, other.as_bytes()].concat())
            || other == journal && is_passing(whole) && self.keeps_no_modes(path)
    }

    fn keeps_no_modes(&self, path: &[u8]) -> bool {
        // By linux/magic.h, and the sources of exfat, ntfs3, cifs and vboxsf. The last three keep modes where
        // what is behind them does.
        const WITHOUT: [u64; 8] = [
            0x4d44,      // FAT
            0x2011_bab0, // exFAT
            0x7366_746e, // NTFS
            0xff53_4d42, // CIFS
            0xfe53_4d42, // SMB2
            0x6573_5546, // FUSE, such as ntfs-3g
            0x0102_1997, // 9p
            0x786f_4256, // vboxsf
        ];
        let system = self.0.open_path(path, PATH_ONLY).and_then(fstatfs);
        system.is_ok_and(|system| WITHOUT.contains(&(system.f_type as u64 & 0xffff_ffff)))
    }
}

impl Resolve for Dir {
    fn resolve(&self, target: &Target) -> Entry {
        self.look_up(target).unwrap_or_else(refused)
    }

    fn list(&self, target: &Target) -> Entry {
        self.items(&target.bytes).map_or_else(refused, Entry::Listing)
    }

    fn reopen(&self) -> Result<(), ServeError> {
        let failed = |err: Errno| ServeError::Root { path: self.0.path().to_owned(), source: err.into() };
        self.0.reopen().map_err(failed)
    }
}

/// What `weir cp` keeps beside a file that grows; it gives such names to nothing else.
const COPIED: &str = ".weir-part";

/// The mode of what weir keeps.
const PRIVATE: u32 = 0o600;

/// What stands before the ending of a path, in any case of its letters.
fn before<'a>(path: &'a [u8], ending: &str) -> Option<&'a [u8]> {
    let at = path.len().checked_sub(ending.len())?;
    path[at..].eq_ignore_ascii_case(ending.as_bytes()).then_some(&path[..at])
}

fn refused(err: Errno) -> Entry {
    match err {
        // ELOOP and EXDEV are the two refusals of a link; ENXIO is a socket.
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL => Entry::Absent,
        Errno::LOOP | Errno::XDEV | Errno::NXIO => Entry::Absent,
        Errno::ACCESS | Errno::PERM => Entry::Forbidden,
        other => Entry::Failed(other.into()),
    }
}

/// Strong: every write moves the time of the last status change, which can only be set along with the
/// system's clock. The date alone can be put back, as by `cp -p` over the file. Without the inode, a file
/// that was replaced by one of the same size and dates would keep its tag.
fn entity_tag(stat: &Stat) -> String {
    let Stat { st_ino, st_size, st_mtime, st_mtime_nsec, st_ctime, st_ctime_nsec, .. } = stat;
    format!("\"{st_ino:x}-{st_size:x}-{st_mtime:x}.{st_mtime_nsec:x}-{st_ctime:x}.{st_ctime_nsec:x}\"")
}

fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, PermissionsExt};

    use rustix::fs::{CWD, Mode};
    use weir_http::request_target::{self, RequestTarget};

    use super::super::trees;
    use super::*;

    /// root/{plain, sub/inner, in -> sub/inner, out -> ../secret, up -> .., fifo} beside secret.
    fn tree() -> (tempfile::TempDir, Dir) {
        let (outer, root) = trees::with_links();
        rustix::fs::mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let dir = Dir::open(&root, false).unwrap();
        (outer, dir)
    }

    fn kind(dir: &Dir, raw: &str) -> &'static str {
        let target = match request_target::parse(raw) {
            Some(RequestTarget::Path(target)) => target,
            _ => None,
        };
        match target.map(|target| dir.resolve(&target)) {
            Some(Entry::File(_)) => "file",
            Some(Entry::Folder) => "folder",
            Some(Entry::Slashless) => "slashless",
            Some(Entry::Absent) | None => "absent",
            Some(other) => panic!("{raw}: {other:?}"),
        }
    }

    /// Whether it comes true within some ticks of the clock of the file system.
    fn wait_until(holds: impl Fn() -> bool) -> bool {
        let begun = std::time::Instant::now();
        std::iter::repeat_with(holds).take_while(|_| begun.elapsed().as_secs() < 5).any(|held| held)
    }

    fn names(dir: &Dir) -> Vec<String> {
        let items = dir.items(b"").unwrap();
        items.into_iter().map(|item| String::from_utf8(item.name).unwrap()).collect()
    }

    #[test]
    fn paths_stay_beneath_the_root() {
        let (_outer, dir) = tree();
        for (raw, expected) in [
            ("/", "folder"),
            ("/plain", "file"),
            ("/plain/", "absent"),
            ("/plain/x", "absent"),
            ("/sub", "slashless"),
            ("/sub/", "folder"),
            ("/sub/inner", "file"),
            ("/in", "file"),
            ("/out", "absent"),
            ("/up/secret", "absent"),
            ("/up/", "absent"),
            ("/fifo", "absent"),
            ("/none", "absent"),
        ] {
            assert_eq!(kind(&dir, raw), expected, "{raw}");
        }
    }

    #[test]
    fn a_listing_shows_what_would_be_served() {
        let (_outer, dir) = tree();
        assert_eq!(names(&dir), ["sub", "in", "plain"]);
    }

    #[test]
    fn only_what_weir_keeps_is_hidden() {
        let outer = tempfile::tempdir().unwrap();
        let write = |name: &str, mode| {
            let path = outer.path().join(name);
            std::fs::write(&path, name).unwrap();
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        };
        for name in ["a.part", "b.weir", "c.weir~", ".part", "d.PART", "e.part", "e", "f.WEIR"] {
            write(name, 0o644);
        }
        for name in ["g.part", "g.weir", "h.Part", "i.weir~", "m.1a2b.part"] {
            write(name, 0o600);
        }
        // Where a file system keeps no modes.
        for name in ["j.part", "j.weir", "j.weir~", ".k.weir-part"] {
            write(name, 0o644);
        }
        // A part of an archive.
        write("n.0001.part", 0o644);
        std::fs::create_dir(outer.path().join("l.part")).unwrap();
        let dir = Dir::open(outer.path(), false).unwrap();
        let shown =
            [".part", "a.part", "b.weir", "c.weir~", "d.PART", "e", "e.part", "f.WEIR", "n.0001.part"];
        assert_eq!(names(&dir), [&["l.part"][..], &shown].concat());
        for name in shown {
            assert_eq!(kind(&dir, &format!("/{name}")), "file", "{name}");
        }
        assert_eq!((kind(&dir, "/l.part"), kind(&dir, "/l.part/")), ("slashless", "folder"));
        let kept = ["j.part", "j.weir", "j.weir~", ".k.weir-part", "m.1a2b.part"];
        for name in [&["g.part", "g.weir", "h.Part", "i.weir~"][..], &kept].concat() {
            assert_eq!(kind(&dir, &format!("/{name}")), "absent", "{name}");
        }
    }

    #[test]
    fn a_tag_changes_with_the_file() {
        let (outer, dir) = tree();
        let tag = |dir: &Dir| match dir.file(b"plain").unwrap() {
            Entry::File(file) => file.tag,
            other => panic!("{other:?}"),
        };
        let before = tag(&dir);
        assert_eq!(before, tag(&dir));
        std::fs::write(outer.path().join("root/plain"), "longer than before").unwrap();
        let longer = tag(&dir);
        assert_ne!(before, longer);
        // Another file of its size and date in its place.
        let (path, other) = (outer.path().join("root/plain"), outer.path().join("root/other"));
        std::fs::write(&other, "LONGER THAN BEFORE").unwrap();
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        std::fs::File::options().write(true).open(&other).unwrap().set_modified(modified).unwrap();
        std::fs::rename(&other, &path).unwrap();
        let replaced = tag(&dir);
        assert_ne!(longer, replaced);
        // Other bytes in the file itself, and its date put back.
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        assert!(
            wait_until(|| {
                file.write_at(b"longer THAN before", 0).unwrap();
                file.set_modified(modified).unwrap();
                tag(&dir) != replaced
            }),
            "the tag stays"
        );
    }
}
