//! Extended attributes: which are copied, and how they are read and set.
//!
//! As rsync -AX has it: an ordinary user copies `user.*`, root everything but `system.*`, which holds the
//! kernel's own views; and both ACLs, which are the exception there. Their form is the same on all file
//! systems (linux/posix_acl_xattr.h), with users and groups by number.

use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{
    XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, getxattr, lgetxattr, listxattr, llistxattr,
    lremovexattr, lsetxattr, removexattr, setxattr,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::entry::{MAX_XATTR, MAX_XATTRS, Xattr};

/// XATTR_LIST_MAX: no list of names is longer.
const MAX_LIST: usize = 64 << 10;

/// Whose attributes.
pub enum At<'a> {
    /// Of what is open.
    Open(BorrowedFd<'a>),
    /// Of what has this path, a link itself.
    Path(CString),
    /// Of what a descriptor holds that was opened with O_PATH: its name under /proc, which is followed.
    Held(CString),
}

impl<'a> At<'a> {
    /// What `held`, opened with O_PATH, is; a file that this process may not read has attributes too.
    pub fn held(held: BorrowedFd<'_>) -> At<'a> {
        At::Held(CString::new(format!("/proc/self/fd/{}", held.as_raw_fd())).unwrap_or_default())
    }

    /// `base` in an open directory. The calls have no `at` form before Linux 6.13, but the name of a
    /// descriptor under /proc leads to the very directory that is open. An empty `base` is the directory.
    pub fn name(directory: BorrowedFd<'_>, base: &[u8]) -> At<'a> {
        let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
        path.extend_from_slice(if base.is_empty() { b"." } else { base });
        At::Path(CString::new(path).unwrap_or_default())
    }

    fn list(&self, list: &mut [u8]) -> Result<usize, Errno> {
        match self {
            At::Open(file) => flistxattr(file, list),
            At::Path(path) => llistxattr(path, list),
            At::Held(path) => listxattr(path, list),
        }
    }

    fn get(&self, name: &[u8], value: &mut [u8]) -> Result<usize, Errno> {
        match self {
            At::Open(file) => fgetxattr(file, name, value),
            At::Path(path) => lgetxattr(path, name, value),
            At::Held(path) => getxattr(path, name, value),
        }
    }

    /// Sets one attribute, in place of what it was.
    pub fn set(&self, xattr: &Xattr) -> Result<(), Errno> {
        match self {
            At::Open(file) => fsetxattr(file, xattr.name(), xattr.value(), XattrFlags::empty()),
            At::Path(path) => lsetxattr(path, xattr.name(), xattr.value(), XattrFlags::empty()),
            At::Held(path) => setxattr(path, xattr.name(), xattr.value(), XattrFlags::empty()),
        }
    }

    fn remove(&self, name: &[u8]) -> Result<(), Errno> {
        match self {
            At::Open(file) => fremovexattr(file, name),
            At::Path(path) => lremovexattr(path, name),
            At::Held(path) => removexattr(path, name),
        }
    }

    /// The names of those attributes that are `wanted`; none where the file system has none.
    pub fn names(&self, wanted: fn(&[u8]) -> bool) -> Result<Vec<Vec<u8>>, Errno> {
        // Most files have none, and most lists are short: the first guess fits nearly always.
        let mut list = vec![0; 256];
        let length = loop {
            match self.list(&mut list) {
                Err(Errno::RANGE) if list.len() < MAX_LIST => list.resize(MAX_LIST, 0),
                Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
                other => break other?,
            }
        };
        let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty() && wanted(name));
        Ok(names.map(<[u8]>::to_vec).collect())
    }

    /// The attribute called `name`, if there is one.
    pub fn value(&self, name: &[u8]) -> Result<Option<Xattr>, Errno> {
        let mut value = vec![0; 256];
        loop {
            match self.get(name, &mut value) {
                Ok(length) => {
                    value.truncate(length);
                    return Ok(Xattr::new(name, value));
                }
                Err(Errno::RANGE) if value.len() < MAX_XATTR => value.resize(MAX_XATTR, 0),
                Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Is this one copied?
fn copied(name: &[u8]) -> bool {
    name.starts_with(b"user.") || is_acl(name) || geteuid().is_root() && !name.starts_with(b"system.")
}

/// Those that are copied, in order; none where the file system has none, and without those that go away
/// meanwhile. E2BIG: together they are more than an entry takes.
pub(crate) fn read(at: At<'_>) -> Result<Vec<Xattr>, Errno> {
    let mut found = Vec::new();
    let mut total = 0;
    for name in at.names(copied)? {
        let Some(xattr) = at.value(&name)? else { continue };
        total += xattr.weight();
        if total > MAX_XATTRS {
            return Err(Errno::TOOBIG);
        }
        found.push(xattr);
    }
    found.sort_unstable();
    Ok(found)
}

/// An ACL: `-a` keeps it, and no rule of attributes is about it.
pub(crate) fn is_acl(name: &[u8]) -> bool {
    name.starts_with(b"system.posix_acl_")
}

/// Makes the attributes those of `wanted`; what was there before goes but for what is `spared`. What is
/// `fresh` has nothing of before but what a default ACL of its directory gave it. The first error is returned
/// after everything was tried.
pub(crate) fn write(
    at: At<'_>,
    wanted: &[Xattr],
    fresh: bool,
    spared: impl Fn(&[u8]) -> bool,
) -> Result<(), Errno> {
    let mut outcome = Ok(());
    for name in at.names(if fresh { is_acl } else { copied })? {
        // SELinux labels every file by its policy; to take a label away is never allowed.
        let stays = name == b"security.selinux" || wanted.iter().any(|xattr| xattr.name() == name);
        if !stays && !spared(&name) {
            outcome = outcome.and(at.remove(&name));
        }
    }
    for xattr in wanted.iter().filter(|xattr| copied(xattr.name())) {
        outcome = outcome.and(at.set(xattr));
    }
    outcome
}
