//! Digests while the bytes pass: a follower hashes the done prefix of a part file on a thread of its own.
//!
//! It reads back what was just written, from the page cache, not from the disk, and so follows any number of
//! lanes without slowing them and costs nothing where nobody named a digest.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use weir_codec::digest::{Algorithm, Digest, Expected, OfParts, Strength};

use crate::error::{Fate, GetError};

/// Enough to hash at full speed, small enough to stay in the L2 cache between the copy and the hash.
const BLOCK: usize = 256 << 10;

/// Between two looks whether a run that waits for its digests is to end.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// The origin of a digest that the user gave with the command.
pub const GIVEN: &str = "--checksum";

/// A digest that an object must have, and who said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// Algorithm and value.
    pub expected: Expected,
    /// `--checksum`, `Repr-Digest`.
    pub origin: String,
    /// Who means it to hold.
    pub whose: Whose,
    /// It is the digest of the digests of parts of these sizes; `None`: of all bytes.
    pub parts: Option<Arc<[u64]>>,
    /// What is hashed before the bytes, as git has it of its blobs.
    pub before: Vec<u8>,
}

impl Expectation {
    /// The user gave it with the command, and nobody is known to be able to make other bytes that match it.
    pub(crate) fn proves(&self) -> bool {
        let is_strong = self.expected.algorithm().strength() == Strength::Collision;
        is_strong && self.whose == Whose::User && self.origin == GIVEN && self.parts.is_none()
    }

    fn method(&self) -> Method {
        let (parts, before) = (self.parts.clone(), self.before.clone());
        Method { algorithm: self.expected.algorithm(), parts, before }
    }
}

/// How a digest is made of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method {
    /// By this.
    pub algorithm: Algorithm,
    /// See [`Expectation::parts`].
    pub parts: Option<Arc<[u64]>>,
    /// See [`Expectation::before`].
    pub before: Vec<u8>,
}

impl Method {
    /// Starts a computation.
    pub fn start(&self) -> Box<dyn Digest> {
        let mut digest: Box<dyn Digest> = match &self.parts {
            Some(sizes) => Box::new(OfParts::new(self.algorithm, Arc::clone(sizes))),
            None => self.algorithm.start(),
        };
        digest.update(&self.before);
        digest
    }
}

/// A digest that was computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// How.
    pub method: Method,
    /// What it came to.
    pub digest: Expected,
}

/// The first digest of all bytes among them, which a person can compare.
pub fn whole(found: &[Found]) -> Option<Expected> {
    let is_plain = |one: &&Found| one.method.parts.is_none() && one.method.before.is_empty();
    found.iter().find(is_plain).map(|one| one.digest.clone())
}

/// Whose word an expected digest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The user's: it must hold.
    User,
    /// The server's: it must hold.
    Server,
    /// The server's, and the user said not to mind it.
    Ignored,
}

/// Checks `found` against every expectation; all must hold but for those that are ignored. `fate` is what
/// becomes of the bytes otherwise. Returns what was ignored, in words.
pub fn check(
    name: &str,
    expectations: &[Expectation],
    found: &[Found],
    fate: Fate,
) -> Result<Vec<String>, GetError> {
    let mut ignored = Vec::new();
    for one in expectations {
        let algorithm = one.expected.algorithm();
        let same = found.iter().find(|found| found.method == one.method());
        let Some(found) = same.filter(|found| found.digest != one.expected) else { continue };
        let (expected, found) = (one.expected.hex(), found.digest.hex());
        if one.whose == Whose::Ignored {
            let algorithm = algorithm.name();
            let note = format!(
                "{algorithm} does not match: expected {expected}, got {found} ({}); --ignore-digest kept it",
                one.origin
            );
            ignored.push(note);
            continue;
        }
        return Err(GetError::Digest {
            name: name.to_owned(),
            algorithm: algorithm.name(),
            expected,
            found,
            origin: one.origin.clone(),
            fate,
        });
    }
    Ok(ignored)
}

