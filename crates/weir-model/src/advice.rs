//! What to change when a limit holds, and the rate that would bring.
//!
//! A prediction is made only from measured numbers: a rate per connection that grew with their number, a
//! window that a round trip turns over, a rate seen before a knee. Where only a ceiling is known, or nothing,
//! there is none.

mod around;
pub(crate) mod buffers;
mod copy;
mod far;
mod upload;
mod waits;

use serde::{Deserialize, Serialize};

use crate::evidence::{Clocks, Command, Evidence, Interval};
use crate::knee::Knee;
use crate::limit::Limit;
use crate::path::buffer_for;
use crate::rule::spent::{active, min_rtt, spent};
use crate::rule::{Context, cpu_core, disk, rate_limit, sender_or_path};
use crate::words::{bytes, percent, rate, seconds};
use weir_units::counted;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// What to do, as a sentence that begins with a verb.
    pub action: String,
    /// The rate it would bring, bytes per second, all else equal; `None` when the evidence supports no
    /// number.
    pub predicted_rate: Option<f64>,
}

impl Advice {
    pub(crate) fn new(action: impl Into<String>, predicted_rate: Option<f64>) -> Advice {
        Advice {
            action: action.into(),
            predicted_rate: predicted_rate.filter(|rate| rate.is_finite() && *rate > 0.0),
        }
    }
}

/// What advice is made from: a limit's time as one interval, and what the run showed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held<'a> {
    pub(crate) evidence: &'a Evidence,
    pub(crate) together: &'a Interval,
    pub(crate) knee: Option<Knee>,
    /// Bytes written in the whole run.
    pub(crate) written: u64,
}

/// What to do about this limit, most useful first.
pub(crate) fn advise(limit: Limit, held: &Held<'_>) -> Vec<Advice> {
    // Alone: time that a quota withheld need not have gone to other guests.
    if let Some(advice) = for_quota(limit, held) {
        return vec![advice];
    }
    let mut all = for_limit(limit, held);
    all.extend(for_steal(limit, held));
    all
}

fn for_limit(limit: Limit, held: &Held<'_>) -> Vec<Advice> {
    if let Some(advice) = held.foreign().then(|| far::advise(limit, held)).flatten() {
        return advice;
    }
    if limit == Limit::Application && !held.together.server_failing.is_zero() {
        return vec![Advice::new("ask who runs the server why it fails: weir asks again (--retries)", None)];
    }
    let facts = &held.evidence.facts;
    let own = match facts.command {
        Command::HostCopy => copy::advise(limit, held),
        Command::Get | Command::StoreCopy if facts.uploads => upload::advise(limit, held),
        Command::Get | Command::StoreCopy => None,
    };
    own.unwrap_or_else(|| for_download(limit, held))
}

/// Where a quota of its control group held threads back for a fifth of the time or more.
fn for_quota(limit: Limit, held: &Held<'_>) -> Option<Advice> {
    const MUCH: f64 = 0.2;
    let Interval { lanes, sending, receiving, span, .. } = held.together;
    let threads = lanes.iter().filter_map(|lane| lane.thread.value()).map(|thread| thread.throttled);
    // Of the lanes' own threads it is not said at which end they are.
    let all = [
        ("its control group", threads.max()),
        ("the sender's control group", sending.value().map(|end| end.throttled)),
        ("the receiver's control group", receiving.value().map(|end| end.throttled)),
    ];
    let held_back = all.into_iter().filter_map(|(whose, time)| Some((whose, time?.as_secs_f64())));
    // Of equals the last, which names the end.
    let (whose, time) = held_back.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (limit == Limit::CpuCore && time > 0.0 && time >= MUCH * span.as_secs_f64()).then(|| {
        Advice::new(
            format!(
                "raise the CPU quota of {whose} (cpu.max, docker --cpus, limits.cpu): more threads would share it, and a \
                 faster processor does not help"
            ),
            None,
        )
    })
}

