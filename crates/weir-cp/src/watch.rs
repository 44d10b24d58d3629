//! What an end sees of itself while it works: looks at its sockets and threads every 20 ms, an interval of
//! evidence every 100 ms. The driver joins both ends' intervals and asks the judge.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_model::evidence::{CpuInterval, Facts, Interval, LaneInterval, Reading, ThreadInterval};
use weir_model::stages::Stages;
use weir_observe::cgroup::Quota;
use weir_observe::flow::{FlowInterval, FlowProbe};
use weir_observe::process::Pid;
use weir_observe::sock_diag::{SockDiag, SocketId};
use weir_observe::stage_clock::{Stage, StageClock, StageTimes};
use weir_observe::thread::Tid;
use weir_observe::watch::{Cadence, INTERVAL};
use weir_observe::{LaneProbe, Sampler, cpu, sysctl};

use crate::wire::message::Role;

/// Looks that tell of a whole interval: of one that is full half of the time, all five find bytes once in 32
/// intervals, and three once in eight.
const ENOUGH_SAMPLES: u32 = 4;

/// What an end tells of an interval.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    /// What it saw.
    #[serde(rename = "window")]
    pub interval: Interval,
    /// What holds all the time: with the first one.
    pub facts: Option<Facts>,
    /// Payload per second that a sender's choice of codecs expects of the link as it is.
    #[serde(default)]
    pub outlook: Option<f64>,
}

/// A thread that works on records.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Its clock.
    pub(crate) clock: Arc<StageClock>,
    /// Its number in the system.
    pub(crate) tid: Tid,
    /// The lane it serves, at a receiver.
    pub(crate) lane: Option<u32>,
}

/// Watches one end.
pub(crate) struct Watch {
    role: Role,
    cadence: Cadence,
    sampler: Sampler,
    diag: Option<SockDiag>,
    flows: BTreeMap<u32, (Option<SocketId>, FlowProbe)>,
    workers: Vec<Watched>,
    moved: u64,
    told: bool,
    /// This program makes room for others itself.
    niced: bool,
    /// Of this process's control groups, which hold back all workers alike.
    quota: Option<Quota>,
}

/// A worker and what was seen of it last.
struct Watched {
    worker: Arc<Worker>,
    probe: LaneProbe,
    times: StageTimes,
}

/// What a closed interval says to the end itself.
pub(crate) struct Closed {
    /// For the judge.
    pub(crate) sample: Sample,
    /// Bytes per second on the wire that the far end acknowledged; `None` without a TCP connection.
    pub(crate) acked: Option<f64>,
    /// Records waited for lanes nearly all the time, or bytes of them in the lanes' sockets all the time.
    pub(crate) backlog: bool,
    /// Processors of this machine that were busy, with programs that would not make room for this one.
    pub(crate) busy: Option<f64>,
    /// Those that were busy with this end of the copy.
    pub(crate) own: Option<f64>,
}

impl Watch {
    /// Starts the first interval. `output` is the folder written to.
    pub(crate) fn new(role: Role, output: Option<&std::path::Path>) -> Watch {
        Watch {
            role,
            cadence: Cadence::new(Instant::now(), INTERVAL),
            sampler: Sampler::new(output),
            diag: SockDiag::open().ok(),
            flows: BTreeMap::new(),
            workers: Vec::new(),
            moved: 0,
            told: false,
            niced: rustix::process::getpriority_process(None).is_ok_and(|nice| nice > 0),
            quota: Quota::open(Pid(std::process::id())).ok(),
        }
    }

    /// Looks at everything once.
    pub(crate) fn look(&mut self, sockets: &[(u32, Option<Arc<TcpStream>>)], workers: &[Arc<Worker>]) {
        for worker in workers.iter().skip(self.workers.len()) {
            let probe = LaneProbe::new(worker.tid);
            self.workers.push(Watched { worker: Arc::clone(worker), probe, times: StageTimes::default() });
        }
        self.workers.iter_mut().for_each(|watched| watched.probe.look());
        self.flows.retain(|id, _| sockets.iter().any(|(other, _)| other == id));
        for (id, stream) in sockets {
            let (socket, probe) = self
                .flows
                .entry(*id)
                .or_insert_with(|| (stream.as_deref().and_then(SocketId::of), FlowProbe::new()));
            if let (Some(socket), Some(diag)) = (socket, &mut self.diag)
                && let Ok(Some(seen)) = diag.one(socket)
            {
                probe.look(&seen);
            }
        }
    }

