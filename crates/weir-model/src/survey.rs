//! What a short look at both ends of a copy and at the path between them found, and what the law makes of it.
//!
//! Each end measures itself and tells the driver; numbers from another host are checked before they get here
//! ([`Source::is_sound`] and its like), since they are no better than that host.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Rate};

use crate::limit::Limit;
use crate::path::{buffer_for, window_rate};
use crate::pipeline::{Cost, Figure, Path, SSH_CIPHER, Whole, Work};
use crate::plan::{Inputs, Means, Plan};

/// Codecs in a survey, at most.
const MOST_FIGURES: usize = 64;

/// Seconds for a byte beyond which nobody computes: 1 byte per second.
const SLOWEST: f64 = 1.0;

/// A path on which so much of the time went into waiting for the peer's window is held by it.
const HELD: f64 = 0.5;

/// The data, where they lie.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Bytes of all files that are to be moved.
    pub bytes: u64,
    /// Those files.
    pub files: u64,
    /// Files, folders and links.
    pub entries: u64,
    /// Nothing was left out: a tree whose listing takes longer than anyone wants to wait is known in part.
    pub complete: bool,
    /// Bytes in holes, which are none of those.
    pub holes: u64,
    /// Files beside those that stay as they are at the target.
    pub unmoved: u64,
    /// Files of which only what differs from the target's version moves; all of them are in `bytes`.
    pub differing: u64,
    /// Bytes that ratios and speeds come from.
    pub sampled: u64,
    /// What each codec does to the data on one core of this machine.
    pub figures: Vec<Figure>,
    /// Processor seconds for a byte: finding and reading files.
    pub read: f64,
    /// Processor seconds for a byte: digests.
    pub digest: f64,
    /// Bytes per second that the disk gives; `None` where reading did not wait for one.
    pub disk: Option<f64>,
    /// Processors that this end may use.
    pub cpus: u32,
    /// `net.ipv4.tcp_wmem`, third number.
    pub wmem_max: Option<u64>,
}

/// Where the data are to go.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Processor seconds for a byte written into memory.
    pub write: f64,
    /// Processor seconds for a byte: digests.
    pub digest: f64,
    /// Seconds for a small file from nothing to its name, apart from its bytes.
    pub file: Option<f64>,
    /// Bytes per second that the disk takes past the memory; `None` where there is no disk, or it was not to
    /// be measured.
    pub disk: Option<f64>,
    /// Bytes that memory takes before writers are paced to the disk.
    pub memory: u64,
    /// Bytes free for this user.
    pub free: Option<u64>,
    /// Processors that this end may use.
    pub cpus: u32,
    /// `net.ipv4.tcp_rmem`, third number.
    pub rmem_max: Option<u64>,
}

/// A burst, as the end saw it that sent it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Bytes of records.
    pub bytes: u64,
    /// Processor seconds for a byte.
    pub cost: f64,
    /// Smallest round trip.
    pub rtt: Option<Duration>,
    /// Mean of the round trips at the end of the burst, with the queue that it made.
    pub loaded_rtt: Option<Duration>,
    /// Payload sent twice, as a share.
    pub again: f64,
    /// The largest window that the other end offered.
    pub window: Option<u64>,
    /// Share of the time in which that window held the lanes.
    pub window_limited: f64,
    /// Share of the time in which the send buffer did.
    pub buffer_limited: f64,
}

/// A burst, as the end saw it that received it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// Bytes of records.
    pub bytes: u64,
    /// Bytes per second once it was under way.
    pub rate: f64,
    /// Processor seconds for a byte.
    pub cost: f64,
}

/// A burst over so many lanes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// How many; 0 for ssh's channel.
    pub lanes: u32,
    /// At its sender.
    pub sent: Sent,
    /// At its receiver.
    pub received: Received,
}

/// What a copy waits for beside its bytes, as the session that measured met it; nothing where nobody measured
/// it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// From the command on until the far end talks: ssh's login, and a start of weir there.
    pub login: Duration,
    /// From then on until the first data connection stands.
    pub lanes: Duration,
    /// A question to the far end and its answer, over the control connection.
    pub turn: Duration,
}

/// Turns that a copy takes once its first data connection stands, beside those that its bytes wait for: its
/// files are offered and asked for, and that they are in their places is told and taken.
const TURNS: u32 = 2;