/// A core that the hypervisor gives to others is full however its work is split.
fn for_steal(limit: Limit, held: &Held<'_>) -> Option<Advice> {
    const MUCH: f64 = 0.2;
    if limit != Limit::CpuCore {
        return None;
    }
    let steal = held.together.cpu.value().map(|cpu| cpu.steal).filter(|steal| *steal >= MUCH)?;
    let action = format!(
        "ask who runs the host of this virtual machine: its hypervisor gave {} of a processor to others",
        percent(steal)
    );
    Some(Advice::new(action, None))
}

/// What to do where nothing else is said of another program's transfer, of a copy or of an upload.
fn for_download(limit: Limit, held: &Held<'_>) -> Vec<Advice> {
    match limit {
        Limit::RateLimit => for_rate_limit(held),
        Limit::Application => vec![Advice::new(
            "change nothing here: ask who runs the server why its answers take that long",
            None,
        )],
        Limit::Latency => for_latency(held),
        Limit::DirtyThrottle => for_dirty_throttle(held),
        Limit::Disk => vec![for_disk(held)],
        Limit::Reader => {
            vec![Advice::new("make the consumer of the output faster, or write to a file (-o FILE)", None)]
        }
        Limit::Verify => vec![Advice::new("choose a faster digest: one thread computes it", None)],
        Limit::CpuCore => for_cpu_core(held),
        Limit::ReceiveWindow => for_receive_window(held),
        Limit::PathLoss => {
            if let Some(advice) = far::for_loss_alone(held) {
                return vec![advice];
            }
            let mut advice = held.more_connections("a loss slows only its own");
            advice.push(Advice::new(
                "ask for BBR on the sender (net.ipv4.tcp_congestion_control=bbr): it does not slow for loss",
                None,
            ));
            advice
        }
        Limit::SenderOrPath => for_sender_or_path(held),
        Limit::PathBandwidth => vec![Advice::new(
            "nothing to change at either end, the link is full: send less (compress), or use a faster link",
            None,
        )],
        Limit::SendBuffer => far::for_send_buffer(held),
        Limit::SourceDisk => vec![for_source_disk(held)],
        Limit::Compress => vec![Advice::new(
            if held.evidence.facts.codec_fixed {
                "choose a lighter codec, or leave the choice to weir (drop --codec)"
            } else {
                "give the sender more or faster processors: what compresses is chosen by what they and the link can do"
            },
            None,
        )],
        Limit::Decompress => vec![Advice::new("choose a codec that decompresses faster (lz4, zstd)", None)],
        Limit::Encrypt => vec![Advice::new(
            "processors with AES instructions on both ends; on a network that you alone use, --plain",
            None,
        )],
        Limit::RequestResponse => for_latency(held),
        Limit::ProtocolWindow | Limit::Nagle | Limit::PathMtu | Limit::Timeouts => waits::advise(limit, held),
        Limit::Memory => waits::advise(limit, held),
        Limit::Connect | Limit::Dns | Limit::ThinkTime => around::advise(limit, held),
        Limit::Upstream | Limit::Downstream => around::advise(limit, held),
    }
}

