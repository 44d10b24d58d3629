//! What was seen of a transfer, interval by interval. No judgement here.
//!
//! An interval is the difference of two snapshots, 10 to 250 ms apart. Times of a lane's stages are wall time
//! unless the name says `cpu`, and they add up to at most the interval's span.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::around::Around;
use crate::limit::Limit;
pub use crate::reading::Reading;
use crate::reading::seconds;
use crate::sender::SenderInterval;
use crate::stages::Stages;
pub use crate::thread::{Found, ThreadInterval};
use crate::waits::Waits;

/// Everything known about one run, in order of time.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// The intervals, oldest first, without gaps.
    #[serde(rename = "windows")]
    pub intervals: Vec<Interval>,
    /// What adding or dropping lanes brought, as measured by the tuner.
    pub trials: Vec<Trial>,
    /// The facts that hold for the whole run.
    pub facts: Facts,
}

/// What is fixed before the first byte.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// The rate the user allowed (`--limit-rate`), bytes per second.
    pub rate_cap: Option<f64>,
    /// The lane count the user fixed (`-c`, `-j`).
    pub lanes_fixed: Option<u32>,
    /// How many connections, or objects at once, what is moved has work for; `None` where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_at_once: Option<u32>,
    /// How many objects at once bring the most was tried and measured to the end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_once_tried: bool,
    /// The command of ours that moves the data, for the options that advice may name.
    #[serde(skip_serializing_if = "Command::is_get")]
    pub command: Command,
    /// What a server said when it last asked to wait: printable, without secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_said: Option<String>,
    /// The same of when it last failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_failed: Option<String>,
    /// Why the last attempt that had no answer, and is followed by another, had none: printable, without
    /// secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broke: Option<String>,
    /// The user fixed the codec (`--codec`).
    pub codec_fixed: bool,
    /// The SO_RCVBUF the user asked for (`--recv-buffer`), bytes; `None` leaves the kernel's autotuning on.
    pub receive_buffer: Option<u64>,
    /// Memory that programs of this machine could have when it began, bytes; `None` where that was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// `net.ipv4.tcp_rmem`'s third number, bytes.
    pub tcp_rmem_max: Option<u64>,
    /// Why the connection that carries the data cannot be seen, where it is another program's: then nothing
    /// of the path is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen: Option<String>,
    /// This end only receives what both ends agreed that the other sends (`bench net`, receiving): it makes
    /// no requests, keeps no clock of handshakes and answers, tries no more connections, and `rate_cap` is
    /// the sender's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub takes_in: bool,
    /// Processors this process may use.
    pub cpus: u32,
    /// The peer is this machine itself, so that its sender shares these processors.
    pub peer_is_local: bool,
    /// Output goes to a pipe or terminal (`-o -`), so that a slow consumer can hold us.
    pub to_stdout: bool,
    /// Bytes were decrypted (https).
    pub tls: bool,
    /// Objects in this run.
    pub objects: u64,
    /// It sends them to a store or a server, which reads and answers at its own pace.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub uploads: bool,
    /// The device the output lies on, as `/proc/diskstats` calls it.
    pub disk: Option<String>,
    /// What that device took and gave when it was measured alone, where this host was calibrated on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_alone: Option<DiskAlone>,
    /// Where the stage times of the lanes come from.
    pub clocks: Clocks,
    /// Whose transfer this is, for words: `wget (pid 4711)`. `None` for a run of our own, whose lanes are
    /// `the lanes`.
    pub scope: Option<String>,
    /// The line rate of the narrowest link known (`/sys/class/net/IF/speed`, a shaping qdisc), bytes per
    /// second, headers included. Predictions go no higher; `None` where only guesses exist.
    pub link_rate: Option<f64>,
    /// A shaper that stands before this host's own interface, where the data leave through one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shaper: Option<Shaper>,
    /// The sender's `net.core.wmem_max`, bytes: SO_SNDBUF is cut to it, then doubled.
    pub wmem_max: Option<u64>,
    /// The sender's `net.ipv4.tcp_wmem`, third number, bytes: where autotuning ends.
    pub tcp_wmem_max: Option<u64>,
}

/// A queueing discipline of this host that hands out a rate (tbf, htb, cake).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shaper {
    /// The interface.
    pub interface: String,
    /// `tbf`.
    pub kind: String,
    /// Bytes per second, headers included.
    pub rate: f64,
}

/// What a calibration of the host found of a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskAlone {
    /// Bytes per second that it took.
    pub write: Option<f64>,
    /// Bytes per second that it gave, of what was not in memory.
    pub read: Option<f64>,
    /// The day, for words: `2026-11-22`.
    pub date: String,
}