/// Part of a copy's time, from its command to its end, that its bytes take at least where their stage is
/// named as its limit. Of less than a tenth the fastest stage there is would save less than a tenth: what is
/// waited for is the login.
const SHARE: u32 = 10;

/// What a copy takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Foretold {
    /// From its first data connection on.
    pub moving: Duration,
    /// From the command to its end.
    pub total: Duration,
    /// What holds it from its first data connection on: `latency` where that is turns and round trips for the
    /// most part, and where its bytes are less than a [`SHARE`] of the whole.
    pub limit: Limit,
}

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Survey {
    /// The data.
    pub source: Source,
    /// Their place.
    pub target: Target,
    /// Over weir's own lanes, fewest lanes first; none where no connection passes.
    pub bursts: Vec<Burst>,
    /// Through ssh's channel, where that was worth measuring.
    pub ssh: Option<Burst>,
    /// Both ends are one machine.
    pub shared: bool,
    /// What there is to wait for beside the bytes.
    pub waits: Waits,
}

fn is_cost(seconds: f64) -> bool {
    (0.0..=SLOWEST).contains(&seconds)
}

fn is_rate(rate: f64) -> bool {
    rate > 0.0 && rate <= 1e15
}

fn is_share(share: f64) -> bool {
    (0.0..=1.0).contains(&share)
}

impl Source {
    /// Whether it can be: every number one that arithmetic survives.
    pub fn is_sound(&self) -> bool {
        let figure = |figure: &Figure| {
            figure.name.len() <= 40
                && figure.ratio > 0.0
                && figure.ratio <= 2.0
                && figure.compress.0 > 0.0
                && figure.decompress.is_none_or(|rate| rate.0 > 0.0)
        };
        self.figures.len() <= MOST_FIGURES
            && self.figures.iter().all(figure)
            && is_cost(self.read)
            && is_cost(self.digest)
            && self.disk.is_none_or(is_rate)
            && (1..=1 << 16).contains(&self.cpus)
    }
}

impl Target {
    /// As [`Source::is_sound`].
    pub fn is_sound(&self) -> bool {
        is_cost(self.write)
            && is_cost(self.digest)
            && self.file.is_none_or(|seconds| (0.0..=3600.0).contains(&seconds))
            && self.disk.is_none_or(is_rate)
            && (1..=1 << 16).contains(&self.cpus)
    }
}

impl Sent {
    /// As [`Source::is_sound`].
    pub fn is_sound(&self) -> bool {
        let time = |rtt: &Option<Duration>| rtt.is_none_or(|rtt| rtt < Duration::from_secs(3600));
        is_cost(self.cost)
            && time(&self.rtt)
            && time(&self.loaded_rtt)
            && [self.again, self.window_limited, self.buffer_limited].into_iter().all(is_share)
    }
}

impl Received {
    /// As [`Source::is_sound`].
    pub fn is_sound(&self) -> bool {
        is_cost(self.cost) && (0.0..=1e15).contains(&self.rate)
    }
}

impl Burst {
    /// The queue that the burst made stands on the path, or the link is known to be full otherwise: more
    /// lanes bring no more.
    pub fn fills_the_link(&self) -> bool {
        let queue = self.sent.rtt.zip(self.sent.loaded_rtt);
        let queued = queue.is_some_and(|(least, loaded)| loaded.as_secs_f64() > 1.33 * least.as_secs_f64());
        queued && self.sent.window_limited < HELD && self.sent.buffer_limited < HELD
    }
}

impl Survey {
    /// The burst that carried most; of those within a twentieth of it the one with the fewest lanes, as the
    /// tuner would keep it.
    pub fn best(&self) -> Option<&Burst> {
        let most = self.bursts.iter().map(|burst| burst.received.rate).fold(0.0, f64::max);
        self.bursts.iter().find(|burst| burst.received.rate >= 0.95 * most)
    }

