//! What both ends of a run look like from outside: evidence for the judge, and facts that the judge never sees.
//!
//! Every 20 ms each socket is looked at by `sock_diag` from inside its namespace, every window closed by `FlowProbe`. The
//! facts come from the same looks, but raw: what was in the queue, what the buffer held.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use weir_lab::bed::Bed;
use weir_lab::netns::Namespace;
use weir_model::evidence::{Clocks, Evidence, Facts, LaneWindow, Reading, ThreadWindow, Window};
use weir_observe::flow::{FlowProbe, FlowWindow};
use weir_observe::process::Pid;
use weir_observe::sock_diag::{Filter, SockDiag, SocketId, TcpSocket};
use weir_observe::thread::Tid;
use weir_observe::thread_probe::ThreadProbe;
use weir_observe::{HostWindow, Sampler};
use weir_units::Rate;

use crate::cell::Cell;
use crate::settled::{SETTLED, Settled};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// The ends of a run, watched.
pub(crate) struct Watch {
    far: End,
    near: End,
    host: Sampler,
    window: Duration,
    rate: Rate,
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) sender: Evidence,
    pub(crate) receiver: Evidence,
    pub(crate) both: Evidence,
    /// Raw, for the facts.
    pub(crate) settled: Settled,
}

impl Watch {
    /// Of these connections, each by its near and far address, sending and receiving thread.
    pub(crate) fn new(
        bed: &Bed,
        flows: &[(SocketAddr, SocketAddr, Tid, Tid)],
        cell: Cell,
        output: Option<&std::path::Path>,
    ) -> anyhow::Result<Watch> {
        let of = |space: &Namespace, ends: Vec<(SocketAddr, SocketAddr, Tid)>| End::new(space, &ends);
        Ok(Watch {
            far: of(bed.far(), flows.iter().map(|(near, far, sends, _)| (*far, *near, *sends)).collect())?,
            near: of(bed.near(), flows.iter().map(|(near, far, _, reads)| (*near, *far, *reads)).collect())?,
            host: Sampler::new(output),
            // Several looks, and a few round trips of data.
            window: Duration::from_millis(100).max(2 * cell.rtt()),
            rate: cell.rate(),
        })
    }

    /// Watches for that long.
    pub(crate) fn run(mut self, bed: &Bed, span: Duration) -> anyhow::Result<Seen> {
        let start = Instant::now();
        let mut seen = Seen::default();
        let settled_at = span.mul_f64(SETTLED);
        let (mut opened, mut turn) = (start, 0);
        while start.elapsed() < span {
            turn += 1;
            sleep((start + turn * LOOK).saturating_duration_since(Instant::now()));
            seen.settled.link.look(bed, self.rate);
            self.far.look()?;
            self.near.look()?;
            let settled = start.elapsed() >= settled_at;
            if settled {
                seen.settled.begin(bed);
                for (far, near) in self.far.lanes.iter().zip(&self.near.lanes) {
                    if let (Some(far), Some(near)) = (far.probe.last(), near.probe.last()) {
                        seen.settled.look(far, near);
                    }
                }
            }
            if opened.elapsed() >= self.window {
                let at = (opened - start).as_secs_f64();
                self.close(&mut seen, at, opened.elapsed());
                opened = Instant::now();
            }
        }
        seen.settled.end(bed);
        Ok(seen)
    }

    fn close(&mut self, seen: &mut Seen, at: f64, span: Duration) {
        let host = self.host.host_window();
        let (far, near) = (self.far.close(), self.near.close());
        let sends = far.iter().enumerate().map(|(lane, end)| sending_lane(lane, end)).collect();
        let receives = near.iter().enumerate().map(|(lane, end)| receiving_lane(lane, end, span)).collect();
        let both = far
            .iter()
            .zip(&near)
            .enumerate()
            .map(|(lane, (far, near))| joint_lane(lane, far, near, span))
            .collect();
        seen.sender.windows.push(window(at, span, sends, &host));
        seen.receiver.windows.push(window(at, span, receives, &host));
        seen.both.windows.push(window(at, span, both, &host));
    }
}

