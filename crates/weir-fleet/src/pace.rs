//! How fast a fleet is, and when it will be done: from what its ledger said at several moments. No clock
//! here: the moments bring the ledger's own.

use std::collections::{BTreeMap, HashMap, VecDeque};

use weir_model::fleet::{FleetVerdict, Outlier};
use weir_model::verdict::MainLimit;

use crate::ledger::{FleetStatus, GONE, WorkerRow};

/// The rate that is shown: workers tell of their bytes once in ten seconds at the least (a third of their
/// lease), so a shorter time would show when they told.
const SHOWN: i64 = 10_000;

/// The rate that the end is foretold by: batches of a gigabyte and pauses of seconds do not move it much.
const FORETOLD: i64 = 60_000;

/// Below this a difference is of moments, not of a rate.
const LEAST: i64 = 2_000;

/// Statuses that are kept: those of a minute, a second apart.
const KEPT: usize = 64;

/// What was moved in some time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FleetRate {
    /// Bytes a second.
    pub bytes: f64,
    /// Objects a second, moved or found there; `None`: not known.
    pub objects: Option<f64>,
    /// Over so many seconds.
    pub seconds: f64,
}

/// When all will be done.
#[derive(Debug, Clone, PartialEq)]
pub enum ForetoldEnd {
    /// In so many seconds, at the rate of the last `over` seconds; `of_bytes`: the bytes that are left say
    /// so, not the number of objects.
    In {
        /// From now, seconds.
        seconds: f64,
        /// What the rate was taken over, seconds.
        over: f64,
        /// Bytes take longer than objects.
        of_bytes: bool,
    },
    /// It is done.
    Done,
    /// Why it cannot be told.
    Unknown(&'static str),
}

/// The workers of one host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostPace {
    /// Its name.
    pub host: String,
    /// Its workers that are there.
    pub workers: u64,
    /// Batches that they have.
    pub leased: u64,
    /// Of these, whose leases have ended.
    pub overdue: u64,
    /// Objects that they moved.
    pub objects: u64,
    /// Bytes that they moved, those of unfinished batches too.
    pub bytes: u64,
    /// Bytes a second; `None`: not known yet.
    pub rate: Option<f64>,
    /// What held most of their time of late, and its share.
    pub limit: Option<(String, f64)>,
    /// Milliseconds since any of them was heard of.
    pub silent: u64,
    /// How it differs from the others, in words.
    pub differs: Option<String>,
}

/// What is kept of a status.
struct Moment {
    now: i64,
    bytes: u64,
    objects: u64,
    workers: HashMap<i64, u64>,
}

/// What a ledger said of late.
#[derive(Default)]
pub struct FleetPace {
    moments: VecDeque<Moment>,
}

fn bytes_of(worker: &WorkerRow) -> u64 {
    worker.moved.bytes.saturating_add(worker.under_way)
}

impl FleetPace {
    /// One more status, later than those before.
    pub fn add(&mut self, status: &FleetStatus) {
        // A database's clock that was set back makes all that was seen before useless.
        if self.moments.back().is_some_and(|last| last.now > status.now) {
            self.moments.clear();
        }
        // What is asked oftener than once a second is kept once a second.
        if self.moments.len() > 1 && status.now - self.moments[self.moments.len() - 2].now < 1000 {
            self.moments.pop_back();
        }
        self.moments.push_back(Moment {
            now: status.now,
            bytes: status.moved.bytes.saturating_add(status.under_way),
            objects: status.moved.objects.saturating_add(status.same.objects),
            workers: status.workers.iter().map(|worker| (worker.id, bytes_of(worker))).collect(),
        });
        if self.moments.len() > KEPT {
            self.moments.pop_front();
        }
    }

    /// The first moment of the last `span` milliseconds, or the last one before them where there is none, and
    /// the newest.
    fn of_last(&self, span: i64) -> Option<(&Moment, &Moment)> {
        let newest = self.moments.back()?;
        let is_within = |moment: &&Moment| newest.now - moment.now <= span;
        let before = self.moments.iter().rev().skip(1);
        let first = before.clone().take_while(is_within).last().or_else(|| before.clone().next())?;
        (newest.now - first.now >= LEAST).then_some((first, newest))
    }