    /// Closes the interval if it is long enough. `moved` is the payload so far.
    pub(crate) fn close(&mut self, moved: &AtomicU64, rate_cap: Option<u64>) -> Option<Closed> {
        let now = Instant::now();
        if !self.cadence.is_due(now) {
            return None;
        }
        let interval = self.cadence.close(now);
        let span = interval.span;
        let host = self.sampler.host_interval();
        let busy = host.cpu.value().map(|cpu| cpu.busy.iter().sum::<f64>());
        let pressing = host.cpu.value().map(|cpu| cpu.busy.iter().sum::<f64>() - self.yielding(cpu));
        let throttled = self.quota.as_mut().map(Quota::interval).unwrap_or_default().min(span);
        let close = |watched: &mut Watched| watched.close(throttled);
        let spent: Vec<(Option<u32>, StageTimes, Reading<ThreadInterval>)> =
            self.workers.iter_mut().map(close).collect();
        let flows: Vec<(u32, FlowInterval)> =
            self.flows.iter_mut().map(|(id, (_, probe))| (*id, probe.interval())).collect();
        let own = host.cpu.value().map(|cpu| cpu.process.as_secs_f64() / span.as_secs_f64());
        let softirq = host.cpu.value().map(|cpu| cpu.softirq);
        let stages = Stages { throttled, ..stages(&spent, busy, own) };
        let lanes: Vec<LaneInterval> =
            flows.iter().map(|(id, flow)| self.lane(*id, flow, &spent, span)).collect();
        let acked = flows.iter().map(|(_, flow)| flow.acked).sum::<u64>() as f64 / span.as_secs_f64();
        let has_socket = self.flows.values().any(|(socket, _)| socket.is_some()) && self.diag.is_some();
        // A lane is taken while its record is sealed and sent. No more of them can be than there are workers.
        let on_lanes = |times: &StageTimes| times.wall(Stage::Encrypt) + times.wall(Stage::Send);
        let sending = spent.iter().map(|(_, times, _)| on_lanes(times)).sum::<Duration>();
        let room = span * self.flows.len().min(spent.len()).max(1) as u32;
        let total = moved.load(Relaxed);
        let received = total.saturating_sub(std::mem::replace(&mut self.moved, total));
        let here = Reading::Value(stages);
        let there = || Reading::Missing("the other end's".to_owned());
        let (sending_stages, receiving) = match self.role {
            Role::Sender => (here, there()),
            Role::Receiver => (there(), here),
        };
        let interval = Interval {
            received,
            written: if self.role == Role::Receiver { received } else { 0 },
            sending: sending_stages,
            receiving,
            ..interval.evidence(host, lanes)
        };
        let facts = (!std::mem::replace(&mut self.told, true)).then(|| self.facts(rate_cap));
        Some(Closed {
            sample: Sample { interval, facts, outlook: None },
            acked: has_socket.then_some(acked),
            backlog: sending.as_secs_f64() >= 0.9 * room.as_secs_f64() || holds_unsent(&flows),
            busy: pressing,
            own: own.zip(softirq).map(|(own, softirq)| own + softirq),
        })
    }

    /// Processors' worth of work that makes room for this program. One that is niced itself gets no more of
    /// them than the others.
    fn yielding(&self, cpu: &CpuInterval) -> f64 {
        if self.niced { 0.0 } else { cpu.niced }
    }

