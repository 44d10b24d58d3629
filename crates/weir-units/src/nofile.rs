//! How many files this process may have open, and more of them where that is allowed (getrlimit(2),
//! `RLIMIT_NOFILE`). The soft limit of 1024 is for programs that use select(2); weir does not.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many it may have now; `u64::MAX` where there is no limit.
pub fn allowed() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// How many it may let itself have: the hard limit; `u64::MAX` where there is none.
pub fn most() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// How many of them something may hold open: one of `parts`, `most` at most. Under the smallest limit it is
/// one all the same.
pub fn share(parts: u64, most: usize) -> usize {
    usize::try_from(allowed() / parts).map_or(most, |share| share.clamp(1, most))
}

/// Lets it have `wanted`, or as many as the hard limit allows; never fewer than before. An error where the
/// system refuses, as sandboxes may, and all is as before.
pub fn raise(wanted: u64) -> Result<(), Errno> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = wanted.min(maximum.unwrap_or(u64::MAX));
    match current {
        Some(now) if now < wanted => setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_neither_nothing_nor_too_much() {
        assert_eq!((share(u64::MAX, 8), share(1, 8)), (1, 8));
    }

    #[test]
    fn it_is_never_less_than_before() {
        let before = allowed();
        raise(1).unwrap();
        assert_eq!(allowed(), before);
        raise(u64::MAX).unwrap();
        assert_eq!(allowed(), most());
    }
}