impl Held<'_> {
    /// It is another program's transfer, for which our own flags are no help.
    fn foreign(&self) -> bool {
        self.evidence.facts.scope.is_some() || self.evidence.facts.clocks == Clocks::Sampled
    }

    /// What its threads waited for from disk were pages that they touched.
    fn reads_pages(&self) -> bool {
        let threads = self.together.lanes.iter().filter_map(|lane| lane.thread.value());
        let most = threads.max_by_key(|thread| thread.found.reading_disk);
        most.is_some_and(|thread| thread.found.reads_pages())
    }

    /// Bytes per second while the limit held.
    fn rate(&self) -> f64 {
        let seconds = self.together.span.as_secs_f64();
        if seconds > 0.0 { self.together.received as f64 / seconds } else { 0.0 }
    }

    /// Lanes at work in the last interval that received something, one at least: what more is counted from.
    fn lanes(&self) -> u32 {
        let last = self.evidence.intervals.iter().rev().find(|interval| interval.received > 0);
        last.map_or(1, |interval| spent(interval).lanes.max(1))
    }

    /// The most lanes at work in any interval.
    fn most_lanes(&self) -> u32 {
        let most = self.evidence.intervals.iter().map(|interval| spent(interval).lanes).max();
        most.unwrap_or(0).max(self.lanes())
    }

    /// Bytes per second of one lane while it was at work under the limit.
    fn each(&self) -> f64 {
        let work: f64 = self.together.lanes.iter().map(|lane| active(lane, self.together)).sum();
        if work > 0.0 { self.together.received as f64 / work } else { 0.0 }
    }

    /// To use more connections than the run ever had, and what they would carry; nothing where a trial with
    /// more of them brought no more.
    fn more_connections(&self, why: &str) -> Vec<Advice> {
        if self.evidence.trials.iter().any(rate_limit::flat) {
            return Vec::new();
        }
        // Where the user asked for more than there ever was work for, yet more have none either.
        let (facts, most) = (&self.evidence.facts, self.most_lanes());
        if facts.lanes_fixed.is_some_and(|fixed| fixed > most) {
            return Vec::new();
        }
        let tried = self.evidence.trials.iter().map(|trial| trial.lanes_after.max(trial.lanes_before)).max();
        let now = tried.unwrap_or(0).max(most);
        let Some(lanes) = self.allowed(now.saturating_mul(2), now) else { return Vec::new() };
        // On one machine the other end's work takes the place of ours, so no rate follows from ours.
        let predicted = (self.each() > 0.0 && !facts.peer_is_local).then(|| self.each() * f64::from(lanes));
        vec![Advice::new(format!("use more connections (-c {lanes}): {why}"), predicted)]
    }

    /// As many as wanted, or the most that the command can be asked for and has work for; `None` where that
    /// is no more than now.
    fn allowed(&self, wanted: u32, now: u32) -> Option<u32> {
        let facts = &self.evidence.facts;
        let lanes = wanted.min(facts.command.most_lanes()).min(facts.most_at_once.unwrap_or(u32::MAX));
        (lanes > now).then_some(lanes)
    }

    /// Where the receiver's autotuning ends (`net.ipv4.tcp_rmem`, third number, bytes). What was read is the
    /// setting of the watched host, which is the receiver only where its side of the connections was seen.
    fn receive_most(&self) -> Option<u64> {
        let seen = self.together.lanes.iter().any(|lane| lane.tcp.value().is_some());
        self.evidence.facts.tcp_rmem_max.filter(|most| seen && *most > 0)
    }

    /// The rate of so many times the connections, where each is held by itself and no trial says otherwise.
    fn times(&self, times: f64) -> Option<f64> {
        let flat = self.evidence.trials.iter().any(rate_limit::flat);
        (!flat && self.each() > 0.0).then(|| self.each() * f64::from(self.lanes()) * times)
    }

    /// Smallest round trip of the connection, seconds.
    fn rtt(&self) -> Option<f64> {
        min_rtt(self.together, &Context::alone(self.evidence))
    }
}

/// What holds reads or writes before a disk that has room for more, which a faster one would not change.
const BEFORE_A_DISK: &str = "a limit of the control group (io.max, blkio.throttle), a network file system";

fn for_disk(held: &Held<'_>) -> Advice {
    let name = held.evidence.facts.disk.as_deref();
    let has_room = held.together.disk.value().filter(|disk| disk.busy < disk::BUSY);
    let action = match has_room {
        Some(disk) => format!(
            "look for what holds the writes before they reach {}, itself {} busy: {BEFORE_A_DISK}, a mount with sync",
            name.unwrap_or("the disk"),
            percent(disk.busy)
        ),
        None => format!("write to a faster disk than {}", name.unwrap_or("this one")),
    };
    Advice::new(action, None)
}