    fn rate_of_last(&self, span: i64) -> Option<FleetRate> {
        let (first, last) = self.of_last(span)?;
        let seconds = (last.now - first.now) as f64 / 1000.0;
        // Less than before: a lease ended, and what its holder had moved counts no more.
        let per = |last: u64, first: u64| last.saturating_sub(first) as f64 / seconds;
        Some(FleetRate {
            bytes: per(last.bytes, first.bytes),
            objects: Some(per(last.objects, first.objects)),
            seconds,
        })
    }

    /// The fleet's rate of late: between two moments, or where there was one alone by what the workers told.
    pub fn rate(&self, status: &FleetStatus) -> Option<FleetRate> {
        self.rate_of_last(SHOWN).or_else(|| {
            let told: Vec<_> = status.workers.iter().filter_map(|worker| worker.of_late.as_ref()).collect();
            let bytes = told.iter().map(|told| told.rate as f64).sum();
            let seconds = told.iter().map(|told| told.seconds).fold(0.0, f64::max);
            (!told.is_empty()).then_some(FleetRate { bytes, objects: None, seconds })
        })
    }

    /// When all will be done.
    pub fn end(&self, status: &FleetStatus) -> ForetoldEnd {
        if status.complete {
            return ForetoldEnd::Done;
        }
        if !status.sealed {
            return ForetoldEnd::Unknown("the plan is not whole");
        }
        if status.leased == 0 {
            return ForetoldEnd::Unknown(match (status.settings.paused, status.settings.draining) {
                (_, true) => "the fleet drains",
                (true, _) => "it is paused",
                _ => "nobody works",
            });
        }
        let rate = self.rate_of_last(FORETOLD).or_else(|| self.rate(status));
        let Some(rate) = rate else { return ForetoldEnd::Unknown("its rate is not known yet") };
        let left = left(status);
        let time = |left: u64, rate: f64| {
            if left == 0 { Some(0.0) } else { (rate > 0.0).then(|| left as f64 / rate) }
        };
        let objects = match rate.objects {
            None if left.0 > 0 => {
                return ForetoldEnd::Unknown("one look does not tell how many objects are done a second");
            }
            // None was done of late: large ones may be on their way, of which the bytes tell.
            Some(rate) if rate == 0.0 && left.1 > 0 => Some(0.0),
            rate => time(left.0, rate.unwrap_or(0.0)),
        };
        let bytes = time(left.1, rate.bytes);
        match (bytes, objects) {
            (Some(bytes), Some(objects)) if bytes.max(objects) > 0.0 => ForetoldEnd::In {
                seconds: bytes.max(objects),
                over: rate.seconds,
                of_bytes: bytes >= objects,
            },
            (Some(_), Some(_)) => ForetoldEnd::Unknown("sizes are not known, and no object was done of late"),
            _ => ForetoldEnd::Unknown("nothing has moved of late"),
        }
    }

