//! What a file keeps of the one it replaces, and what a new one gets: mode, owner, ACL, extended attributes.
//!
//! A download replaces the content of a file, not its rights. Never kept: set-user-id, set-group-id, file
//! capabilities, and signatures of the old content (`security.ima`, `security.evm`), which were given to the
//! old bytes. In a folder that everyone may write, another user's file grants nothing: anyone can have put it
//! there, with any mode.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{
    FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, fchmod, fchown, fremovexattr,
    fstat, futimens, openat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use weir_tree::entry::Xattr;
use weir_tree::xattr::At;

use super::beside;
use super::folder::{Target, is_same, kind};

/// The rights of named users and groups, as the kernel keeps them.
pub const ACL: &[u8] = b"system.posix_acl_access";

/// What files get that are made in a folder.
const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

/// Read and write: what open(2) is asked for a new file, before the umask or the folder's default ACL.
const NEW: u32 = 0o666;

/// Permissions without set-user-id and its kin.
const RIGHTS: u32 = 0o777;

/// Until a file is complete, for its owner alone.
const PRIVATE: u32 = 0o600;

/// What a file that replaces none gets beside its bytes, before it has its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewFile {
    /// Who may read, write and run it, before the umask or the folder's default ACL.
    pub mode: u32,
    /// When its bytes were last changed, in seconds since 1970 and nanoseconds of the last one; `None`: now.
    pub modified: Option<(i64, i64)>,
}

impl Default for NewFile {
    fn default() -> NewFile {
        NewFile { mode: NEW, modified: None }
    }
}

impl NewFile {
    /// Gives `file` its time, where its file system takes one.
    pub(super) fn give_time(&self, file: &File) {
        let Some((tv_sec, tv_nsec)) = self.modified else { return };
        let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let times = Timestamps { last_access: omitted, last_modification: Timespec { tv_sec, tv_nsec } };
        if let Err(errno) = futimens(file, &times) {
            tracing::debug!("a new file does not take its time: {errno}");
        }
    }
}

/// Gives `file`, which is about to be called `target`, the rights of `old`, the file that has this name now,
/// or those of a new file. Rights that cannot be kept are dropped, never widened.
pub fn give(file: &File, target: &Target, old: Option<&Stat>) -> io::Result<()> {
    let Some(old) = old.filter(|old| kind(old) == FileType::RegularFile) else {
        return give_new(file, target, &NewFile::default());
    };
    let shown = target.path().display();
    let folder = target.folder();
    let is_foreign = folder.is_open_to_all() && !folder.is_ours(old.st_uid);
    // Anyone may link a world-writable file of ours here, to make the new file world-writable too.
    if is_foreign || old.st_nlink > 1 && folder.is_shared() {
        give_new(file, target, &NewFile::default())?;
        let mode = fstat(file)?.st_mode & old.st_mode & RIGHTS;
        if is_foreign {
            tracing::warn!("{shown} belongs to another user; the new file is yours, with mode {mode:03o}");
        }
        return set_mode(file, mode);
    }
    // Its attributes are read from what is held open: of a name somebody else's could be.
    let held = openat(
        target.folder(),
        target.name(),
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .and_then(|held| fstat(&held).map(|stat| (held, stat)));
    let Some((held, _)) = held.ok().filter(|(_, stat)| is_same(stat, old) && stat.st_uid == old.st_uid)
    else {
        return set_mode(file, PRIVATE & old.st_mode);
    };
    // 1. The owner: chown(2) takes capabilities away, and only an owner's wish is left after it.
    give_owner(file, old)?;
    let now = fstat(file)?;
    let same_group = now.st_gid == old.st_gid;
    if now.st_uid != old.st_uid {
        tracing::info!("{shown} belonged to another user and is now yours");
    }
    // 2. Extended attributes, while the mode lets its owner write.
    give_xattrs(file, &At::held(held.as_fd()), target);
    // 3. The ACL, which sets the mode too, or the mode alone.
    let read = At::held(held.as_fd()).value(ACL);
    // With an ACL, the mode's group bits are its mask. If the ACL cannot be read, do not give them to the
    // group.
    let is_known =
        read.as_ref().is_ok_and(|acl| acl.as_ref().is_none_or(|it| Acl::parse(it.value()).is_some()));
    let mut acl = read.ok().flatten().and_then(|acl| Acl::parse(acl.value()));
    let mut mode = old.st_mode & RIGHTS;
    if !is_known {
        mode = without_group(mode);
    }
    if !same_group {
        mode = without_group(mode);
        acl = acl.map(Acl::without_group);
        tracing::warn!("{shown}: its group cannot be kept, so its group's rights are not");
    }
    if old.st_mode & 0o6000 != 0 {
        tracing::warn!("{shown} was set-user-id or set-group-id; the new content is not");
    }
    give_mode(file, mode, acl)
}

/// Takes back what [`give`] gave: the file stays what it was, a part.
pub(crate) fn take_back(file: &File) {
    let _ = fchown(file, Some(geteuid()), None);
    let _ = fremovexattr(file, ACL);
    let _ = fchmod(file, Mode::from_raw_mode(PRIVATE));
    beside::mark(file);
}

/// As if open(2) had made it in the folder.
pub(super) fn give_new(file: &File, target: &Target, new: &NewFile) -> io::Result<()> {
    new.give_time(file);
    let folder = target.folder();
    let around = fstat(folder)?;
    // A folder's set-group-id bit gives its files its group; a part that grew elsewhere does not have it yet.
    if around.st_mode & 0o2000 != 0 && fstat(file)?.st_gid != around.st_gid {
        let _ = fchown(file, None, Some(Gid::from_raw(around.st_gid)));
    }
    let default = At::held(folder.as_fd()).value(DEFAULT_ACL).ok().flatten();
    match default.and_then(|acl| Acl::parse(acl.value())) {
        Some(acl) => {
            let acl = acl.masked(new.mode);
            give_mode(file, acl.mode(), Some(acl))
        }
        None => give_mode(file, new.mode & !weir_tree::umask(), None),
    }
}

fn give_mode(file: &File, mode: u32, acl: Option<Acl>) -> io::Result<()> {
    if let Some(acl) = acl.as_ref().filter(|acl| acl.names_somebody())
        && let Some(xattr) = Xattr::new(ACL, acl.to_bytes())
        && At::Open(file.as_fd()).set(&xattr).is_ok()
    {
        return Ok(());
    }
    // Without an ACL the group's bits are the group's own, no longer those of all who are named.
    let mode = acl.map_or(mode, |acl| mode & !0o070 | acl.group() << 3);
    // One that it has from its folder would let in others.
    let own = At::Open(file.as_fd());
    if fremovexattr(file, ACL).is_err_and(|errno| errno != Errno::NODATA)
        && own.value(ACL).is_ok_and(|acl| acl.is_some())
    {
        return Err(io::Error::other("its folder's ACL cannot be taken off it"));
    }
    set_mode(file, mode)
}

/// FAT has one mode for all files and refuses another. A refusal never widens: the file was created private.
fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    match fchmod(file, Mode::from_raw_mode(mode)) {
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => Ok(other?),
    }
}