/// How busy the source's disk is, is not known: that of an interval is the output's.
fn for_source_disk(held: &Held<'_>) -> Advice {
    let action = if held.reads_pages() {
        "see whether its memory is short (swap in use, pages that a host took back); a mapped file can be read ahead \
         (madvise, MADV_WILLNEED)"
            .to_owned()
    } else {
        format!(
            "read the source from a faster disk, or ahead of need (larger reads, several at once); if its disk is not busy \
             (iostat -x), look for {BEFORE_A_DISK}"
        )
    };
    Advice::new(action, None)
}

fn for_rate_limit(held: &Held<'_>) -> Vec<Advice> {
    let seen = spent(held.together);
    if seen.limited > 0.0 {
        let cap = held.evidence.facts.rate_cap.map(|cap| format!(" of {}", rate(cap))).unwrap_or_default();
        let ceiling = core_ceiling(held.together).map(|(_, ceiling)| ceiling);
        let note = if ceiling.is_some() {
            ": one core is full only then; what the path carries beyond the cap was not tried"
        } else {
            ""
        };
        return vec![Advice::new(format!("raise or drop --limit-rate{cap}{note}"), ceiling)];
    }
    if !held.together.server_backoff.is_zero() {
        return vec![for_backoff(held)];
    }
    // Beyond what was tried, and found to carry more.
    let tried = rate_limit::scaled(&held.evidence.trials).map_or(0, |trial| trial.lanes_after);
    let now = tried.max(held.most_lanes());
    let Some(lanes) = held.allowed(now.saturating_mul(2), now) else {
        return vec![Advice::new(
            "ask the server's owner to let each connection carry more: weir opens no more of them",
            None,
        )];
    };
    let each = held.each();
    vec![Advice::new(
        format!(
            "use more connections (-c {lanes}), if the server's owner allows: each carries {}",
            rate(each)
        ),
        Some(each * f64::from(lanes)),
    )]
}

/// The server asks to wait: fewer requests at once help where there were several.
fn for_backoff(held: &Held<'_>) -> Advice {
    let facts = &held.evidence.facts;
    if held.most_lanes() <= 1 {
        let action = "come back when the server says, or ask its owner to allow more requests";
        return Advice::new(action, None);
    }
    let fewer = if facts.command.takes_jobs() && facts.objects > 1 { "-c 1 -j 1" } else { "-c 1" };
    Advice::new(format!("ask the server for less at once ({fewer}), or come back when it says"), None)
}

/// What our own limiter hides: the busiest thread's share of a core, and the rate at which it would fill it
/// (100 / utilisation). `None` without such a limiter, and below 5 % of a core: to multiply by more than
/// twenty is no measurement.
pub(crate) fn core_ceiling(interval: &Interval) -> Option<(f64, f64)> {
    let seconds = interval.span.as_secs_f64();
    let cpu = cpu_core::busiest_thread(interval).filter(|cpu| *cpu >= 0.05)?;
    let known = seconds > 0.0 && interval.received > 0 && spent(interval).limited > 0.0;
    known.then(|| (cpu, interval.received as f64 / seconds / cpu))
}

fn for_latency(held: &Held<'_>) -> Vec<Advice> {
    let lanes = held.lanes();
    // Fewer objects than four a lane leave little to do at the same time.
    if held.evidence.facts.objects >= 4 * u64::from(lanes) {
        return vec![for_more_at_once(held)];
    }
    let rtt = held.rtt().map(|rtt| format!(" of {}", seconds(rtt))).unwrap_or_default();
    vec![Advice::new(
        format!(
            "fetch several objects in one run, which keeps connections open, or from nearer: round trips{rtt} remain"
        ),
        None,
    )]
}