    /// The hosts whose workers are there, those that differ first, and how many workers are gone: heard of
    /// no more, without having left.
    pub fn hosts(&self, status: &FleetStatus, verdict: Option<&FleetVerdict>) -> (Vec<HostPace>, u64) {
        let before = self.of_last(SHOWN);
        let mut hosts = BTreeMap::<&str, (HostPace, BTreeMap<&str, f64>)>::new();
        let mut gone = 0;
        for worker in status.workers.iter().filter(|worker| !worker.departed) {
            if worker.is_gone() {
                gone += 1;
                continue;
            }
            let (host, limits) =
                hosts.entry(&worker.host).or_insert_with(|| (empty(&worker.host), BTreeMap::new()));
            host.workers += 1;
            host.leased += worker.leased;
            host.overdue += worker.overdue;
            host.objects += worker.moved.objects;
            host.bytes += bytes_of(worker);
            host.silent = host.silent.min(worker.silent);
            let moved = before.and_then(|(first, last)| {
                let of = |moment: &Moment| moment.workers.get(&worker.id).copied();
                let seconds = (last.now - first.now) as f64 / 1000.0;
                Some(of(last)?.saturating_sub(of(first).unwrap_or(0)) as f64 / seconds)
            });
            if let Some(rate) = moved.or(worker.of_late.as_ref().map(|told| told.rate as f64)) {
                *host.rate.get_or_insert(0.0) += rate;
            }
            if let Some(told) = &worker.of_late {
                *limits.entry(&told.limit).or_default() += told.share;
            }
        }
        let hosts = hosts.into_values().map(|(host, limits)| {
            let most = limits.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
            let limit = most.map(|(limit, share)| (limit.to_owned(), share / host.workers as f64));
            HostPace { limit, ..host }
        });
        let mut hosts: Vec<HostPace> = hosts.collect();
        compare(&mut hosts, verdict);
        (hosts, gone)
    }
}

fn empty(host: &str) -> HostPace {
    HostPace {
        host: host.to_owned(),
        workers: 0,
        leased: 0,
        overdue: 0,
        objects: 0,
        bytes: 0,
        rate: None,
        limit: None,
        silent: u64::MAX,
        differs: None,
    }
}

/// Objects and bytes that are neither done nor given up; bytes under way are not left.
pub fn left(status: &FleetStatus) -> (u64, u64) {
    let done = status.moved.objects + status.same.objects + status.failed;
    let bytes = status.moved.bytes + status.same.bytes + status.under_way;
    (status.planned.objects.saturating_sub(done), status.planned.bytes.saturating_sub(bytes))
}

/// Says of each host how it differs from the others, and sorts those first that do: whose lease ended, who
/// says no word, and whom the verdict names, the slowest first.
fn compare(hosts: &mut [HostPace], verdict: Option<&FleetVerdict>) {
    let odd: HashMap<&str, (f64, String)> = verdict
        .iter()
        .flat_map(|verdict| &verdict.outliers)
        .map(|odd| (&*odd.host, (odd.rate / odd.peers_rate.max(1.0), of_peers(odd))))
        .collect();
    let mut order = HashMap::new();
    for host in hosts.iter_mut() {
        let (place, differs) = match odd.get(&*host.host) {
            _ if host.overdue > 0 => (0.0, Some(format!("{} of its leases ended", host.overdue))),
            _ if host.silent > GONE => (0.1, Some("no word of late".to_owned())),
            Some((share, words)) => (1.0 + share, Some(words.clone())),
            None => (f64::MAX, None),
        };
        host.differs = differs;
        order.insert(host.host.clone(), place);
    }
    let place = |host: &HostPace| order.get(&host.host).copied().unwrap_or(f64::MAX);
    hosts.sort_by(|a, b| place(a).total_cmp(&place(b)).then_with(|| a.host.cmp(&b.host)));
}

/// `moves 10 % of what its peers do`.
pub fn of_peers(odd: &Outlier) -> String {
    let share = odd.rate / odd.peers_rate.max(1.0) * 100.0;
    let others = odd.peers_limit.filter(|limit| odd.limit != Some(MainLimit::One(*limit)));
    let others = others.map(|limit| format!(", which are held by {limit}")).unwrap_or_default();
    let own = odd.limit.map(|limit| format!("{limit}: ")).unwrap_or_default();
    format!("{own}moves {share:.0} % of what its {} peers do{others}", odd.peers)
}

#[cfg(test)]
mod tests {
    use weir_model::limit::Limit;

    use super::*;
    use crate::ledger::{FleetSettings, OfLate, Tally};

