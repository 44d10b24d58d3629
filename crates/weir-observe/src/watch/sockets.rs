//! Looks at the subject again and again, and makes evidence of it.
//!
//! Costs are kept in bounds by construction: sockets are read one by one, at most [`LANES`] of them; a scan
//! of all sockets is made so seldom that scans take a three-hundredth of one processor, and what new
//! processes open is peeked at for a tenth of one at most, while they are new.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use weir_model::around::Around;
use weir_model::evidence::{Clocks, Evidence, Facts, Interval, LaneInterval, Reading, ThreadInterval};
use weir_model::merge::merged;

use super::around::{Sample, Surroundings};
use super::cadence::{Cadence, SAMPLE_INTERVAL};
use super::discovery::{Discovery, Key, Scan, Sighting, Worker};
use super::lanes::{Closed, Lane, Others, ShortLived};
use super::link::Link;
use super::notes::Notes;
use super::outputs::Outputs;
use super::threads::Threads;
use super::totals::Totals;
use crate::ObserveError;
use crate::cgroup::Quota;
use crate::maps::{Map, Remembered};
use crate::nic::Routing;
use crate::pace::Pace;
use crate::process::{self, Pid};
use crate::sock_diag::{SocketId, TcpSocket, TcpState};
use crate::{Sampler, cpu, memory, reading, sysctl};

/// Connections looked at: the busiest. One more read of a socket takes about 5 us.
const LANES: usize = 64;

/// With more lanes than this, looks are fewer and intervals longer.
const FEW: usize = 16;

/// With more connections than this at one time the cost of finding them counts too, and looks are fewer
/// still.
const MANY: usize = 1000;

/// Intervals kept, by joining neighbours: half an hour at the finest grain costs some 10 MB with a lane.
const MOST_INTERVALS: usize = 2048;

/// Lanes that are over and kept for the report: a kilobyte or two each.
const MOST_PAST: usize = 1024;

/// Connections that ended unseen and whose peer is not (yet) known to be the subject's.
const MOST_PENDING: usize = 4096;

/// Watches one subject.
pub struct Watch {
    discovery: Discovery,
    /// What could not be seen.
    pub notes: Notes,
    /// What was seen so far.
    pub evidence: Evidence,
    /// Who did it.
    pub threads: Threads,
    lanes: Vec<Lane>,
    /// Lanes that are over, for the report.
    past: Vec<Lane>,
    outputs: Outputs,
    output: Option<std::path::PathBuf>,
    host: Sampler,
    quotas: HashMap<Pid, Quota>,
    /// Of the network namespace in which the subject lives, until the first peer is known.
    routing: Option<Result<Routing, ObserveError>>,
    around: Surroundings,
    /// The interface to the first peer that is not this machine, or the reason why it is not watched.
    link: Option<Reading<Link>>,
    /// What was lost there.
    pub losses: Vec<String>,
    others: Others,
    /// Bytes of the connections beyond the lanes, in this interval.
    rest: (u64, u64),
    pending: Vec<(f64, Key, TcpSocket)>,
    settled: Remembered<Key>,
    /// The other ends of connections that are the subject's at both.
    mates: Remembered<Key>,
    /// The run in numbers.
    pub totals: Totals,
    next_lane: u32,
    /// The lane of all connections that were over between two looks.
    short_lived_lane: u32,
    tree_cpu: Duration,
    cadence: Cadence,
    /// In the interval under way.
    looks: u32,
    scanned: Option<Instant>,
    scan_cost: Duration,
    /// A connection was found between two samples, which has no lane yet.
    found: bool,
    from_start: bool,
    /// Adds what the disk under the output takes alone, where a caller knows it.
    disk_alone: fn(&mut Facts),
}

