//! The right to make namespaces: as root at once, as an ordinary user through a user namespace, where the
//! system has it.

use std::fs;
use std::io;

use rustix::thread::{CapabilitySet, UnshareFlags, capabilities, unshare_unsafe};

use crate::error::LabError;

/// Where the right comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// This process had it: root, or the capabilities.
    Own,
    /// A user namespace of its own, in which it keeps its user and group.
    UserNamespace,
}

/// Gets the right. To be called before any thread is started, because a process with several cannot change
/// its user namespace. Children run as the same user as ever, without any capability.
pub fn enter() -> Result<Privilege, LabError> {
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN;
    let own = capabilities(None).map_err(LabError::system("cannot read this process's capabilities"))?;
    if own.effective.contains(needed) {
        return Ok(Privilege::Own);
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // SAFETY: NEWUSER changes nothing about file descriptors; it fails in a process with several threads.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.map_err(|source| refused(source.into()))?;
    keep_identity(user, group).map_err(refused)?;
    Ok(Privilege::UserNamespace)
}

/// Maps this user and group to themselves.
fn keep_identity(user: u32, group: u32) -> io::Result<()> {
    // Who may not set groups may map their own (user_namespaces(7)).
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))
}

fn refused(cause: io::Error) -> LabError {
    LabError::Refused { attempt: "cannot make a user namespace".to_owned(), cause, way_out: way_out() }
}

/// What would allow namespaces here.
pub(crate) fn way_out() -> &'static str {
    let reads = |path: &str, value: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
    if reads("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "run as root, or allow it as root: sysctl -w kernel.unprivileged_userns_clone=1"
    } else if reads("/proc/sys/user/max_user_namespaces", "0") {
        "run as root, or allow it as root: sysctl -w user.max_user_namespaces=10000"
    } else if reads("/proc/sys/user/max_net_namespaces", "0") {
        "allow it as root: sysctl -w user.max_net_namespaces=10000"
    } else if reads("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "run as root, or allow it as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    } else {
        "run as root; a container may forbid it by its own rules"
    }
}
