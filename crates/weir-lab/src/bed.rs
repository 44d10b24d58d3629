//! A test bed: two network namespaces joined by an emulated link, undone when dropped.

mod forward;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use crate::error::LabError;
use crate::link;
use crate::netns::{Namespace, interface::Interface};
use crate::path::{MTU, Path};
use crate::tun::Tun;

use forward::{Forwarder, Plan};

/// The near end's address.
pub const NEAR: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 1);

/// The far end's address.
pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 2);

/// The interface at either end.
pub const INTERFACE: &str = "weir0";

/// Packets that the kernel keeps until the emulator reads them: what a sender's largest burst may be, 15 MB.
/// The default of 500 loses packets that no impairment asked for.
const KERNEL_QUEUE: u32 = 10_000;

/// Two namespaces, near and far, each with one interface to the other.
#[derive(Debug)]
pub struct Bed {
    near: Namespace,
    far: Namespace,
    up: Forwarder,
    down: Forwarder,
}

/// What happened to packets so far, in each direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// From near to far.
    pub up: DirectionCounters,
    /// From far to near.
    pub down: DirectionCounters,
}

/// One direction's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirectionCounters {
    /// The emulated link's own.
    pub link: link::Counters,
    /// How true the emulator kept to its times.
    pub lateness: Lateness,
    /// Packets that the kernel did not take at the other end; no impairment asked for that.
    pub refused: u64,
}

/// How much after its time packets left the emulator: what it adds to the delay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Of all packets together, in nanoseconds.
    pub total_nanos: u64,
    /// Of the one that was latest.
    pub worst_nanos: u64,
}

/// What the lab promises of a delay, and what of a round trip is far from counting as a standing queue.
const LATE: Duration = Duration::from_micros(300);
const LATE_SHARE: u32 = 20;

/// Whether an emulator that was `late` on each round trip has shown another path than it was asked for: one
/// whose threads do not get a processor delays packets as a queue does.
pub fn too_late(late: Duration, round_trip: Duration) -> bool {
    late > LATE + round_trip / LATE_SHARE
}

impl Counters {
    /// By how much packets were late since `begun`, of a round trip on average.
    pub fn late_since(&self, begun: &Counters) -> Duration {
        let late = |begun: &DirectionCounters, ended: &DirectionCounters| {
            let total_nanos = ended.lateness.total_nanos - begun.lateness.total_nanos;
            let packets = ended.link.packets_out - begun.link.packets_out;
            Lateness { total_nanos, ..Lateness::default() }.mean(packets)
        };
        late(&begun.up, &self.up) + late(&begun.down, &self.down)
    }
}

impl Bed {
    /// Makes the namespaces, their interfaces and the link. Needs root, or
    /// [`privilege::enter`](crate::privilege::enter).
    pub fn new(path: &Path) -> Result<Bed, LabError> {
        path.check()?;
        let (near, far) = (Namespace::new()?, Namespace::new()?);
        let near_tun = Arc::new(attach(&near, NEAR, path)?);
        let far_tun = Arc::new(attach(&far, FAR, path)?);
        let up = Plan { name: "weir-up", from: Arc::clone(&near_tun), to: Arc::clone(&far_tun) };
        let down = Plan { name: "weir-down", from: far_tun, to: near_tun };
        Ok(Bed {
            near,
            far,
            up: up.start(&path.up, path.seed)?,
            // Another stream than the other direction's: the same would lose an answer wherever its question
            // was lost.
            down: down.start(&path.down, path.seed ^ 0x9e37_79b9_7f4a_7c15)?,
        })
    }

    /// The client's end.
    pub fn near(&self) -> &Namespace {
        &self.near
    }

    /// The server's end.
    pub fn far(&self) -> &Namespace {
        &self.far
    }

    /// The server's address.
    pub fn far_address(&self) -> Ipv4Addr {
        FAR
    }

    /// Changes the path while packets are under way. The fidelity stays what it was.
    pub fn set_path(&self, path: &Path) -> Result<(), LabError> {
        path.check()?;
        self.up.configure(&path.up);
        self.down.configure(&path.down);
        Ok(())
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        Counters { up: self.up.counters(), down: self.down.counters() }
    }

    /// Sets a value at both ends.
    pub fn set_sysctl(&self, name: &str, value: &str) -> Result<(), LabError> {
        self.near.set_sysctl(name, value)?;
        self.far.set_sysctl(name, value)
    }
}

/// Gives a namespace its interface.
fn attach(namespace: &Namespace, address: Ipv4Addr, path: &Path) -> Result<Tun, LabError> {
    // What one connection learned of the path must not help the next: each run begins anew.
    namespace.set_sysctl("net.ipv4.tcp_no_metrics_save", "1")?;
    namespace.run(|| {
        let tun = Tun::open(INTERFACE, path.fidelity)?;
        // Neighbour discovery would mix its packets into the counters. Without IPv6 there is nothing to
        // switch off.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6"), "1");
        let interface = Interface::open(INTERFACE)?;
        interface.set_mtu(MTU)?;
        interface.set_queue_length(KERNEL_QUEUE)?;
        interface.set_address(address, 24)?;
        interface.up()?;
        interface.make_default_route()?;
        Ok(tun)
    })?
}
