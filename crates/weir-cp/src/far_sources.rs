//! What the sources of a copy between two others are, as their machine says; over several hops once for all.

use weir_tree::Name;
use weir_tree::source::Identity;

use crate::error::CopyError;
use crate::events::Events;
use crate::link::{Link, SourceList};
use crate::opening::next;
use crate::roots;
use crate::ssh::Far;
use crate::wire::driver::ToDriver;
use crate::wire::message::{Failure, FailureKind, Hello, Listening, Root};
use crate::wire::messages::Heard;
use crate::wire::to_receiver::ToReceiver;

/// What the sender of a session has, and where it listens. `sends`, `receives`: the first words of both ends.
pub(crate) fn offered(
    (link, paths): (Option<&Link>, &[Vec<u8>]),
    far: &mut Far,
    events: &Events,
    [sends, receives]: [&Hello; 2],
) -> Result<(SourceList, Listening), CopyError> {
    match link {
        // One that passes on was told by those before it, and its word is not asked for.
        Some(Link { from: Some(_), sources, .. }) => {
            let known = sources.get().ok_or_else(|| events.out_of_turn("before its sources are known"))?;
            let known = SourceList { roots: of_hop(known, receives), ..known.clone() };
            listening(far, events).map(|at| (known, at))
        }
        Some(link) => {
            let (said, at) = said(paths, far, events, sends)?;
            link.sources.set(said.clone());
            // Places of another chain would mean other files.
            let is_there = |list: &SourceList| list.roots.iter().map(Option::is_some).collect::<Vec<_>>();
            match link.sources.get() {
                Some(known) if is_there(known) != is_there(&said) => {
                    let words = format!("{}: not the same sources are there as before", events.host());
                    Err(CopyError::Refused(Failure::new(FailureKind::Session, words)))
                }
                _ => Ok((said, at)),
            }
        }
        None => said(paths, far, events, sends),
    }
}

/// What a sender says that it has, under the names that the user gave.
fn said(
    paths: &[Vec<u8>],
    far: &mut Far,
    events: &Events,
    sends: &Hello,
) -> Result<(SourceList, Listening), CopyError> {
    let (owners, roots) = match next(far, events)? {
        Some(Heard::Partner(ToReceiver::Owners(owners))) => (Some(owners), next(far, events)?),
        roots => (None, roots),
    };
    let Some(Heard::Partner(ToReceiver::Roots(mut roots))) = roots else {
        return Err(events.out_of_turn("something before its sources"));
    };
    let names = names_of(paths)?;
    if names.len() != roots.len() {
        return Err(events.out_of_turn("sources that were not asked for"));
    }
    for (root, name) in roots.iter_mut().zip(names) {
        root.iter_mut().for_each(|root| root.name = name.clone());
    }
    let list = SourceList { owners, roots, boot: sends.boot.clone() };
    listening(far, events).map(|at| (list, at))
}

fn listening(far: &mut Far, events: &Events) -> Result<Listening, CopyError> {
    match next(far, events)? {
        Some(Heard::Driver(ToDriver::Listening(at))) => Ok(at),
        _ => Err(events.out_of_turn("something before where it listens")),
    }
}

/// What the sources are for another receiver. On another machine than theirs their numbers mean nothing, and
/// may be those of what is there.
fn of_hop(known: &SourceList, receives: &Hello) -> Vec<Option<Root>> {
    let is_there = receives.boot == known.boot;
    let nowhere = Identity { device: u64::MAX, inode: u64::MAX };
    let hide =
        |root: &Root| Root { identity: if is_there { root.identity } else { nowhere }, ..root.clone() };
    known.roots.iter().map(|root| root.as_ref().map(hide)).collect()
}

/// What the sources are called.
pub(crate) fn names_of(paths: &[Vec<u8>]) -> Result<Vec<Name>, CopyError> {
    let names: Result<Vec<Name>, Failure> = paths.iter().map(|path| roots::name_of(path)).collect();
    names.map_err(CopyError::Refused)
}