/// A command, by the options that it takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// `weir get` and `weir put`: so many connections (`-c`), so many objects at once (`-j`).
    #[default]
    Get,
    /// `weir cp` with a store at one end or at both: so many objects at once (`-c`).
    StoreCopy,
    /// `weir cp` between hosts: so many connections (`-c`).
    HostCopy,
}

impl Command {
    /// The most connections, or objects at once, that it can be asked for.
    pub const fn most_lanes(self) -> u32 {
        match self {
            Command::Get => 64,
            Command::StoreCopy | Command::HostCopy => 16,
        }
    }

    /// The options by which its user fixes their number.
    pub(crate) fn fixed_by(self) -> &'static str {
        if self.takes_jobs() { "-c and -j" } else { "-c" }
    }

    /// `-j` says how many objects are moved at once.
    pub(crate) fn takes_jobs(self) -> bool {
        self.is_get()
    }

    fn is_get(&self) -> bool {
        *self == Command::Get
    }
}

/// Where stage times come from, which says how far they can be trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clocks {
    /// The lanes' own stage clocks: exact.
    #[default]
    Own,
    /// Estimates: a foreign thread was looked at every so often, and where it was found stands for the time
    /// between.
    Sampled,
}

/// A change of the lane count and what it brought, both rates measured on this transfer after slow start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Seconds from the start of the run at which the trial was judged.
    pub at: f64,
    /// Lanes before.
    pub lanes_before: u32,
    /// Lanes after.
    pub lanes_after: u32,
    /// Goodput before, bytes per second.
    pub rate_before: f64,
    /// Goodput after, bytes per second.
    pub rate_after: f64,
    /// The new count was kept.
    pub kept: bool,
}

/// One stretch of time.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Interval {
    /// Seconds from the start of the run to the interval's start.
    pub at: f64,
    /// The interval's length.
    #[serde(with = "seconds")]
    pub span: Duration,
    /// Payload bytes received by all lanes; seen from the sender alone, acknowledged.
    pub received: u64,
    /// Payload bytes handed to the file system (or stdout) by all lanes.
    pub written: u64,
    /// Objects finished.
    pub objects: u32,
    /// Each lane that lived in this interval.
    pub lanes: Vec<LaneInterval>,
    /// Time that at least one lane slept because the server said so (`Retry-After`, RateLimit, a 429 or 503).
    #[serde(with = "seconds")]
    pub server_backoff: Duration,
    /// Time that at least one lane slept after a failure of the server (a 500 and others), before it asked
    /// again.
    #[serde(with = "seconds", skip_serializing_if = "Duration::is_zero")]
    pub server_failing: Duration,
    /// Time that at least one lane slept because no connection came about, before the next attempt.
    #[serde(with = "seconds", skip_serializing_if = "Duration::is_zero")]
    pub unreached: Duration,
    /// Time that at least one lane slept because a connection or an answer broke off, before the next
    /// attempt.
    #[serde(with = "seconds", skip_serializing_if = "Duration::is_zero")]
    pub broken: Duration,
    /// Time in which no lane had anything to do because the list of what is to be moved was waited for.
    #[serde(with = "seconds", skip_serializing_if = "Duration::is_zero")]
    pub unlisted: Duration,
    /// At the interval's end something was left to be received; `None` where that was not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<bool>,
    /// Busy time of the digest thread, and bytes it still had to read when the interval ended.
    #[serde(with = "seconds")]
    pub verify_busy: Duration,
    /// Digest backlog at the interval's end, bytes.
    pub verify_backlog: u64,
    /// Every processor's use.
    pub cpu: Reading<CpuInterval>,
    /// The page cache's dirty state at the interval's end.
    pub dirty: Reading<DirtyInterval>,
    /// The output's device.
    pub disk: Reading<DiskInterval>,
    /// Of a copy: the threads of the end that sends.
    #[serde(skip_serializing_if = "Reading::is_missing")]
    pub sending: Reading<Stages>,
    /// Of a copy: the threads of the end that receives.
    #[serde(skip_serializing_if = "Reading::is_missing")]
    pub receiving: Reading<Stages>,
    /// Time in which an end of a copy, or the watch, told nothing.
    #[serde(skip_serializing_if = "Silent::is_none")]
    pub silent: Silent,
    /// Of foreign programs: those that do one stage of a copy, at most one for a stage, the busiest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
    /// Of foreign programs: what stood around their connections.
    #[serde(skip_serializing_if = "Around::is_empty")]
    pub around: Around,
}