impl Watch {
    /// `from_start`: the subject has only just begun, so that all its connections began after the watch.
    pub fn new(discovery: Discovery, notes: Notes, scope: Option<String>, from_start: bool) -> Watch {
        let now = Instant::now();
        let settings = || (sysctl::tcp_rmem().ok(), sysctl::wmem_max().ok(), sysctl::tcp_wmem_max().ok());
        let (rmem, wmem_max, tcp_wmem_max) = discovery.at_home(settings).unwrap_or_default();
        let facts = Facts {
            memory: memory::available(),
            tcp_rmem_max: rmem.map(|rmem| rmem.max),
            wmem_max,
            tcp_wmem_max,
            cpus: cpu::available_cpus(),
            to_stdout: true,
            clocks: Clocks::Sampled,
            scope,
            ..Facts::default()
        };
        let routing = discovery.at_home(Routing::open);
        Watch {
            discovery,
            notes,
            evidence: Evidence { facts, ..Evidence::default() },
            threads: Threads::default(),
            lanes: Vec::new(),
            past: Vec::new(),
            outputs: Outputs::default(),
            output: None,
            host: Sampler::new(None),
            quotas: HashMap::new(),
            routing,
            around: Surroundings::new(from_start),
            link: None,
            losses: Vec::new(),
            others: Others::default(),
            rest: (0, 0),
            pending: Vec::new(),
            settled: Remembered::default(),
            mates: Remembered::default(),
            totals: Totals::default(),
            next_lane: 1,
            short_lived_lane: 0,
            tree_cpu: Duration::ZERO,
            // Looks are what is counted, and time is what they take.
            cadence: Cadence::new(now, Duration::ZERO),
            looks: 0,
            scanned: None,
            scan_cost: Duration::ZERO,
            found: false,
            from_start,
            disk_alone: |_| {},
        }
    }

    /// With a caller's knowledge of what the disk named in the facts takes alone.
    pub fn with_disk_alone(self, disk_alone: fn(&mut Facts)) -> Watch {
        Watch { disk_alone, ..self }
    }

    /// With an output that is known beforehand.
    pub fn with_output(mut self, output: &std::path::Path) -> Watch {
        self.host = Sampler::new(Some(output));
        self.output = Some(output.to_owned());
        self
    }

    /// Who serves the sockets from now on, of a subject that is served.
    pub fn set_worker(&mut self, worker: Option<Worker>) {
        self.discovery.set_worker(worker);
    }

    /// How long the watch has run.
    pub fn elapsed(&self) -> Duration {
        self.cadence.elapsed(Instant::now())
    }

    /// The lanes of now and of before.
    pub fn all_lanes(&self) -> impl Iterator<Item = &Lane> {
        self.past.iter().chain(&self.lanes)
    }

    /// Whether any process of a tree is still there.
    pub fn is_alive(&self, root: Pid) -> bool {
        process::stat(root).is_ok_and(|stat| stat.state != 'Z')
    }

    /// Until the next look, in the mean, and how many of them make an interval.
    fn grain(&self) -> (Duration, u32) {
        match self.totals.at_once {
            _ if self.lanes.len() <= FEW => (SAMPLE_INTERVAL, 5),
            0..=MANY => (Duration::from_millis(50), 4),
            _ => (Duration::from_millis(100), 4),
        }
    }

    /// Until the next look, in the mean.
    pub fn pause(&self) -> Duration {
        self.grain().0
    }