    /// What the law needs.
    pub fn inputs(&self) -> Inputs {
        let own = self.best();
        let burst = own.or(self.ssh.as_ref()).cloned().unwrap_or_default();
        let link = Rate(burst.received.rate.max(1.0));
        let lanes = burst.lanes.max(1);
        let Survey { source, target, .. } = self;
        let path = Path {
            rtt: burst.sent.rtt.filter(|rtt| !rtt.is_zero()),
            window: self.window(&burst),
            source: source.disk.map(Rate),
            disk: target.disk.map(Rate),
            memory: Bytes(target.memory),
            cores: f64::from(source.cpus.max(1)),
            work: Some(self.work(&burst)),
            ..Path::of(link)
        };
        // Of what was not measured nothing is said, and a copy within a machine does not go by ssh.
        let means = match own {
            Some(_) if self.ssh.is_some() && !self.shared => vec![Means::Weir, Means::Ssh],
            Some(_) => vec![Means::Weir],
            None => vec![Means::Ssh],
        };
        Inputs {
            figures: source.figures.clone(),
            path,
            links: vec![link],
            means,
            ssh: self.ssh.as_ref().map_or(SSH_CIPHER, |burst| Rate(burst.received.rate.max(1.0))),
            cipher: None,
            lanes: Some(lanes),
            size: Bytes(source.bytes),
        }
    }

    /// The law for these inputs, with each copy as long as [`Survey::foretell`] has it: what was measured of
    /// the login and the turns stands in place of a transport's usual round trips.
    pub fn plan(&self, inputs: &Inputs) -> Plan {
        let mut plan = Plan::of(inputs);
        for cell in plan.columns.iter_mut().flat_map(|column| &mut column.cells) {
            let Foretold { total: time, limit, .. } = self.foretell(&cell.whole);
            let bytes = cell.whole.time.saturating_sub(cell.whole.opening);
            let opening = time.saturating_sub(bytes);
            cell.whole = Whole { time, opening, rate: Rate::of(inputs.size.0, time), limit };
        }
        plan
    }

    /// How long the copy takes of which the law says `whole`. The bytes of a small one are there before its
    /// words are exchanged.
    pub fn foretell(&self, whole: &Whole) -> Foretold {
        let Waits { login, lanes, turn } = self.waits;
        let turns = turn * TURNS;
        let bytes = whole.time.saturating_sub(whole.opening);
        let moving = bytes.saturating_add(turns);
        let total = moving.saturating_add(login).saturating_add(lanes);
        let waited = turns > bytes || bytes < total / SHARE;
        Foretold { moving, total, limit: if waited { Limit::Latency } else { whole.limit } }
    }

    /// A window that held the burst, as one that the law names: a hair below what it carried.
    fn window(&self, burst: &Burst) -> Option<Bytes> {
        let rtt = burst.sent.rtt.filter(|_| burst.sent.window_limited >= HELD)?;
        let each = burst.received.rate / f64::from(burst.lanes.max(1));
        Some(Bytes((each * rtt.as_secs_f64() * 0.999).max(1.0) as u64))
    }

    fn work(&self, burst: &Burst) -> Work {
        let Survey { source, target, .. } = self;
        let small = source.bytes as f64 / source.files.max(1) as f64;
        let file = target.file.unwrap_or_default() / small.max(1.0);
        Work {
            sender: Cost { payload: source.read + source.digest, wire: burst.sent.cost },
            sender_cores: f64::from(source.cpus.max(1)),
            receiver: Cost { payload: target.write + target.digest + file, wire: burst.received.cost },
            receiver_cores: f64::from(target.cpus.max(1)),
            shared: self.shared,
        }
    }

    /// Where the largest buffers that autotuning may make hold one connection below what the path carries.
    pub fn buffers(&self) -> Vec<Narrow> {
        let Some(best) = self.best() else { return Vec::new() };
        let Some(rtt) = best.sent.rtt.filter(|rtt| !rtt.is_zero()) else { return Vec::new() };
        narrow(Rate(best.received.rate), rtt, self.target.rmem_max, self.source.wmem_max)
    }
}

/// A kernel setting that ends below what a path asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Narrow {
    /// The end whose setting it is.
    pub setting: Setting,
    /// What the path has in flight when it is full.
    pub product: Bytes,
    /// Where it ends.
    pub allowed: Bytes,
    /// Where it should: twice the bandwidth-delay product, as a power of two.
    pub needed: Bytes,
    /// What one connection carries with it.
    pub now: Rate,
    /// What it would carry.
    pub then: Rate,
}

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// `net.ipv4.tcp_rmem` at the receiver.
    Receive,
    /// `net.ipv4.tcp_wmem` at the sender.
    Send,
}