    fn lane(
        &self,
        id: u32,
        flow: &FlowInterval,
        spent: &[(Option<u32>, StageTimes, Reading<ThreadInterval>)],
        span: Duration,
    ) -> LaneInterval {
        match self.role {
            Role::Sender => LaneInterval {
                lane: id,
                received: flow.acked,
                thread: Reading::Missing("the sender's threads serve all lanes".to_owned()),
                tcp: Reading::Missing("the receiving end is the other's".to_owned()),
                sender: flow.sender.clone(),
                ..LaneInterval::default()
            },
            Role::Receiver => {
                let own: Vec<_> = spent.iter().filter(|(lane, ..)| *lane == Some(id)).collect();
                let count = own.len().max(1) as u32;
                let mean = |stage: Stage| {
                    own.iter().map(|(_, times, _)| times.wall(stage)).sum::<Duration>() / count
                };
                let receive_cpu = own.iter().map(|(_, times, _)| times.receive_cpu).sum::<Duration>() / count;
                let write_cpu = own.iter().map(|(_, times, _)| times.write_cpu).sum::<Duration>() / count;
                LaneInterval {
                    lane: id,
                    received: flow.received,
                    socket_wait: mean(Stage::Receive).saturating_sub(receive_cpu),
                    receive_cpu,
                    decrypt: mean(Stage::Decrypt),
                    write: mean(Stage::Write),
                    write_cpu: write_cpu.min(mean(Stage::Write)),
                    idle: mean(Stage::Idle).min(span),
                    thread: own.first().map_or_else(Reading::default, |(_, _, thread)| thread.clone()),
                    tcp: flow.receiver.clone(),
                    sender: Reading::Missing("the sending end is the other's".to_owned()),
                    ..LaneInterval::default()
                }
            }
        }
    }

    fn facts(&self, rate_cap: Option<u64>) -> Facts {
        Facts {
            memory: weir_observe::memory::available(),
            rate_cap: rate_cap.map(|rate| rate as f64),
            tcp_rmem_max: sysctl::tcp_rmem().ok().map(|rmem| rmem.max),
            tcp_wmem_max: sysctl::tcp_wmem_max().ok(),
            cpus: cpu::available_cpus(),
            disk: self.sampler.disk_name().value().map(|name| (*name).to_owned()),
            ..Facts::default()
        }
    }
}

/// All sockets held bytes that were not sent yet whenever they were looked at. Their buffers take several
/// records, so lanes may be free for half of the time while the path is full; taken for a path with room, it
/// would be offered more bytes, and fewer would be saved.
fn holds_unsent(flows: &[(u32, FlowInterval)]) -> bool {
    let holds = |flow: &FlowInterval| {
        flow.sender.value().is_some_and(|seen| seen.looks >= ENOUGH_SAMPLES && seen.nothing_unsent == 0)
    };
    !flows.is_empty() && flows.iter().all(|(_, flow)| holds(flow))
}

impl Watched {
    fn close(&mut self, throttled: Duration) -> (Option<u32>, StageTimes, Reading<ThreadInterval>) {
        let times = self.worker.clock.read();
        let spent = times.since(&self.times);
        self.times = times;
        let (mut thread, _) = self.probe.interval();
        if let Reading::Value(thread) = &mut thread {
            thread.throttled = throttled;
        }
        (self.worker.lane, spent, thread)
    }
}

fn stages(
    spent: &[(Option<u32>, StageTimes, Reading<ThreadInterval>)],
    busy: Option<f64>,
    own: Option<f64>,
) -> Stages {
    let sum = |stage: Stage| spent.iter().map(|(_, times, _)| times.wall(stage)).sum::<Duration>();
    Stages {
        threads: spent.len() as u32,
        idle: sum(Stage::Idle),
        read: sum(Stage::Read),
        verify: sum(Stage::Verify),
        compress: sum(Stage::Compress),
        encrypt: sum(Stage::Encrypt).saturating_add(sum(Stage::Decrypt)),
        turn: sum(Stage::Turn),
        send: sum(Stage::Send),
        receive: sum(Stage::Receive),
        decompress: sum(Stage::Decompress),
        write: sum(Stage::Write),
        limited: sum(Stage::Limited),
        busy,
        own,
        cpus: cpu::available_cpus(),
        ..Stages::default()
    }
}

#[cfg(test)]
mod tests {
    use weir_model::sender::SenderInterval;

    use super::*;

    #[test]
    fn blocks_wait_in_sockets_too_where_all_of_them_always_hold_some() {
        let lane = |looks: u32, nothing_unsent: u32| {
            let sender =
                Reading::Value(SenderInterval { looks, nothing_unsent, ..SenderInterval::default() });
            (1, FlowInterval { sender, ..FlowInterval::default() })
        };
        let unseen =
            || (2, FlowInterval { sender: Reading::Missing("gone".to_owned()), ..FlowInterval::default() });
        assert!(holds_unsent(&[lane(5, 0), lane(4, 0)]));
        for lanes in [vec![], vec![lane(5, 0), lane(5, 1)], vec![lane(3, 0)], vec![lane(5, 0), unseen()]] {
            assert!(!holds_unsent(&lanes), "{lanes:?}");
        }
    }
}