    fn worker(id: i64, host: &str, bytes: u64) -> WorkerRow {
        WorkerRow {
            id,
            host: host.to_owned(),
            pid: 1,
            version: "1".to_owned(),
            silent: 1000,
            departed: false,
            leased: 1,
            overdue: 0,
            moved: Tally { objects: 1, bytes },
            under_way: 0,
            of_late: Some(OfLate { limit: "disk".to_owned(), share: 0.9, rate: 100, seconds: 20.0 }),
        }
    }

    fn status(now: i64, workers: Vec<WorkerRow>) -> FleetStatus {
        let bytes = workers.iter().map(|worker| worker.moved.bytes).sum();
        FleetStatus {
            source: "a".to_owned(),
            target: "b".to_owned(),
            sealed: true,
            complete: false,
            planned: Tally { objects: 1000, bytes: 1_000_000 },
            moved: Tally { objects: workers.len() as u64, bytes },
            same: Tally::default(),
            failed: 0,
            waiting: 3,
            leased: workers.len() as u64,
            done: 0,
            under_way: 0,
            lost_leases: 0,
            overdue: 0,
            now,
            settings: FleetSettings::default(),
            failures: Vec::new(),
            workers,
        }
    }

    #[test]
    fn one_look_knows_what_workers_told_and_two_what_was_moved() {
        let mut pace = FleetPace::default();
        let first = status(1_000_000, vec![worker(1, "a", 1000), worker(2, "a", 1000)]);
        pace.add(&first);
        assert_eq!(pace.rate(&first).map(|rate| (rate.bytes, rate.seconds)), Some((200.0, 20.0)));
        // Workers tell of bytes alone: hundreds of small objects take longer than theirs.
        assert!(matches!(pace.end(&first), ForetoldEnd::Unknown(why) if why.starts_with("one look")));
        let second = status(1_005_000, vec![worker(1, "a", 6000), worker(2, "a", 1000)]);
        pace.add(&second);
        assert_eq!(pace.rate(&second).map(|rate| (rate.bytes, rate.seconds)), Some((1000.0, 5.0)));
        assert!(
            matches!(pace.end(&second), ForetoldEnd::In { seconds, of_bytes: true, .. } if seconds == 993.0)
        );
        // A minute later nothing has moved.
        for second in 1..=70 {
            pace.add(&status(1_005_000 + second * 1000, vec![worker(1, "a", 6000), worker(2, "a", 1000)]));
        }
        assert_eq!(pace.end(&second), ForetoldEnd::Unknown("nothing has moved of late"));
        // The database's clock was set back.
        pace.add(&status(5, Vec::new()));
        assert!(pace.rate_of_last(SHOWN).is_none() && pace.moments.len() == 1);
    }

    #[test]
    fn hosts_that_differ_come_first_and_say_how() {
        let of = |bytes: u64| {
            let mut workers: Vec<_> = (0..50).map(|id| worker(id, &format!("h{id:02}"), bytes)).collect();
            (workers[40].overdue, workers[41].silent, workers[41].leased) = (1, GONE + 1, 0);
            workers
        };
        let mut pace = FleetPace::default();
        pace.add(&status(0, of(0)));
        let now = status(5000, of(50_000));
        pace.add(&now);
        let mut verdict = weir_model::fleet::explain(&weir_model::fleet::FleetEvidence::default());
        verdict.outliers.push(Outlier {
            host: "h20".to_owned(),
            rate: 10.0,
            peers_rate: 100.0,
            peers: 49,
            intervals: 6,
            limit: Some(MainLimit::One(Limit::Disk)),
            peers_limit: Some(Limit::PathLoss),
            confidence: 0.9,
        });
        let (hosts, gone) = pace.hosts(&now, Some(&verdict));
        let told: Vec<_> = hosts.iter().take(3).map(|host| (&*host.host, host.differs.as_deref())).collect();
        let slow = "disk: moves 10 % of what its 49 peers do, which are held by path-loss";
        assert_eq!(told, [("h40", Some("1 of its leases ended")), ("h20", Some(slow)), ("h00", None)]);
        assert_eq!((hosts.len(), gone), (49, 1));
        assert_eq!(hosts[2].rate, Some(10_000.0));
    }
}