/// Time of an interval in which an end of a copy, or the watch, told nothing: its program stood still, or its
/// words did not come through. What was seen of it before says nothing of that time.
///
/// Where intervals were joined it may be a part of one; what was read is then of the rest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Silent {
    /// Of a copy: of the end that sends.
    #[serde(with = "silence", skip_serializing_if = "Duration::is_zero")]
    pub sender: Duration,
    /// Of a copy: of the end that receives.
    #[serde(with = "silence", skip_serializing_if = "Duration::is_zero")]
    pub receiver: Duration,
    /// Of the watch itself, so that nothing was seen.
    #[serde(with = "silence", skip_serializing_if = "Duration::is_zero")]
    pub watch: Duration,
}

impl Silent {
    /// All was told.
    pub fn is_none(&self) -> bool {
        *self == Silent::default()
    }

    /// No more than the interval's own length.
    pub(crate) fn within(self, span: Duration) -> Silent {
        let Silent { sender, receiver, watch } = self;
        Silent { sender: sender.min(span), receiver: receiver.min(span), watch: watch.min(span) }
    }

    /// With that of an interval that follows.
    pub(crate) fn and(self, next: Silent) -> Silent {
        Silent {
            sender: self.sender.saturating_add(next.sender),
            receiver: self.receiver.saturating_add(next.receiver),
            watch: self.watch.saturating_add(next.watch),
        }
    }
}

/// Seconds; in older records the word that it was all of the interval, or nothing.
mod silence {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer};

    pub(super) use crate::reading::seconds::serialize;

    /// In place of all of an interval, whose length is not known here: longer than any.
    const ALL: Duration = Duration::from_secs(1 << 40);

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum SilentField {
        All(bool),
        Seconds(f64),
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        match SilentField::deserialize(deserializer)? {
            SilentField::All(true) => Ok(ALL),
            SilentField::All(false) => Ok(Duration::ZERO),
            SilentField::Seconds(seconds) => Duration::try_from_secs_f64(seconds).map_err(D::Error::custom),
        }
    }
}

impl Interval {
    /// What is left of an interval in which its watch stood still: that its time passed, what came in it, and
    /// which lanes there were.
    #[must_use]
    pub fn unseen(self) -> Interval {
        let lane = |lane: LaneInterval| LaneInterval {
            lane: lane.lane,
            received: lane.received,
            idle: self.span,
            requests: lane.requests,
            objects: lane.objects,
            connects: lane.connects,
            ..LaneInterval::default()
        };
        Interval {
            at: self.at,
            span: self.span,
            received: self.received,
            written: self.written,
            objects: self.objects,
            lanes: self.lanes.into_iter().map(lane).collect(),
            left: self.left,
            silent: Silent { watch: self.span, ..self.silent },
            ..Interval::default()
        }
    }
}

/// A foreign program that does one stage of a copy all the time: `gzip` in a pipe, or `ssh`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// [`Limit::Compress`] or [`Limit::Encrypt`].
    pub stage: Limit,
    /// Its busiest thread.
    pub thread: ThreadInterval,
}

/// What one lane (one connection at work) did in an interval.
///
/// Of a foreign process a lane is a connection and the thread that serves it. `tcp` is there where this host
/// receives the data, `sender` where it sends them, both only where both ends were watched; a connection's
/// few bytes the other way (requests) make no second view. Times stay zero on a sender: its thread's
/// [`Found`] says more.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LaneInterval {
    /// The lane's number, from 0; stays with a foreign connection for its life, and is not used again.
    pub lane: u32,
    /// Payload bytes received; seen from the sender alone, acknowledged.
    pub received: u64,
    /// Name resolution, TCP and TLS handshakes.
    #[serde(with = "seconds")]
    pub connecting: Duration,
    /// Of that, waiting for the addresses of a name; `None` where the lane's clock does not tell it apart.
    #[serde(with = "seconds::optional", skip_serializing_if = "Option::is_none")]
    pub resolving: Option<Duration>,
    /// Request sent, first byte of the answer not there yet. Of a foreign socket: the last word was this
    /// end's (by `tcpi_last_data_sent`, `tcpi_last_data_recv` and what was acknowledged), and none waits
    /// unread.
    #[serde(with = "seconds")]
    pub first_byte: Duration,
    /// Inside a body, blocked in recv with nothing queued.
    #[serde(with = "seconds")]
    pub socket_wait: Duration,
    /// CPU time spent in recv: the copy out of the socket.
    #[serde(with = "seconds")]
    pub receive_cpu: Duration,
    /// Decrypting.
    #[serde(with = "seconds")]
    pub decrypt: Duration,
    /// Wall time in write calls.
    #[serde(with = "seconds")]
    pub write: Duration,
    /// CPU time of these write calls; the rest was blocked.
    #[serde(with = "seconds")]
    pub write_cpu: Duration,
    /// Asleep for our own `--limit-rate`.
    #[serde(with = "seconds")]
    pub limited: Duration,
    /// Waiting for the consumer of our stdout.
    #[serde(with = "seconds")]
    pub output_wait: Duration,
    /// No work to do; the part of the interval in which a foreign connection did not exist.
    #[serde(with = "seconds")]
    pub idle: Duration,
    /// Requests sent.
    pub requests: u32,
    /// Objects finished.
    pub objects: u32,
    /// Fresh connections made.
    pub connects: u32,
    /// The lane's thread, from `/proc/self/task/TID/schedstat`.
    pub thread: Reading<ThreadInterval>,
    /// The lane's socket at the interval's end, and what changed in it, as the receiver of the data sees it.
    pub tcp: Reading<TcpInterval>,
    /// The same connection as the sender of the data sees it.
    pub sender: Reading<SenderInterval>,
    /// What the subject's own socket waited for, whichever way the data went.
    #[serde(skip_serializing_if = "Reading::is_missing")]
    pub waits: Reading<Waits>,
}

