//! Whom entries are given to, as far as this process may: as rsync has it, only root gives files away, and
//! others set the groups that they are in. What nobody could keep is no failure of each copy.

use rustix::process::{getegid, geteuid, getgroups};

use super::Keep;
use crate::entry::Entry;

/// No user and no group has this number: chown(2) takes it for "as it is".
const AS_IT_IS: u32 = u32::MAX;

/// Whom this process may give files to.
#[derive(Debug)]
pub(super) struct Ownership {
    /// To any user.
    is_root: bool,
    /// To these groups; none where any is tried.
    groups: Option<Vec<u32>>,
}

impl Ownership {
    /// Of this process; where groups are named by somebody, any is tried.
    pub(super) fn of_process(named_groups: bool) -> Ownership {
        let is_root = geteuid().is_root();
        let groups = || {
            let others = getgroups().unwrap_or_default();
            others.into_iter().chain([getegid()]).map(|group| group.as_raw()).collect()
        };
        Ownership { is_root, groups: (!is_root && !named_groups).then(groups) }
    }

    /// The user and the group that an entry is given to, where it does not stay with who makes it.
    pub(super) fn given(&self, entry: &Entry, keep: Keep) -> (Option<u32>, Option<u32>) {
        let may_set = |group: &u32| self.groups.as_ref().is_none_or(|groups| groups.contains(group));
        let user = Some(entry.uid).filter(|user| keep.users && self.is_root && *user != AS_IT_IS);
        let group = Some(entry.gid).filter(|group| keep.groups && may_set(group) && *group != AS_IT_IS);
        (user, group)
    }
}