/// There is enough to do at the same time.
fn for_more_at_once(held: &Held<'_>) -> Advice {
    let facts = &held.evidence.facts;
    if facts.lanes_fixed.is_none() && facts.at_once_tried {
        return Advice::new("fetch from nearer: more at once was tried as far as it brought more", None);
    }
    let now = facts.lanes_fixed.unwrap_or(held.most_lanes());
    let more = held.allowed(now.saturating_mul(2), now);
    let how = match (facts.lanes_fixed, more) {
        (Some(_), _) if !facts.command.takes_jobs() => "leave out -c".to_owned(),
        (_, None) => {
            let action = format!("fetch from nearer: weir fetches no more than {now} objects at once");
            return Advice::new(action, None);
        }
        (Some(_), Some(more)) => format!("-j {more} without -c, or leave both out"),
        (None, Some(more)) if facts.command.takes_jobs() => format!("-j {more}"),
        (None, Some(more)) => format!("-c {more}"),
    };
    let times = more.map_or(2.0, |more| f64::from(more) / f64::from(now.max(1)));
    // On one machine the server's work takes the place of ours, so no rate follows from ours.
    let predicted = held.times(times).filter(|_| !facts.peer_is_local);
    Advice::new(format!("ask for more at once ({how}): round trips then pass side by side"), predicted)
}

fn for_dirty_throttle(held: &Held<'_>) -> Vec<Advice> {
    let mut advice = Vec::new();
    let Some(knee) = held.knee else { return advice };
    // Memory is worth advising where it was clearly faster than the disk, its rate was seen for a while, and
    // it is there: half of what is free, since other programs go on.
    let fits = held.evidence.facts.memory.is_none_or(|memory| held.written <= memory / 2);
    let faster = knee.before.filter(|before| fits && *before > 1.2 * knee.after && knee.bytes >= 4 << 20);
    if let Some(before) = faster {
        let limit = held.together.dirty.value().and_then(|dirty| dirty.device_limit);
        let knob = match limit {
            Some(_) => "the device's own limit (/sys/class/bdi/MAJ:MIN/max_bytes)",
            None => "vm.dirty_bytes and vm.dirty_background_bytes",
        };
        let size = bytes(held.written as f64);
        let action = format!("let memory take the whole file: {knob} above {size} (the disk follows later)");
        advice.push(Advice::new(action, Some(before)));
    }
    let disk = held.evidence.facts.disk.as_deref().unwrap_or("this disk");
    advice.push(Advice::new(format!("use a faster disk: {disk} sustains {}", rate(knee.after)), None));
    advice
}

fn for_cpu_core(held: &Held<'_>) -> Vec<Advice> {
    let facts = &held.evidence.facts;
    let lanes = held.lanes();
    let faster = |why: &str| vec![Advice::new(format!("use a faster processor: {why}"), None)];
    if held.evidence.trials.iter().any(|trial| rate_limit::flat(trial) && trial.lanes_before >= lanes) {
        return faster("more connections were tried and brought no more");
    }
    let Processors { at, all, free } = copy::processors(held).unwrap_or_else(|| Processors::here(held));
    if free == Some(0) {
        let busy = match all {
            1 => "the only one that may be used is".to_owned(),
            _ => format!("all {all} are"),
        };
        let action = format!("free a processor{at}: {busy} busy, more connections would only share them");
        return vec![Advice::new(action, None)];
    }
    // Twice the lanes is as far as a trial of the tuner goes at once; beyond, the next limit is not known.
    let wanted = lanes.saturating_add(free.map_or(lanes, |free| free.min(lanes)));
    let Some(more) = held.allowed(wanted, lanes) else { return faster("weir opens no more connections") };
    let Some(free) = free else {
        return vec![Advice::new(format!("use more connections (-c {more}) if processors are idle"), None)];
    };
    let shared = match facts.command {
        _ if !facts.peer_is_local => "",
        Command::HostCopy => ", though the other end on this machine needs them too",
        Command::Get | Command::StoreCopy => ", though the server on this machine needs them too",
    };
    let idle = counted(u64::from(free), "processor");
    vec![Advice::new(
        format!("use more connections (-c {more}): {idle} idle{at}{shared}"),
        (!facts.peer_is_local).then(|| held.each() * f64::from(more)),
    )]
}

/// The processors of one end.
struct Processors {
    /// Which, for the end of a clause: ` at the sender`; empty where there is one end alone.
    at: &'static str,
    all: u32,
    /// Without work, whole ones; `None` where that was not read.
    free: Option<u32>,
}