/// The receiver's view of one TCP connection (tcp_info by offset; Linux include/uapi/linux/tcp.h).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpInterval {
    /// Round trip measured by the receiver from its data (`tcpi_rcv_rtt`); zero-less: `None` until measured.
    /// Follows the application's period on an app-limited flow, so it only supports other evidence.
    #[serde(with = "seconds::optional")]
    pub receiver_rtt: Option<Duration>,
    /// Smallest round trip seen (`tcpi_min_rtt`), on a receiver from the handshake and its requests.
    #[serde(with = "seconds::optional")]
    pub min_rtt: Option<Duration>,
    /// Receive window now advertised (`tcpi_rcv_wnd`), bytes; kernel 6.2 and later.
    pub receive_window: Option<u64>,
    /// Upper clamp of the advertised window (`tcpi_rcv_ssthresh`), bytes.
    pub window_clamp: Option<u64>,
    /// Bytes waiting in the receive queue, mean over the interval's looks.
    pub receive_queue: Option<u64>,
    /// sk_rcvbuf, bytes.
    pub receive_buffer: Option<u64>,
    /// Segments that arrived out of order in this interval (`tcpi_rcv_ooopack`).
    pub out_of_order: u64,
    /// Data segments that arrived in this interval.
    pub segments: u64,
    /// Segments that this end sent again in it, which are its requests (`tcpi_total_retrans`); `None` where
    /// that was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resent: Option<u64>,
    /// Congestion control of this end (the sender's is not visible from here).
    pub congestion_control: Option<String>,
}

impl TcpInterval {
    /// The path's round trip: the smallest seen, unless a lost SYN is in it. Its first timer takes a second
    /// (RFC 6298, section 2), and where a receiver's only sample is the handshake, that second stays; what it
    /// measures from its data is then shorter by as much.
    pub(crate) fn shortest_rtt(&self) -> Option<Duration> {
        const SYN_TIMER: Duration = Duration::from_secs(1);
        let of_data = self.receiver_rtt.filter(|rtt| !rtt.is_zero());
        match (self.min_rtt, of_data) {
            (Some(least), Some(rtt)) if least >= SYN_TIMER.saturating_add(rtt / 2) => Some(rtt),
            (least, _) => least,
        }
    }
}

/// Processor use over an interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuInterval {
    /// Busy share of each processor, 0 to 1, soft interrupts included.
    pub busy: Vec<f64>,
    /// Processors' worth of that for programs that make room for all others (a positive nice value).
    pub niced: f64,
    /// Share of the interval in soft interrupts, busiest processor, 0 to 1.
    pub softirq: f64,
    /// Stolen by the hypervisor, worst processor, 0 to 1.
    pub steal: f64,
    /// CPU time of this whole process.
    #[serde(with = "seconds")]
    pub process: Duration,
}

/// Dirty pages (`/proc/vmstat`, and the device's own limit where one is set).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DirtyInterval {
    /// Dirty plus under writeback, bytes.
    pub dirty: u64,
    /// `nr_dirty_threshold`, bytes.
    pub threshold: u64,
    /// `nr_dirty_background_threshold`, bytes.
    pub background: u64,
    /// `/sys/class/bdi/MAJ:MIN/max_bytes` when `strict_limit` is set, bytes.
    pub device_limit: Option<u64>,
}

/// A block device over an interval (`/proc/diskstats`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskInterval {
    /// Bytes written to the device.
    pub written: u64,
    /// Bytes read from the device.
    pub read: u64,
    /// Share of the window with at least one request in flight, 0 to 1.
    pub busy: f64,
}
