//! What do hosts share that is full? Their own words say whose side they wait for.
//!
//! 1. Three quarters of the time that was judged is of limits of one side, of all hosts together: that side.
//! 2. With what cannot be told from the path it is three quarters: that side or the link.
//! 3. Most of it is of the hosts themselves (a processor, memory): what they share is the machine under them.
//! 4. Else it stays unnamed, as it does where most of the time was not judged.
//!
//! Can be wrong: hosts whose disks are the same device under other names say `disk`, which is the target's
//! side all the same.

use super::shares::Held;
use super::{FleetEnd, FleetEnds, SharedEnd};
use crate::limit::Limit;

/// Of the judged time.
const MOST: f64 = 0.75;

/// Whose matter a limit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Where objects come from.
    Source,
    /// Where they go.
    Target,
    /// The path, seen.
    Link,
    /// The far end or the path, which the host cannot tell apart.
    FarOrLink,
    /// The host's own processor, memory or settings.
    Host,
}

/// Whose matter `limit` is for a host between these ends; `capped`: the fleet was told how fast to be.
pub(super) fn side(limit: Limit, ends: FleetEnds, capped: bool) -> Side {
    use Limit::*;
    // A host that writes what a far end gives receives; what goes to a far end, or is copied by it, is sent.
    let receives = ends.target == FleetEnd::Folder;
    let far = if receives { Side::Source } else { Side::Target };
    match limit {
        RateLimit if capped => Side::Host,
        SourceDisk => Side::Source,
        Disk | DirtyThrottle => Side::Target,
        Application | RateLimit | RequestResponse | ThinkTime | Connect | Dns => far,
        Upstream => Side::Source,
        Downstream | Reader => Side::Target,
        PathBandwidth | PathLoss | PathMtu | Nagle => Side::Link,
        SenderOrPath | Latency | Timeouts | ProtocolWindow => Side::FarOrLink,
        ReceiveWindow if !receives => far,
        SendBuffer if receives => far,
        ReceiveWindow | SendBuffer => Side::Host,
        CpuCore | Compress | Decompress | Encrypt | Verify | Memory => Side::Host,
    }
}

/// Of the judged time of all hosts, the share that is of the hosts themselves.
pub(super) fn own_share(held: &Held, ends: FleetEnds, capped: bool) -> f64 {
    share(held, |limit| side(limit, ends, capped) == Side::Host)
}

/// What the hosts share, by their words.
pub(super) fn end(held: &Held, ends: FleetEnds, capped: bool) -> SharedEnd {
    let of = |wanted: &[Side]| share(held, |limit| wanted.contains(&side(limit, ends, capped)));
    let far = if ends.target == FleetEnd::Far { SharedEnd::TargetOrLink } else { SharedEnd::SourceOrLink };
    let far_side = if ends.target == FleetEnd::Far { Side::Target } else { Side::Source };
    let is_local = ends == FleetEnds { source: FleetEnd::Folder, target: FleetEnd::Folder };
    match () {
        () if of(&[Side::Source]) >= MOST => SharedEnd::Source,
        () if of(&[Side::Target]) >= MOST => SharedEnd::Target,
        () if of(&[Side::Link]) >= MOST => SharedEnd::Link,
        () if !is_local && of(&[far_side, Side::Link, Side::FarOrLink]) >= MOST => far,
        () if of(&[Side::Host]) >= MOST => SharedEnd::Machine,
        () => SharedEnd::Unnamed,
    }
}

/// Of the time that limits held, the share of those that are `wanted`; none where most of the time was not
/// judged.
fn share(held: &Held, wanted: impl Fn(Limit) -> bool) -> f64 {
    let of: f64 = held.limits().filter(|(limit, _)| wanted(*limit)).map(|(_, seconds)| seconds).sum();
    if held.is_judged() { of / held.judged() } else { 0.0 }
}