    /// Sleeps until the next look is due, and peeks meanwhile at what processes open that have only just
    /// begun.
    pub fn rest(&mut self, pace: &mut Pace) {
        let due = pace.next(self.pause(), Instant::now());
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let Some(nap) = self.discovery.nap() else { return std::thread::sleep(left) };
            std::thread::sleep(left.min(nap));
            if nap < left {
                self.found |= self.discovery.peek();
            }
        }
    }

    /// One look at everything; `true` when it closed an interval.
    pub fn look(&mut self) -> bool {
        let now = Instant::now();
        self.totals.looks += 1;
        self.looks += 1;
        if self.is_scan_due() {
            self.scan(now);
        }
        // Before the sockets: to read one waits for its lock, and then finds who held it as it let go.
        self.threads.look(&self.discovery.tables);
        self.look_at_lanes(self.lanes.len() <= FEW, now);
        self.take_ended(now);
        let (lanes, threads) = (&self.lanes, &self.threads);
        self.around.look(Sample { lanes, threads, discovery: &mut self.discovery, now });
        let due = self.looks >= self.grain().1;
        if due {
            self.close(now);
        }
        due
    }

    /// Reads the sockets of all lanes; of many not the other ends, which only support what its own end shows.
    fn look_at_lanes(&mut self, with_mates: bool, now: Instant) {
        let lanes = self.lanes.iter().enumerate();
        let (places, sockets): (Vec<usize>, Vec<(usize, SocketId)>) = lanes
            .flat_map(|(place, lane)| lane.sockets(with_mates).map(move |socket| (place, socket)))
            .unzip();
        let lanes = &mut self.lanes;
        self.discovery.read(&sockets, |place, socket| {
            lanes[places[place]].look(&sockets[place].1, socket, now);
        });
    }

    /// Closes the last interval and settles what is pending.
    pub fn finish(&mut self) {
        let now = Instant::now();
        self.look_at_lanes(true, now);
        self.take_ended(now);
        self.close(now);
        self.tell_unproven();
        self.tell_other_networks();
        self.say_what_was_left_out();
        self.tell_link();
        // A sliver has too few looks to be judged by itself: it is part of the interval before.
        let intervals = &mut self.evidence.intervals;
        if intervals.len() >= 2 && intervals.last().is_some_and(|last| last.span < Duration::from_millis(50))
        {
            let joined = merged(&intervals[intervals.len() - 2..]);
            intervals.truncate(intervals.len() - 2);
            intervals.push(joined);
        }
        self.evidence.facts.objects =
            self.evidence.intervals.iter().map(|interval| u64::from(interval.objects)).sum();
    }

    /// A line rate is a fact for predictions only where the transfer comes near: of a link twice as fast and
    /// more the next bottleneck, somewhere behind it, is not known, and a prediction must not go up to the
    /// link.
    fn tell_link(&mut self) {
        let rate =
            self.totals.received.max(self.totals.acked) as f64 / self.elapsed().as_secs_f64().max(1e-3);
        match &mut self.link {
            None => {}
            Some(Reading::Missing(why)) => self.notes.add(format!("the line rate: {why}")),
            Some(Reading::Value(link)) => {
                match link.rate(self.totals.acked > self.totals.received) {
                    Reading::Value(line) => {
                        self.evidence.facts.link_rate = Some(line.0).filter(|line| *line <= 2.0 * rate);
                    }
                    Reading::Missing(why) => self.notes.add(format!("the line rate: {why}")),
                }
                self.losses = link.losses();
                self.evidence.facts.shaper =
                    link.shaper().filter(|_| self.totals.acked > self.totals.received);
            }
        }
    }

    fn say_what_was_left_out(&mut self) {
        let at_once = self.totals.at_once;
        if at_once > LANES {
            let others = at_once - LANES;
            self.notes.add(format!(
                "of up to {at_once} connections at a time the {LANES} that moved most are judged; of the other {others} only \
                 bytes are counted"
            ));
        }
        if at_once > MANY {
            let pause = self.pause().as_millis();
            self.notes
                .add(format!("so many connections are looked at every {pause} ms instead of every 20 ms"));
        }
    }

    /// A three-hundredth of one processor, or a fiftieth while no connection is there and one may begin and
    /// end at any time, or while some end unseen; never more often than a look. Until the first connection of
    /// a new command is known, at each look for a few seconds: its peer is what later ones are known by.
    fn is_scan_due(&self) -> bool {
        let eager = self.lanes.iter().all(Lane::is_gone);
        let searching =
            self.from_start && self.totals.connections == 0 && self.elapsed() < Duration::from_secs(3);
        let (part, least) = match (searching || self.found, eager || self.discovery.misses()) {
            (true, _) => (5, 20),
            (_, true) => (50, 20),
            _ => (300, 250),
        };
        // However dear, every 5 s, or as often as takes a hundredth.
        let most = Duration::from_secs(5).max(self.scan_cost * 100);
        let pause = (self.scan_cost * part).max(Duration::from_millis(least)).min(most);
        self.scanned.is_none_or(|scanned| scanned.elapsed() >= pause)
    }

    fn scan(&mut self, now: Instant) {
        self.found = false;
        let first = self.scanned.replace(now).is_none();
        let began_before = first && !self.from_start;
        let Scan { sightings, cost, sweeps } = self.discovery.scan(&mut self.notes);
        self.scan_cost = cost;
        let moved = self.others.scanned(sightings.iter());
        self.admit(&sightings, &moved, began_before, now);
        let ends = sightings.iter().filter(|sighting| !self.mates.contains(&sighting.key)).count();
        self.totals.at_once = self.totals.at_once.max(ends);
        if sweeps {
            let there: HashSet<Key> = sightings.iter().map(|sighting| sighting.key).collect();
            self.settled.sweep(|key| there.contains(key));
            self.mates.sweep(|key| there.contains(key));
        }
        self.threads.rename();
        if !self.threads.refresh(&self.discovery) || self.threads.are_many() {
            self.notes.add("more than 32 threads: each is looked at only now and then");
        }
        self.outputs.refresh(&self.discovery.pids, &self.discovery.tables, !began_before);
        // What has ended gives its files back.
        let alive: HashSet<Pid> = self.discovery.pids.iter().copied().collect();
        self.quotas.retain(|pid, _| alive.contains(pid));
        for &pid in &self.discovery.pids {
            let Entry::Vacant(entry) = self.quotas.entry(pid) else { continue };
            match Quota::open(pid) {
                Ok(quota) => {
                    entry.insert(quota);
                }
                Err(ObserveError::Absent(why)) => self.notes.add(why),
                // It has ended.
                Err(_) => {}
            }
        }
    }

    /// Gives lanes to the busiest connections; the bytes of others are only counted.
    fn admit(
        &mut self,
        sightings: &[Sighting],
        moved: &Map<Key, (u64, u64)>,
        began_before: bool,
        now: Instant,
    ) {
        let known: Map<Key, usize> =
            self.lanes.iter().enumerate().map(|(at, lane)| (lane.key(), at)).collect();
        let mut fresh: Vec<&Sighting> = Vec::new();
        for sighting in sightings {
            match known.get(&sighting.key) {
                Some(&at) => self.lanes[at].update(sighting),
                None => fresh.push(sighting),
            }
        }
        let bytes = |key: &Key| moved.get(key).map_or(0, |(received, acked)| received + acked);
        // At first, when no bytes were counted yet, those that moved data last.
        fresh.sort_by_cached_key(|sighting| {
            let moved = &sighting.socket.moved;
            let quiet = moved.quiet.unwrap_or(Duration::MAX);
            (Reverse(bytes(&sighting.key)), quiet, Reverse(moved.received + moved.acked))
        });
        for sighting in fresh {
            // The other end of a connection is part of it, with a lane or without.
            if let Some(mate) = sighting.mate {
                let other = (sighting.key.0, mate.cookie);
                let first_seen = !self.settled.contains(&sighting.key);
                if self.mates.contains(&sighting.key) || (first_seen && self.settled.contains(&other)) {
                    self.settled.insert(sighting.key);
                    self.mates.insert(sighting.key);
                    if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.key() == other) {
                        lane.is_both_ends(sighting);
                    }
                    continue;
                }
            }
            let new = self.settled.insert(sighting.key);
            self.totals.connections += u64::from(new);
            if self.lanes.len() >= LANES && !self.make_room(sighting, moved) {
                let (received, acked) = moved.get(&sighting.key).copied().unwrap_or_default();
                self.rest = (self.rest.0 + received, self.rest.1 + acked);
                continue;
            }
            let local = sighting.socket.id.remote.ip().is_loopback()
                || sighting.socket.id.remote.ip() == sighting.socket.id.local.ip();
            self.evidence.facts.peer_is_local |= local;
            // Of a subject in several network namespaces the first one's routes are asked for.
            if !local && self.link.is_none() && sighting.key.0 == self.discovery.home() {
                self.link = self.routing.take().map(|routing| {
                    reading(routing.and_then(|routing| Link::to(routing, sighting.socket.id.remote.ip())))
                });
            }
            let from_start = new && !began_before;
            self.lanes.push(Lane::new(self.next_lane, sighting, from_start, now));
            self.next_lane += 1;
        }
    }

    /// Drops a lane that moved less than half of what this one did since the last scan; for an attempt to
    /// connect, which moves nothing, the one that has been silent for longest and moved nothing either.
    fn make_room(&mut self, sighting: &Sighting, moved: &Map<Key, (u64, u64)>) -> bool {
        const LITTLE: u64 = 2 << 10;
        let of = |key: Key| moved.get(&key).map_or(0, |(received, acked)| received + acked);
        let (bytes, connects) = (of(sighting.key), sighting.socket.state == TcpState::SYN_SENT);
        // Of thousands most are idle: all lanes are not gone through for each of them.
        if bytes <= LITTLE && !connects {
            return false;
        }
        let lanes = self.lanes.iter().enumerate();
        let least =
            lanes.map(|(at, lane)| (of(lane.key()), lane.is_under_way(), Reverse(lane.quiet()), at)).min();
        let Some((least, under_way, _, at)) = least else { return false };
        let worth = bytes > LITTLE.max(2 * least) || (connects && least == 0 && !under_way);
        if worth {
            let lane = self.lanes.swap_remove(at);
            self.past.push(lane);
        }
        worth
    }

    fn take_ended(&mut self, now: Instant) {
        let at = self.cadence.elapsed(now).as_secs_f64();
        for (key, socket) in self.discovery.ended(&mut self.notes) {
            if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.key() == key) {
                lane.end(&socket, now);
            } else if let Some(lane) = self.past.iter_mut().rev().find(|lane| lane.awaits_notice(key)) {
                // The kernel tells of a socket's end some time after it is gone (sock_diag_broadcast_destroy
                // is queued).
                let (received, acked) = lane.end_late(&socket, now);
                self.rest = (self.rest.0 + received, self.rest.1 + acked);
            } else if !self.settled.contains(&key) {
                // The oldest go: whose they were would be known by now.
                if self.pending.len() >= MOST_PENDING {
                    for (_, key, socket) in self.pending.drain(..MOST_PENDING / 2) {
                        if self.discovery.resembles(key, &socket) {
                            self.totals.unproven.add(&socket);
                        }
                    }
                }
                self.pending.push((at, key, socket));
            }
        }
    }

    fn close(&mut self, now: Instant) {
        if self.cadence.passed(now).is_zero() {
            return;
        }
        let interval = self.cadence.close(now);
        let (opened, span) = (interval.opened, interval.span);
        let throttled = self.quotas.iter_mut().map(|(pid, quota)| (*pid, quota.interval())).collect();
        let cpu = self.threads.close(&throttled, span);
        let threads = &self.threads;
        let mut closed: Vec<Closed> =
            self.lanes.iter_mut().filter_map(|lane| lane.close(opened, now, threads)).collect();
        self.threads.begin();
        closed.extend(self.settle(interval.at, span));
        let written = self.outputs.interval();
        let host = self.host.host_interval();
        self.follow_output();
        let (mut received, mut acked) = std::mem::take(&mut self.rest);
        for lane in &closed {
            received += lane.received;
            acked += lane.acked;
        }
        self.totals.received += received;
        self.totals.acked += acked;
        let lanes: Vec<LaneInterval> = closed.into_iter().filter_map(|closed| closed.lane).collect();
        let mut interval = Interval {
            // A relay moves the same bytes in and out.
            received: received.max(acked),
            written,
            programs: self.threads.programs(),
            around: Around {
                writer: self.threads.writer(&lanes),
                writes_unseen: self.threads.hidden_writes(&self.lanes),
                ..self.around.close((span, !cpu.is_zero()), &self.lanes, &mut self.discovery)
            },
            ..interval.evidence(host, lanes)
        };
        if let Reading::Value(seen) = &mut interval.cpu {
            seen.process = cpu;
        }
        self.evidence.push(interval, MOST_INTERVALS);
        self.looks = 0;
        let (gone, alive): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.lanes).into_iter().partition(Lane::is_gone);
        self.lanes = alive;
        self.past.extend(gone);
        // A service has many connections in a day; the report names those that moved most.
        if self.past.len() > 2 * MOST_PAST {
            self.past.sort_by_key(|lane| Reverse(lane.total.received + lane.total.acked));
            self.past.truncate(MOST_PAST);
            self.past.sort_by_key(|lane| lane.number);
        }
    }

    /// Connections that were over between two looks and are the subject's, as one lane of the interval that
    /// closes; those of earlier intervals are put there.
    fn settle(&mut self, at: f64, span: Duration) -> Option<Closed> {
        let thread = self.one_after_another(span);
        let (mine, pending): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|(_, key, socket)| self.discovery.proves(*key, socket));
        self.pending = pending;
        let mut here = ShortLived::default();
        let mut any = false;
        for (when, key, socket) in mine {
            if !self.settled.insert(key) {
                continue;
            }
            self.totals.connections += 1;
            self.totals.unseen += 1;
            if when >= at {
                here.add(&socket);
                any = true;
                continue;
            }
            let mut short_lived = ShortLived::default();
            short_lived.add(&socket);
            self.totals.received += short_lived.received;
            self.totals.acked += short_lived.acked;
            self.put_back(when, &short_lived);
        }
        any.then(|| here.close(self.short_lived_lane, span, thread))
    }

    /// Names what may have been the subject's but is not proven: what went to its servers, or, where a
    /// command's connections were all over before one was seen, to the busiest server of that time.
    fn tell_unproven(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let nothing_seen = self.from_start && self.totals.connections == 0;
        let sockets = pending.iter().map(|(_, _, socket)| socket);
        let guess = nothing_seen.then(|| self.discovery.busiest_server(sockets)).flatten();
        for (_, key, socket) in &pending {
            if guess == Some(socket.id.remote) || self.discovery.resembles(*key, socket) {
                self.totals.unproven.add(socket);
            }
        }
        if self.totals.unproven.connections > 0 && !process::sees_all() {
            self.notes.add(
                "some of the machine's processes are not shown here, so connections that ended unseen may be \
                 theirs: run weir why on the host as root",
            );
        }
    }

    /// Where no process was named, sockets are looked for in one network namespace only.
    fn tell_other_networks(&mut self) {
        if self.totals.connections > 0 || !self.discovery.takes_all() || self.discovery.is_told() {
            return;
        }
        let others = process::other_networks();
        let Some(pid) = others.first() else { return };
        let places = match others.len() {
            1 => "another".to_owned(),
            count => format!("{count} others"),
        };
        self.notes.add(format!(
            "only this network namespace was looked at, and processes live in {places}: \
             nsenter -t {pid} -n weir why looks into that of process {pid}"
        ));
    }

    /// Counts a connection in the interval in which it ended.
    fn put_back(&mut self, when: f64, short_lived: &ShortLived) {
        let Some(interval) = self.evidence.intervals.iter_mut().rev().find(|interval| interval.at <= when)
        else {
            return;
        };
        let thread = Reading::Missing("the process had ended before its connection was known".to_owned());
        let Some(lane) = short_lived.close(self.short_lived_lane, interval.span, thread).lane else { return };
        interval.received += lane.received;
        interval.objects += lane.objects;
        match interval.lanes.iter_mut().find(|other| other.lane == self.short_lived_lane) {
            Some(other) => {
                other.received += lane.received;
                other.objects += lane.objects;
                other.requests += lane.requests;
                other.connects += lane.connects;
            }
            None => interval.lanes.push(lane),
        }
    }

    /// The CPU time of the whole tree, children that ended included, as that of one thread: right where its
    /// programs run one after another, as a script's do.
    fn one_after_another(&mut self, span: Duration) -> Reading<ThreadInterval> {
        let root = self.discovery.pids.first().copied();
        let Some(Ok(stat)) = root.map(process::stat) else {
            return Reading::Missing("the process had ended".to_owned());
        };
        let now = stat.cpu + stat.children_cpu;
        let cpu = now.saturating_sub(std::mem::replace(&mut self.tree_cpu, now));
        // Two ticks of 10 ms may fall into an interval whose work lay before it.
        if self.totals.at_once > 1 || cpu > span + Duration::from_millis(20) {
            return Reading::Missing("several programs ran at the same time".to_owned());
        }
        let name = self.evidence.facts.scope.clone().unwrap_or_default();
        Reading::Value(ThreadInterval {
            name: Some(format!("{name} with its children")),
            cpu: cpu.min(span),
            ..ThreadInterval::default()
        })
    }

    /// The disk of the file that grows most is the one to watch.
    fn follow_output(&mut self) {
        if self.discovery.is_told() {
            return;
        }
        // A few lines of a log are no output.
        let Some((path, on)) = self.outputs.main(64 << 10) else { return };
        if self.output.as_deref() == Some(path) {
            return;
        }
        self.host = Sampler::of_file(path, on);
        self.output = Some(path.to_owned());
        let facts = &mut self.evidence.facts;
        facts.to_stdout = false;
        facts.disk = self.host.disk_name().value().map(|name| (*name).to_owned());
        (self.disk_alone)(facts);
    }
}