impl Processors {
    /// Those of the machine that judges.
    fn here(held: &Held<'_>) -> Processors {
        let free = cpu_core::free_cores(held.together).map(|free| free.floor() as u32);
        // As many as `free` counts: a quota or a set of processors may leave this process fewer.
        let all = held.together.cpu.value().map_or(held.evidence.facts.cpus, |cpu| cpu.busy.len() as u32);
        Processors { at: "", all, free }
    }
}

fn for_receive_window(held: &Held<'_>) -> Vec<Advice> {
    let facts = &held.evidence.facts;
    let lanes = held.lanes();
    let tried = rate_limit::scaled(&held.evidence.trials)
        .map(|trial| trial.rate_after)
        .filter(|rate| *rate > held.rate());
    let target = tried.or(held.times(2.0));
    let window = target.zip(held.rtt()).map(|(target, rtt)| target / f64::from(lanes) * rtt);
    let needed = window.map(|window| buffer_for(window as u64));
    let grow = match (facts.receive_buffer, needed, held.receive_most()) {
        (Some(_), ..) => {
            let drop = "drop --recv-buffer, so that the kernel sizes it";
            // With as much again for the kernel's overhead (tcp(7)). The rate is this one's: how far the
            // kernel would go is not known.
            let action = window.map_or_else(
                || drop.to_owned(),
                |window| format!("give a --recv-buffer of {} or more (or {drop})", bytes(2.0 * window)),
            );
            Advice::new(action, target.filter(|_| window.is_some()))
        }
        (None, Some(needed), Some(most)) if needed <= most => buffers::held_by_another(most),
        (None, Some(needed), most) => {
            let setting = buffers::receive_setting(needed, most);
            Advice::new(format!("allow a larger receive buffer: {setting}"), target)
        }
        (None, None, _) => Advice::new("allow a larger receive buffer (net.ipv4.tcp_rmem)", target),
    };
    let mut advice = vec![far::unscaled(held).unwrap_or(grow)];
    advice.extend(held.more_connections("each has its own window"));
    advice
}