/// The settings that end below the product of this rate and round trip.
pub fn narrow(rate: Rate, rtt: Duration, rmem_max: Option<u64>, wmem_max: Option<u64>) -> Vec<Narrow> {
    let product = crate::path::bdp(rate, rtt).0;
    let needed = buffer_for(product);
    let known = [(Setting::Receive, rmem_max), (Setting::Send, wmem_max)];
    let below = known.into_iter().filter_map(|(setting, allowed)| {
        let allowed = allowed.filter(|allowed| allowed / 2 < product)?;
        let now = window_rate(Bytes(allowed / 2), rtt)?;
        let (product, allowed, needed) = (Bytes(product), Bytes(allowed), Bytes(needed));
        Some(Narrow { setting, product, allowed, needed, now, then: rate })
    });
    below.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &str, ratio: f64, compress: f64) -> Figure {
        Figure { name: name.into(), ratio, compress: Rate(compress), decompress: Some(Rate(1e9)) }
    }

    fn survey(rate: f64) -> Survey {
        let burst = |lanes, rate: f64| Burst {
            lanes,
            sent: Sent {
                bytes: 1 << 20,
                cost: 0.5e-9,
                rtt: Some(Duration::from_millis(20)),
                loaded_rtt: Some(Duration::from_millis(40)),
                ..Sent::default()
            },
            received: Received { bytes: 1 << 20, rate, cost: 0.5e-9 },
        };
        Survey {
            source: Source {
                bytes: 1_000_000_000,
                files: 1,
                figures: vec![Figure::none(), figure("zstd-1", 0.4, 400e6), figure("zstd-9", 0.33, 50e6)],
                read: 0.2e-9,
                digest: 0.4e-9,
                cpus: 2,
                ..Source::default()
            },
            target: Target { write: 0.5e-9, digest: 0.4e-9, cpus: 2, ..Target::default() },
            bursts: vec![burst(1, rate), burst(4, 1.02 * rate)],
            ..Survey::default()
        }
    }

    #[test]
    fn more_lanes_count_only_where_they_bring_more() {
        assert_eq!(survey(10e6).best().unwrap().lanes, 1);
        let mut more = survey(10e6);
        more.bursts[1].received.rate = 30e6;
        assert_eq!(more.best().unwrap().lanes, 4);
        assert_eq!(Plan::of(&more.inputs()).columns[0].path.transport.connections, 4);
    }

    #[test]
    fn a_slow_link_wants_the_stronger_codec_and_a_fast_one_fills_processors() {
        let plan = |rate: f64, shared| {
            let survey = Survey { shared, ..survey(rate) };
            let inputs = survey.inputs();
            let plan = Plan::of(&inputs);
            let column = &plan.columns[0];
            (inputs.figures[column.best].name.clone(), column.cells[column.best].steady.limit)
        };
        assert_eq!(plan(10e6, true), ("zstd-9".to_owned(), Limit::PathBandwidth));
        assert_eq!(plan(5e9, true), ("none".to_owned(), Limit::CpuCore));
    }

    #[test]
    fn a_window_that_held_the_burst_is_named() {
        let mut held = survey(10e6);
        held.bursts.truncate(1);
        held.bursts[0].sent.window_limited = 0.9;
        let plan = Plan::of(&held.inputs());
        let cell = &plan.columns[0].cells[0];
        assert_eq!(cell.steady.limit, Limit::ReceiveWindow);
        assert!((cell.steady.rate.0 / 10e6 - 1.0).abs() < 0.01, "{cell:?}");
    }

    #[test]
    fn buffers_below_the_product_are_told_with_what_they_cost() {
        let rtt = Duration::from_millis(100);
        let narrow = narrow(Rate(125e6), rtt, Some(6 << 20), Some(64 << 20));
        assert_eq!(narrow.len(), 1, "{narrow:?}");
        assert_eq!((narrow[0].setting, narrow[0].needed), (Setting::Receive, Bytes(32 << 20)));
        assert!((narrow[0].now.0 / 31.5e6 - 1.0).abs() < 0.01, "{narrow:?}");
        assert_eq!(super::narrow(Rate(1e6), rtt, Some(6 << 20), Some(4 << 20)), []);
    }

    #[test]
    fn small_files_cost_the_target_time_by_their_number() {
        let mut many = Survey { shared: true, ..survey(1e9) };
        (many.source.files, many.target.file) = (250_000, Some(50e-6));
        let plan = Plan::of(&many.inputs());
        let cell = &plan.columns[0].cells[0];
        // 4 KB a file, 50 µs each on two processors.
        assert_eq!(cell.steady.limit, Limit::CpuCore);
        assert!((125e6..140e6).contains(&cell.steady.rate.0), "{cell:?}");
    }

    #[test]
    fn a_small_copy_is_held_by_its_turns_and_its_login() {
        let waits = Waits {
            login: Duration::from_millis(700),
            lanes: Duration::from_millis(100),
            turn: Duration::from_millis(50),
        };
        let of = |bytes: u64| {
            let mut survey = Survey { waits, ..survey(100e6) };
            survey.source.bytes = bytes;
            let plan = Plan::of(&survey.inputs());
            survey.foretell(&plan.columns[0].cells[0].whole)
        };
        let small = of(100_000);
        assert_eq!(small.limit, Limit::Latency);
        // Two turns, and three round trips of 20 ms until 100 KB are there.
        assert!((0.100..0.170).contains(&small.moving.as_secs_f64()), "{small:?}");
        assert_eq!(small.total - small.moving, Duration::from_millis(800));
        let none = of(0);
        assert_eq!((none.moving, none.limit), (waits.turn * 2, Limit::Latency));
        // Where a question takes next to no time, as within a machine, it is the login that is waited for,
        // and no stage of the bytes.
        let near = |bytes: u64| {
            let turn = Duration::from_micros(50);
            let mut survey = Survey { waits: Waits { turn, ..waits }, ..survey(100e6) };
            for burst in &mut survey.bursts {
                (burst.sent.rtt, burst.sent.loaded_rtt) = (Some(turn), Some(turn));
            }
            survey.source.bytes = bytes;
            let whole = Plan::of(&survey.inputs()).columns[0].cells[0].whole;
            assert_ne!(whole.limit, Limit::Latency);
            survey.foretell(&whole).limit
        };
        assert_eq!(near(1_000_000), Limit::Latency);
        assert_ne!(near(20_000_000), Limit::Latency);
        // 1 GB takes its 10 s, whatever is said beside it.
        let large = of(1_000_000_000);
        assert_ne!(large.limit, Limit::Latency);
        assert!((9.9..10.5).contains(&large.moving.as_secs_f64()), "{large:?}");
    }

    /// Inside ssh the law counts one round trip less, which decides nothing between ways that carry the same.
    #[test]
    fn the_best_way_is_one_that_was_measured_and_takes_as_long_as_foretold() {
        let waits = Waits {
            login: Duration::from_millis(700),
            lanes: Duration::from_millis(100),
            turn: Duration::from_millis(20),
        };
        let with = |ssh: Option<f64>, shared| {
            let mut survey = Survey { waits, shared, ..survey(50e6) };
            survey.ssh = ssh.map(|rate| Burst {
                received: Received { rate, ..Received::default() },
                ..survey.bursts[0].clone()
            });
            let inputs = survey.inputs();
            let plan = survey.plan(&inputs);
            let (column, cell) = plan.best_for(inputs.links[0]).unwrap();
            let first = &plan.columns[0];
            let foretold = survey.foretell(&first.cells[first.best].whole);
            assert_eq!((column, cell.whole.time), (first, foretold.total), "ssh {ssh:?}");
            let bytes = cell.whole.time - cell.whole.opening;
            assert_eq!(foretold.moving, bytes + waits.turn * 2, "what was foretold is foretold again");
            (column.path.transport.name, plan.columns.len())
        };
        assert_eq!(with(Some(50e6), false), ("weir", 2));
        assert_eq!(with(Some(2e6), false), ("weir", 2));
        assert_eq!(with(None, false), ("weir", 1));
        assert_eq!(with(Some(50e6), true), ("weir", 1), "within a machine");
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        let source = survey(1e6).source;
        assert!(source.is_sound());
        assert!(!Source { read: f64::NAN, ..source.clone() }.is_sound());
        assert!(!Source { cpus: 0, ..source.clone() }.is_sound());
        assert!(!Source { figures: vec![figure("x", -1.0, 1.0)], ..source.clone() }.is_sound());
        assert!(!Source { figures: vec![Figure::none(); 65], ..source }.is_sound());
        assert!(!Target { disk: Some(0.0), cpus: 1, ..Target::default() }.is_sound());
        assert!(!Received { rate: f64::INFINITY, ..Received::default() }.is_sound());
    }
}
