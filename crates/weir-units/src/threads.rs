//! Starting threads, which the system may refuse (pthread_create(3)): every thread is started here, or its
//! refusal is reported in the words below.

use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use rustix::process::{Resource, getrlimit};

use crate::plain;

/// Starts a thread of this name; the error says what helps.
pub fn start<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(work).map_err(refused)
}

/// The same within a scope.
pub fn start_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().name(name.to_owned()).spawn_scoped(scope, work).map_err(refused)
}

/// Starts a thread of this name for each of `works` within a scope. All begin together, and none where the
/// system refuses one: those that were started then end with `None`.
pub fn start_all<'scope, T: Send + 'scope, W: FnOnce() -> T + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    works: impl IntoIterator<Item = W>,
) -> io::Result<Vec<ScopedJoinHandle<'scope, Option<T>>>> {
    let begin = Arc::new(OnceLock::<bool>::new());
    let start = |work: W| {
        let begin = Arc::clone(&begin);
        start_scoped(scope, name, move || (*begin.wait()).then(work))
    };
    let started: io::Result<Vec<_>> = works.into_iter().map(start).collect();
    let _ = begin.set(started.is_ok());
    started
}

/// The system's refusal of a thread, in [`words`].
pub fn refused(cause: io::Error) -> io::Error {
    io::Error::new(cause.kind(), words(&cause))
}

/// `cannot start a thread: resource temporarily unavailable`, and the limits that may be the cause: the error
/// is the same for too many processes and for a stack that does not fit into memory.
pub fn words(cause: &io::Error) -> String {
    let memory = match getrlimit(Resource::As).current {
        Some(_) => ", or that of memory (ulimit -v)",
        None => "",
    };
    format!(
        "cannot start a thread: {}; raise the limit of processes (ulimit -u, or pids.max of the control group){memory}",
        plain(cause)
    )
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;
    use rustix::process::{Rlimit, setrlimit};

    use super::*;

    #[test]
    fn the_limits_that_may_be_meant_are_named() {
        // Far above what this process uses, so that nothing else runs into the limit.
        let most = getrlimit(Resource::As).maximum;
        setrlimit(Resource::As, Rlimit { current: most.or(Some(1 << 46)), maximum: most }).unwrap();
        let said = refused(Errno::AGAIN.into()).to_string();
        let begin = "cannot start a thread: resource temporarily unavailable; raise the limit of processes";
        assert!(said.starts_with(begin) && said.ends_with("(ulimit -v)"), "{said}");
    }
}