fn give_owner(file: &File, old: &Stat) -> io::Result<()> {
    let now = fstat(file)?;
    let user = (now.st_uid != old.st_uid).then(|| Uid::from_raw(old.st_uid));
    let group = (now.st_gid != old.st_gid).then(|| Gid::from_raw(old.st_gid));
    // Only root gives files away; others may still give them to a group of theirs.
    if (user.is_some() || group.is_some()) && fchown(file, user, group).is_err() && user.is_some() {
        let _ = fchown(file, None, group);
    }
    Ok(())
}

fn give_xattrs(file: &File, from: &At<'_>, target: &Target) {
    let mut lost = None;
    for name in from.names(is_kept).unwrap_or_default() {
        let set =
            from.value(&name).and_then(|found| found.map_or(Ok(()), |it| At::Open(file.as_fd()).set(&it)));
        // The system's own are set where it lets them be.
        if let Err(errno) = set
            && name.starts_with(b"user.")
        {
            lost = Some((name, errno));
        }
    }
    if let Some((name, errno)) = lost {
        let name = String::from_utf8_lossy(&name).escape_debug().to_string();
        let why = weir_units::plain(&errno.into());
        tracing::warn!("{}: its attribute {name} cannot be kept: {why}", target.path().display());
    }
}

fn is_kept(name: &[u8]) -> bool {
    const OF_THE_CONTENT: [&[u8]; 3] = [b"security.capability", b"security.ima", b"security.evm"];
    let known = [&b"user."[..], b"security.", b"trusted."].iter().any(|kind| name.starts_with(kind));
    known && !OF_THE_CONTENT.contains(&name) && name != beside::MARK.as_bytes()
}

/// The mode for a file whose group changes: the new group gets what everyone had. Members of the old group
/// now count as everyone, so everyone gets no more than that group had.
fn without_group(mode: u32) -> u32 {
    let both = mode >> 3 & mode & 0o7;
    mode & 0o700 | both << 3 | both
}

/// An ACL as an extended attribute holds it: a version, then tag, permissions and id of each entry, in order
/// of the tags (include/uapi/linux/posix_acl_xattr.h).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Acl(Vec<(u16, u16, u32)>);