/// Facts of a run between two programs, neither of which is `weir`.
pub(crate) fn facts(bed: &Bed) -> anyhow::Result<Facts> {
    let rmem = bed.near().run(weir_observe::sysctl::tcp_rmem)?;
    Ok(Facts {
        tcp_rmem_max: rmem.ok().map(|rmem| rmem.max),
        cpus: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        clocks: Clocks::Sampled,
        scope: Some("the lab's program".to_owned()),
        ..Facts::default()
    })
}

fn window(at: f64, span: Duration, lanes: Vec<LaneWindow>, host: &HostWindow) -> Window {
    Window {
        at,
        span,
        received: lanes.iter().map(|lane| lane.received).sum(),
        lanes,
        cpu: host.cpu.clone(),
        dirty: host.dirty.clone(),
        disk: host.disk.clone(),
        ..Window::default()
    }
}

/// One end of a connection over a window.
struct Closed {
    flow: FlowWindow,
    objects: u64,
    thread: Reading<ThreadWindow>,
}

fn sending_lane(lane: usize, end: &Closed) -> LaneWindow {
    LaneWindow { lane: lane as u32, ..end.flow.sending(end.thread.clone()) }
}

fn receiving_lane(lane: usize, end: &Closed, span: Duration) -> LaneWindow {
    LaneWindow {
        lane: lane as u32,
        requests: end.flow.requests as u32,
        objects: end.objects as u32,
        ..end.flow.receiving(end.thread.clone(), span, 0.0)
    }
}

/// The receiver's lane with the sender's view beside it. Of the two threads the one that ran more: there is one place.
fn joint_lane(lane: usize, far: &Closed, near: &Closed, span: Duration) -> LaneWindow {
    let ran = |end: &Closed| end.thread.value().map_or(Duration::ZERO, |thread| thread.cpu);
    let thread = if ran(far) > ran(near) { &far.thread } else { &near.thread };
    LaneWindow { sender: far.flow.sender.clone(), thread: thread.clone(), ..receiving_lane(lane, near, span) }
}

/// The sockets of one namespace.
struct End {
    diag: SockDiag,
    lanes: Vec<Lane>,
}

struct Lane {
    id: SocketId,
    probe: FlowProbe,
    thread: ThreadProbe,
    requests: u64,
}

impl End {
    fn new(space: &Namespace, ends: &[(SocketAddr, SocketAddr, Tid)]) -> anyhow::Result<End> {
        let mut diag = space.run(SockDiag::open)??;
        let sockets = diag.tcp(&Filter::default())?;
        let lanes = ends
            .iter()
            .map(|(local, remote, tid)| {
                let is = |socket: &&TcpSocket| socket.id.local == *local && socket.id.remote == *remote;
                let id = sockets
                    .iter()
                    .find(is)
                    .with_context(|| format!("no socket from {local} to {remote}"))?
                    .id;
                let thread = ThreadProbe::open(Pid(std::process::id()), tid.0, "the lab's program")?;
                Ok(Lane { id, probe: FlowProbe::from_its_start(), thread, requests: 0 })
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(End { diag, lanes })
    }

    fn look(&mut self) -> anyhow::Result<()> {
        for lane in &mut self.lanes {
            lane.thread.look();
            if let Some(socket) = self.diag.one(&lane.id)? {
                lane.probe.look(&socket);
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Vec<Closed> {
        let close = |lane: &mut Lane| {
            let flow = lane.probe.window();
            // An object is over when the next is asked for.
            let objects = (lane.requests + flow.requests).saturating_sub(1) - lane.requests.saturating_sub(1);
            lane.requests += flow.requests;
            Closed { flow, objects, thread: lane.thread.window(Duration::ZERO) }
        };
        self.lanes.iter_mut().map(close).collect()
    }
}
