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
    fn it_is_never_less_than_before() {
        let before = allowed();
        raise(1).unwrap();
        assert_eq!(allowed(), before);
        raise(u64::MAX).unwrap();
        assert_eq!(allowed(), most());
    }
}