/// The digests of a file that is here; `None` once it `is_stopped`.
pub(crate) fn digests_of_file(
    mut file: File,
    methods: &[Method],
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<Option<Vec<Found>>> {
    let mut digests: Vec<Box<dyn Digest>> = methods.iter().map(Method::start).collect();
    let mut piece = vec![0; BLOCK];
    while !is_stopped() {
        let length = file.read(&mut piece)?;
        if length == 0 {
            return Ok(Some(finished(methods, digests)));
        }
        digests.iter_mut().for_each(|digest| digest.update(&piece[..length]));
    }
    Ok(None)
}

/// The digests that `expectations` need, each once.
pub fn methods(expectations: &[Expectation]) -> Vec<Method> {
    let mut methods: Vec<Method> = Vec::new();
    for method in expectations.iter().map(Expectation::method) {
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    methods
}

/// What running digests of these kinds have come to.
pub fn finished(methods: &[Method], digests: Vec<Box<dyn Digest>>) -> Vec<Found> {
    let pairs = methods.iter().zip(digests);
    let found = pairs.filter_map(|(method, digest)| {
        let digest = Expected::new(method.algorithm, digest.finish()).ok()?;
        Some(Found { method: method.clone(), digest })
    });
    found.collect()
}

/// All digests of `bytes`.
pub(crate) fn digests_of(methods: &[Method], bytes: &[u8]) -> Vec<Found> {
    let mut digests: Vec<Box<dyn Digest>> = methods.iter().map(Method::start).collect();
    digests.iter_mut().for_each(|digest| digest.update(bytes));
    finished(methods, digests)
}

/// A thread that hashes a growing prefix.
#[derive(Debug)]
pub struct Follower {
    shared: Arc<Shared>,
    /// What they have come to.
    found: Mutex<Receiver<io::Result<Vec<Found>>>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Bytes from 0 that may be read; and whether that is all.
    goal: Mutex<(u64, bool)>,
    moved: Condvar,
    hashed: AtomicU64,
    busy: AtomicU64,
    stopped: AtomicBool,
}

impl Follower {
    /// Starts hashing `file` by `methods`.
    pub fn start(file: File, methods: Vec<Method>) -> io::Result<Follower> {
        let shared = Arc::<Shared>::default();
        let theirs = Arc::clone(&shared);
        let (sender, found) = channel();
        // It ends with what it follows, within a block: nobody needs to wait for that.
        std::thread::Builder::new().name("verify".to_owned()).stack_size(256 << 10).spawn(move || {
            let _ = sender.send(follow(&file, &methods, &theirs));
        })?;
        Ok(Follower { shared, found: Mutex::new(found) })
    }

    /// Bytes `[0, prefix)` are written.
    pub fn advance(&self, prefix: u64) {
        let mut goal = self.shared.goal.lock();
        // A system call to wake it per block is enough; less would only be noise.
        if prefix >= goal.0 + BLOCK as u64 {
            goal.0 = prefix;
            self.shared.moved.notify_one();
        }
    }

    /// The object has `size` bytes, all of them written: waits for the digests for as long as `go_on` says
    /// so, and else is interrupted.
    pub fn finish(&self, size: u64, go_on: &dyn Fn() -> bool) -> io::Result<Vec<Found>> {
        *self.shared.goal.lock() = (size, true);
        self.shared.moved.notify_one();
        let found = self.found.lock();
        loop {
            match found.recv_timeout(BETWEEN_LOOKS) {
                Ok(found) => return found,
                Err(RecvTimeoutError::Timeout) if go_on() => {}
                Err(RecvTimeoutError::Timeout) => {
                    self.shared.stopped.store(true, Relaxed);
                    return Err(io::ErrorKind::Interrupted.into());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("the digest thread ended early"));
                }
            }
        }
    }

    /// Time spent hashing so far, nanoseconds, and bytes written but not yet hashed.
    pub fn progress(&self) -> (u64, u64) {
        let goal = self.shared.goal.lock().0;
        (self.shared.busy.load(Relaxed), goal.saturating_sub(self.shared.hashed.load(Relaxed)))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Relaxed);
        self.shared.goal.lock().1 = true;
        self.shared.moved.notify_one();
    }
}

fn follow(file: &File, methods: &[Method], shared: &Shared) -> io::Result<Vec<Found>> {
    let mut digests: Vec<_> = methods.iter().map(Method::start).collect();
    let mut block = vec![0; BLOCK];
    let mut at = 0;
    loop {
        let (goal, last) = wait(shared, at);
        if shared.stopped.load(Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        while at < goal {
            let began = Instant::now();
            let length = BLOCK.min(usize::try_from(goal - at).unwrap_or(BLOCK));
            file.read_exact_at(&mut block[..length], at)?;
            digests.iter_mut().for_each(|digest| digest.update(&block[..length]));
            at += length as u64;
            shared.hashed.store(at, Relaxed);
            // Block by block: whoever falls behind is never through with what there is to do.
            let busy = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            shared.busy.fetch_add(busy, Relaxed);
            if shared.stopped.load(Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        if last {
            return Ok(finished(methods, digests));
        }
    }
}

fn wait(shared: &Shared, at: u64) -> (u64, bool) {
    let mut goal = shared.goal.lock();
    while goal.0 <= at && !goal.1 {
        shared.moved.wait(&mut goal);
    }
    *goal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_that_falls_behind_is_busy_all_the_while() {
        let file = tempfile::tempfile().unwrap();
        // A hole that takes a second or so: somebody looks meanwhile, however busy the machine is.
        let size = 512 << 20;
        file.set_len(size).unwrap();
        let method = Method { algorithm: Algorithm::SHA512, parts: None, before: Vec::new() };
        let follower = Follower::start(file, vec![method]).unwrap();
        follower.advance(size);
        loop {
            match follower.progress() {
                (_, 0) => panic!("it was through before it was seen busy"),
                (busy, _) if busy > 0 => break,
                _ => std::thread::yield_now(),
            }
        }
    }
}