fn for_sender_or_path(held: &Held<'_>) -> Vec<Advice> {
    let context = Context::alone(held.evidence);
    let mut advice = Vec::new();
    if sender_or_path::servers_core(held.together, &context).is_some() {
        advice.push(Advice::new("look at the sender's threads on this machine (top -H)", None));
    }
    if let Some(trial) = rate_limit::scaled(&held.evidence.trials) {
        let each = trial.rate_after / f64::from(trial.lanes_after);
        // More may have followed the trial without one of their own, as where they then met the user's limit.
        let most = held.evidence.intervals.iter().map(|interval| interval.lanes.len()).max().unwrap_or(0);
        let now = trial.lanes_after.max(u32::try_from(most).unwrap_or(u32::MAX));
        if let Some(lanes) = held.allowed(trial.lanes_after.saturating_mul(2), now) {
            let action = format!("use more connections (-c {lanes}): each carried {} so far", rate(each));
            advice.push(Advice::new(action, Some(each * f64::from(lanes))));
        }
    } else if held.evidence.trials.is_empty() && held.evidence.facts.lanes_fixed.is_some() {
        let fixed_by = held.evidence.facts.command.fixed_by();
        let action = format!(
            "let weir choose the connections (drop {fixed_by}): a trial with more of them shows a cap per connection"
        );
        advice.push(Advice::new(action, None));
    }
    // Of a copy both ends are watched: the sender has been asked.
    if held.together.sending.value().is_some() && !advice.is_empty() {
        return advice;
    }
    advice.push(Advice::new(
        "look from the sender (ss -ti there): app_limited means its program, rwnd_limited or sndbuf_limited a buffer, a small cwnd the path",
        None,
    ));
    advice
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::evidence::{
        CpuInterval, DiskInterval, Facts, LaneInterval, Reading, TcpInterval, ThreadInterval, Trial,
    };
    use crate::stages::Stages;

    /// Of a second in which so many lanes received a megabyte together, over a round trip of 100 ms. Each
    /// brought as much as the first.
    fn advised(limit: Limit, facts: Facts, lanes: u32) -> Vec<Advice> {
        let lane = |lane| LaneInterval {
            lane,
            received: 1_000_000 / u64::from(lanes),
            tcp: Reading::Value(TcpInterval {
                min_rtt: Some(Duration::from_millis(100)),
                ..TcpInterval::default()
            }),
            ..LaneInterval::default()
        };
        let together = Interval {
            span: Duration::from_secs(1),
            received: 1_000_000,
            lanes: (0..lanes).map(lane).collect(),
            ..Interval::default()
        };
        let trial = Trial {
            at: 1.0,
            lanes_before: 1,
            lanes_after: lanes,
            rate_before: 1e6 / f64::from(lanes),
            rate_after: 1e6,
            kept: true,
        };
        let is_tried = facts.lanes_fixed.is_none() && lanes > 1;
        let trials = if is_tried { vec![trial] } else { Vec::new() };
        let evidence = Evidence { facts, trials, intervals: vec![together.clone()] };
        advise(limit, &Held { evidence: &evidence, together: &together, knee: None, written: 0 })
    }

    /// The numbers that follow `-c` and `-j`.
    fn counts(action: &str) -> Vec<u32> {
        let is_mark = |mark: char| !mark.is_ascii_alphanumeric() && mark != '-';
        let words: Vec<&str> = action.split(is_mark).collect();
        let named = words.windows(2).filter(|pair| matches!(pair[0], "-c" | "-j"));
        named.filter_map(|pair| pair[1].parse().ok()).collect()
    }

    #[test]
    fn a_quota_is_raised_whosever_run_it_holds() {
        let second = Duration::from_secs(1);
        let first = |command, uploads, held_back: Duration, end: Option<Duration>| {
            let thread = ThreadInterval { throttled: held_back, ..ThreadInterval::default() };
            let together = Interval {
                span: second,
                received: 1_000_000,
                lanes: vec![LaneInterval { thread: Reading::Value(thread), ..LaneInterval::default() }],
                cpu: Reading::Value(CpuInterval { busy: vec![1.0, 0.6], ..CpuInterval::default() }),
                sending: end.map_or_else(Reading::default, |throttled| {
                    Reading::Value(Stages { throttled, ..Stages::default() })
                }),
                ..Interval::default()
            };
            // The quota leaves it one of the machine's two.
            let facts = Facts { command, uploads, cpus: 1, ..Facts::default() };
            let evidence = Evidence { facts, intervals: vec![together.clone()], ..Evidence::default() };
            let held = Held { evidence: &evidence, together: &together, knee: None, written: 0 };
            advise(Limit::CpuCore, &held).swap_remove(0).action
        };
        for (command, uploads) in [(Command::Get, false), (Command::Get, true), (Command::HostCopy, false)] {
            let raised = first(command, uploads, second.mul_f64(0.9), None);
            assert!(raised.starts_with("raise the CPU quota of its control group"), "{raised}");
        }
        let at_sender = first(Command::HostCopy, false, Duration::ZERO, Some(second.mul_f64(0.9)));
        assert!(at_sender.starts_with("raise the CPU quota of the sender's control group"), "{at_sender}");
        let full = first(Command::Get, false, second.mul_f64(0.1), None);
        assert!(full.starts_with("free a processor: all 2 are busy"), "{full}");
    }

    #[test]
    fn a_disk_with_room_is_not_what_to_replace() {
        let advised = |busy| {
            let disk = Reading::Value(DiskInterval { busy, ..DiskInterval::default() });
            let together = Interval { span: Duration::from_secs(1), disk, ..Interval::default() };
            let facts = Facts { disk: Some("loop0".to_owned()), ..Facts::default() };
            let evidence = Evidence { facts, ..Evidence::default() };
            let held = Held { evidence: &evidence, together: &together, knee: None, written: 0 };
            advise(Limit::Disk, &held).swap_remove(0).action
        };
        let (idle, full) = (advised(0.01), advised(0.95));
        assert!(idle.contains("loop0, itself 1 % busy") && idle.contains("io.max"), "{idle}");
        assert!(full.starts_with("write to a faster disk than loop0"), "{full}");
    }

    #[test]
    fn less_at_once_is_advised_only_where_several_asked() {
        let second = Duration::from_secs(1);
        let advised = |lanes, objects| {
            let lane = |lane| LaneInterval { lane, received: 1000, ..LaneInterval::default() };
            let together = Interval {
                span: second,
                server_backoff: second,
                lanes: (0..lanes).map(lane).collect(),
                ..Interval::default()
            };
            let facts = Facts { objects, ..Facts::default() };
            let evidence = Evidence { facts, intervals: vec![together.clone()], ..Evidence::default() };
            let held = Held { evidence: &evidence, together: &together, knee: None, written: 0 };
            advise(Limit::RateLimit, &held).swap_remove(0).action
        };
        let (one, parts, files) = (advised(1, 6), advised(4, 1), advised(4, 6));
        assert!(one.starts_with("come back when the server says"), "{one}");
        assert!(parts.contains("(-c 1)"), "{parts}");
        assert!(files.contains("(-c 1 -j 1)"), "{files}");
    }

    #[test]
    fn more_at_once_counts_as_tried_only_where_it_was() {
        let first = |at_once_tried| {
            let facts = Facts { objects: 300, at_once_tried, ..Facts::default() };
            advised(Limit::Latency, facts, 6).swap_remove(0).action
        };
        assert!(first(false).contains("(-j 12)"), "{}", first(false));
        assert!(first(true).starts_with("fetch from nearer"), "{}", first(true));
    }

    #[test]
    fn a_rate_is_promised_of_the_buffer_that_it_was_computed_for() {
        let facts = Facts { receive_buffer: Some(65_536), ..Facts::default() };
        let advice = advised(Limit::ReceiveWindow, facts, 1);
        assert!(advice[0].action.starts_with("give a --recv-buffer of"), "{advice:?}");
        assert_eq!(advice[0].predicted_rate, Some(2e6));
    }

    #[test]
    fn no_line_lowers_what_all_sockets_may_have() {
        for clocks in [Clocks::Own, Clocks::Sampled] {
            let of = |most| {
                let facts = Facts { tcp_rmem_max: most, clocks, ..Facts::default() };
                advised(Limit::ReceiveWindow, facts, 1).swap_remove(0)
            };
            // 2 MB/s over 100 ms are 200 KB, so a buffer of 512 KiB.
            let (small, large, unread) = (of(Some(131_072)), of(Some(6 << 20)), of(None));
            assert!(small.action.contains("sysctl -w net.ipv4.tcp_rmem=\"4096 131072 524288\""), "{small:?}");
            assert!(small.predicted_rate.is_some(), "{small:?}");
            assert!(!large.action.contains("sysctl") && large.action.contains("6.29 MB"), "{large:?}");
            assert!(!unread.action.contains("sysctl") && unread.action.contains("524288"), "{unread:?}");
        }
    }

    #[test]
    fn no_more_connections_are_advised_than_the_command_takes() {
        let mut seen = 0;
        for command in [Command::Get, Command::StoreCopy, Command::HostCopy] {
            for (lanes, uploads) in [(1, false), (10, true), (40, false), (64, false), (64, true)] {
                for lanes_fixed in [None, Some(lanes)] {
                    let facts = || Facts { command, uploads, lanes_fixed, objects: 1000, ..Facts::default() };
                    let all = Limit::ALL.into_iter().flat_map(|limit| advised(limit, facts(), lanes));
                    for count in all.flat_map(|advice| counts(&advice.action)) {
                        let most = command.most_lanes();
                        assert!(count > lanes && count <= most, "{command:?}, {lanes} lanes: {count}");
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen > 20, "{seen}");
    }
}