impl Acl {
    const VERSION: u32 = 2;
    const USER_OBJ: u16 = 0x01;
    const USER: u16 = 0x02;
    const GROUP_OBJ: u16 = 0x04;
    const GROUP: u16 = 0x08;
    const MASK: u16 = 0x10;
    const OTHER: u16 = 0x20;

    fn parse(bytes: &[u8]) -> Option<Acl> {
        let (version, entries) = bytes.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*version) != Acl::VERSION {
            return None;
        }
        let (entries, []) = entries.as_chunks::<8>() else { return None };
        let entry = |[t0, t1, p0, p1, id @ ..]: &[u8; 8]| {
            (u16::from_le_bytes([*t0, *t1]), u16::from_le_bytes([*p0, *p1]), u32::from_le_bytes(*id))
        };
        Some(Acl(entries.iter().map(entry).collect()))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Acl::VERSION.to_le_bytes().to_vec();
        for (tag, rights, id) in &self.0 {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&rights.to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        bytes
    }

    fn rights(&self, tag: u16) -> Option<u32> {
        self.0.iter().find(|entry| entry.0 == tag).map(|entry| u32::from(entry.1) & 0o7)
    }

    /// What the file's group may do.
    fn group(&self) -> u32 {
        let mask = self.rights(Acl::MASK).unwrap_or(0o7);
        self.rights(Acl::GROUP_OBJ).unwrap_or(0) & mask
    }

    /// The mode that stat(2) shows with it.
    fn mode(&self) -> u32 {
        let group = self.rights(Acl::MASK).or(self.rights(Acl::GROUP_OBJ));
        let [user, other] = [Acl::USER_OBJ, Acl::OTHER].map(|tag| self.rights(tag).unwrap_or(0));
        user << 6 | group.unwrap_or(0) << 3 | other
    }

    /// It says more than a mode can.
    fn names_somebody(&self) -> bool {
        self.0.iter().any(|entry| matches!(entry.0, Acl::USER | Acl::GROUP))
    }

    /// As it is for a file that is made with `mode` (acl(5), OBJECT CREATION AND DEFAULT ACLs).
    fn masked(mut self, mode: u32) -> Acl {
        let has_mask = self.rights(Acl::MASK).is_some();
        for (tag, rights, _) in &mut self.0 {
            match *tag {
                Acl::USER_OBJ => *rights &= (mode >> 6 & 0o7) as u16,
                Acl::MASK => *rights &= (mode >> 3 & 0o7) as u16,
                Acl::GROUP_OBJ if !has_mask => *rights &= (mode >> 3 & 0o7) as u16,
                Acl::OTHER => *rights &= (mode & 0o7) as u16,
                _ => {}
            }
        }
        self
    }

    /// For another group than the file's own was: see [`without_group`].
    fn without_group(mut self) -> Acl {
        let both = self.rights(Acl::GROUP_OBJ).unwrap_or(0) & self.rights(Acl::OTHER).unwrap_or(0);
        for (tag, rights, _) in &mut self.0 {
            if matches!(*tag, Acl::GROUP_OBJ | Acl::OTHER) {
                *rights = both as u16;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_group_gets_what_everyone_has_and_no_more() {
        for (mode, narrowed) in
            [(0o640, 0o600), (0o644, 0o644), (0o664, 0o644), (0o604, 0o600), (0o666, 0o666), (0o750, 0o700)]
        {
            assert_eq!(without_group(mode), narrowed, "{mode:o}");
        }
    }

    #[test]
    fn an_acl_is_what_setfacl_writes() {
        // setfacl -m u:1000:rw on a file of mode 640.
        let bytes = [
            &[2, 0, 0, 0][..],
            &[1, 0, 6, 0, 255, 255, 255, 255],
            &[2, 0, 6, 0, 232, 3, 0, 0],
            &[4, 0, 4, 0, 255, 255, 255, 255],
            &[16, 0, 6, 0, 255, 255, 255, 255],
            &[32, 0, 0, 0, 255, 255, 255, 255],
        ]
        .concat();
        let acl = Acl::parse(&bytes).unwrap();
        assert_eq!((acl.mode(), acl.group()), (0o660, 0o4));
        assert!(acl.names_somebody());
        assert_eq!(acl.to_bytes(), bytes);
        assert_eq!(acl.clone().without_group().group(), 0);
        assert_eq!(acl.masked(0o600).mode(), 0o600);
        for bad in [&bytes[..3], &bytes[..7], &[1, 0, 0, 0]] {
            assert!(Acl::parse(bad).is_none());
        }
    }
}
