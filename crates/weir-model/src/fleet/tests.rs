//! A fleet that is made up: hosts with a cap each and one that they share, and what they would tell of it.

use proptest::prelude::*;

use super::*;

/// When the made-up ledger begins.
const BEGIN: f64 = 1_000_000.0;

/// A host of it.
#[derive(Debug, Clone)]
struct Host {
    cap: f64,
    limit: HeldBy,
    /// Seconds from the beginning.
    joins: f64,
    leaves: f64,
    workers: u32,
}

impl Host {
    fn new(cap: f64) -> Host {
        let limit = HeldBy::Limit(Limit::SenderOrPath);
        Host { cap, limit, joins: 0.0, leaves: f64::INFINITY, workers: 1 }
    }

    fn joins(self, joins: f64) -> Host {
        Host { joins, ..self }
    }

    fn leaves(self, leaves: f64) -> Host {
        Host { leaves, ..self }
    }

    fn by(self, limit: Limit) -> Host {
        Host { limit: HeldBy::Limit(limit), ..self }
    }
}

/// What they tell of so many seconds in spans of `span`, over something that carries `shared` bytes a second,
/// with rates that vary by `noise`.
fn told(hosts: &[Host], shared: f64, seconds: u32, span: f64, noise: f64) -> FleetEvidence {
    let mut dice = fastrand::Rng::with_seed(7 + seconds as u64);
    let mut workers: Vec<WorkerEvidence> = Vec::new();
    for (number, host) in hosts.iter().enumerate() {
        for _ in 0..host.workers {
            workers.push(WorkerEvidence {
                host: format!("h{number}"),
                joined: BEGIN + host.joins,
                left: host.leaves.is_finite().then_some(BEGIN + host.leaves),
                spans: Vec::new(),
            });
        }
    }
    let mut moved = vec![0.0; hosts.len()];
    for step in 0..(f64::from(seconds) * 10.0) as u32 {
        let now = f64::from(step) / 10.0;
        let is_here = |host: &Host| host.joins <= now && now < host.leaves;
        let share = fair(hosts.iter().filter(|host| is_here(host)).map(|host| host.cap), shared);
        for (host, moved) in hosts.iter().zip(&mut moved).filter(|(host, _)| is_here(host)) {
            *moved += host.cap.min(share) / 10.0 * (1.0 + noise * (2.0 * dice.f64() - 1.0));
        }
        let mut first = 0;
        for (host, moved) in hosts.iter().zip(&mut moved) {
            let own = first..first + host.workers as usize;
            first = own.end;
            let age = now + 0.1 - host.joins;
            let is_over = (age / span).fract() < 0.099 / span || now + 0.1 >= host.leaves;
            if !is_here(host) || !is_over {
                continue;
            }
            for worker in &mut workers[own] {
                let from = worker.spans.last().map_or(worker.joined, |span| span.to);
                let bytes = (*moved / f64::from(host.workers)) as u64;
                let held = vec![(host.limit, 1.0)];
                worker.spans.push(WorkerSpan { from, to: BEGIN + now + 0.1, held, bytes });
            }
            *moved = 0.0;
        }
    }
    let ends = FleetEnds { source: FleetEnd::Far, target: FleetEnd::Folder };
    FleetEvidence { workers, ends, since: BEGIN, ..FleetEvidence::default() }
}

/// What each gets at most of `shared`.
fn fair(caps: impl Iterator<Item = f64>, shared: f64) -> f64 {
    let caps = weir_units::stats::sorted(caps);
    let (mut left, mut count) = (shared, caps.len() as f64);
    for cap in caps {
        if cap > left / count {
            return left / count;
        }
        (left, count) = (left - cap, count - 1.0);
    }
    f64::INFINITY
}

fn names(verdict: &FleetVerdict) -> Vec<&str> {
    verdict.outliers.iter().map(|odd| odd.host.as_str()).collect()
}

fn adds_hosts(verdict: &FleetVerdict) -> bool {
    verdict.advice.iter().any(|advice| advice.action.starts_with("add hosts"))
}

#[test]
fn each_limited_by_itself_is_told_by_a_trial_and_the_next_host_is_predicted() {
    let mut hosts = vec![Host::new(20e6); 4];
    hosts[3] = hosts[3].clone().joins(8.0);
    let verdict = explain(&told(&hosts, f64::INFINITY, 16, 1.0, 0.05));
    let trial = verdict.trial.as_ref().unwrap();
    assert_eq!((trial.outcome, trial.change), (TrialOutcome::Added, TrialChange::Joined), "{verdict:#?}");
    assert_eq!((trial.hosts.as_slice(), trial.others), (["h3".to_owned()].as_slice(), 3));
    assert_eq!(verdict.hold, FleetHold::Own);
    let next = verdict.next.unwrap();
    assert!(next.hosts == 5 && (next.rate / 100e6 - 1.0).abs() < 0.05, "{next:?}");
    assert!(adds_hosts(&verdict), "{:?}", verdict.advice);
    assert_eq!(verdict.limit, Some(MainLimit::One(Limit::SenderOrPath)));
}

#[test]
fn what_is_shared_is_named_by_whose_side_waits() {
    for (limit, end) in [
        (Limit::PathBandwidth, SharedEnd::Link),
        (Limit::SenderOrPath, SharedEnd::SourceOrLink),
        (Limit::Application, SharedEnd::Source),
        (Limit::RateLimit, SharedEnd::Source),
        (Limit::Disk, SharedEnd::Target),
        (Limit::CpuCore, SharedEnd::Machine),
    ] {
        let mut hosts = vec![Host::new(50e6).by(limit); 4];
        hosts.iter_mut().skip(2).for_each(|host| host.joins = 8.0);
        let verdict = explain(&told(&hosts, 60e6, 16, 1.0, 0.05));
        assert_eq!(verdict.hold, FleetHold::Shared(end), "{limit}: {verdict:#?}");
        assert_eq!(verdict.trial.as_ref().unwrap().outcome, TrialOutcome::Nothing);
        assert!(
            !adds_hosts(&verdict) && verdict.advice.iter().any(|one| one.action.starts_with("add no host"))
        );
        assert!(verdict.advice[0].action.starts_with("widen"), "{:?}", verdict.advice);
        assert!((verdict.next.unwrap().rate / 60e6 - 1.0).abs() < 0.05);
    }
}

#[test]
fn who_leaves_is_a_trial_too() {
    for (shared, outcome, hold) in [
        (60e6, TrialOutcome::Nothing, FleetHold::Shared(SharedEnd::SourceOrLink)),
        (1e12, TrialOutcome::Added, FleetHold::Own),
    ] {
        let mut hosts = vec![Host::new(50e6); 4];
        hosts.iter_mut().skip(2).for_each(|host| host.leaves = 8.0);
        let verdict = explain(&told(&hosts, shared, 16, 1.0, 0.05));
        let trial = verdict.trial.as_ref().unwrap();
        assert_eq!((trial.change, trial.outcome), (TrialChange::Left, outcome), "{verdict:#?}");
        assert_eq!(verdict.hold, hold);
    }
}

#[test]
fn spans_of_ten_seconds_tell_it_later() {
    let mut hosts = vec![Host::new(20e6); 5];
    hosts[4] = hosts[4].clone().joins(63.0);
    let early = explain(&told(&hosts, 60e6, 80, 10.0, 0.05));
    assert_eq!((early.trial, early.hold), (None, FleetHold::Unknown));
    let later = explain(&told(&hosts, 60e6, 140, 10.0, 0.05));
    assert_eq!(later.trial.unwrap().outcome, TrialOutcome::Nothing);
    let own = explain(&told(&hosts, 600e6, 140, 10.0, 0.05));
    assert_eq!(own.hold, FleetHold::Own);
}

#[test]
fn a_link_that_becomes_full_in_part_gives_no_number() {
    let mut hosts = vec![Host::new(30e6); 4];
    hosts.iter_mut().skip(2).for_each(|host| host.joins = 8.0);
    let verdict = explain(&told(&hosts, 100e6, 16, 1.0, 0.02));
    assert_eq!(verdict.trial.as_ref().unwrap().outcome, TrialOutcome::InPart, "{verdict:#?}");
    assert!(!adds_hosts(&verdict) && verdict.next.is_none());
}

#[test]
fn without_a_trial_more_hosts_are_not_advised_and_the_way_to_know_is() {
    let verdict = explain(&told(&vec![Host::new(20e6); 4], f64::INFINITY, 20, 1.0, 0.05));
    assert_eq!((verdict.hold, verdict.next), (FleetHold::Unknown, None));
    assert!(verdict.advice.iter().any(|one| one.action.contains("weir fleet set --workers 2")));
    assert!(verdict.missing.iter().any(|why| why.contains("no host came or went")), "{:?}", verdict.missing);
    let crowded = vec![Host { workers: 2, ..Host::new(20e6) }; 4];
    let verdict = explain(&told(&crowded, f64::INFINITY, 20, 1.0, 0.05));
    assert!(
        !verdict.advice[0].action.contains("--workers"),
        "a setting that counts workers: {:?}",
        verdict.advice
    );
    // Each fills its own processor: nothing is shared.
    let own = vec![Host::new(20e6).by(Limit::Verify); 4];
    assert_eq!(explain(&told(&own, f64::INFINITY, 20, 1.0, 0.05)).hold, FleetHold::Own);
}

#[test]
fn a_slow_host_is_named_with_its_own_word() {
    let mut hosts = vec![Host::new(20e6); 4];
    hosts[2] = Host::new(4e6).by(Limit::Disk);
    let verdict = explain(&told(&hosts, f64::INFINITY, 8, 1.0, 0.1));
    assert_eq!(names(&verdict), ["h2"], "{verdict:#?}");
    let odd = &verdict.outliers[0];
    assert_eq!((odd.limit, odd.peers), (Some(MainLimit::One(Limit::Disk)), 3));
    assert_eq!(odd.peers_limit, Some(Limit::SenderOrPath));
    assert!(odd.is_slow() && odd.intervals >= 7, "{odd:?}");
    let mend = &verdict.advice[0];
    assert!(mend.action.contains("mend h2") && mend.action.contains("disk"), "{mend:?}");
    assert!((mend.predicted_rate.unwrap() / 80e6 - 1.0).abs() < 0.1);
    assert!(verdict.advice[1].action.contains("take h2 out"));
}

#[test]
fn a_host_that_does_not_say_what_holds_it_is_convicted_of_nothing() {
    let mut hosts = vec![Host::new(20e6); 4];
    hosts[1] = Host { limit: HeldBy::NotJudged, ..Host::new(2e6) };
    let verdict = explain(&told(&hosts, f64::INFINITY, 10, 1.0, 0.05));
    assert_eq!(names(&verdict), ["h1"]);
    assert_eq!((verdict.outliers[0].limit, verdict.hosts[1].limit), (None, None));
    assert!(verdict.missing.iter().any(|why| why.starts_with("h1: what held is not judged")));
    assert!(verdict.advice[0].action.contains("does not say what holds it"));
    let silent = vec![Host { limit: HeldBy::NotJudged, ..Host::new(2e6) }; 4];
    let verdict = explain(&told(&silent, f64::INFINITY, 10, 1.0, 0.05));
    assert_eq!((verdict.limit, verdict.confidence), (None, 0.0));
}

#[test]
fn what_few_words_say_is_not_said_of_all_time() {
    let told_of = |judged: f64| {
        let mut evidence = told(&vec![Host::new(20e6); 4], f64::INFINITY, 20, 1.0, 0.05);
        for span in evidence.workers.iter_mut().flat_map(|worker| &mut worker.spans) {
            span.held = vec![(HeldBy::Limit(Limit::CpuCore), judged), (HeldBy::NotJudged, 1.0 - judged)];
        }
        explain(&evidence)
    };
    let silent = told_of(0.05);
    assert_eq!((silent.limit, silent.hold, silent.hold_confidence), (None, FleetHold::Unknown, 0.0));
    assert!(!adds_hosts(&silent), "{:?}", silent.advice);
    let (part, all) = (told_of(0.6), told_of(1.0));
    assert_eq!((part.hold, all.hold), (FleetHold::Own, FleetHold::Own));
    assert!(part.hold_confidence < all.hold_confidence, "{part:?}");
}

#[test]
fn a_word_that_explains_nothing_and_several_words_are_worth_less_than_one() {
    let confidence = |limits: [Limit; 2]| {
        let hosts: Vec<Host> = limits.iter().map(|limit| Host::new(20e6).by(*limit)).collect();
        explain(&told(&hosts, f64::INFINITY, 20, 1.0, 0.05)).confidence
    };
    let one = confidence([Limit::Disk; 2]);
    let unexplained = confidence([Limit::SenderOrPath; 2]);
    let several = confidence([Limit::Disk, Limit::CpuCore]);
    assert!(one > 0.9 && unexplained <= 0.6 && several < 0.2, "{one} {unexplained} {several}");
}

#[test]
fn silence_abstains() {
    let empty = explain(&FleetEvidence::default());
    assert_eq!((empty.limit, empty.hold, empty.rate), (None, FleetHold::Unknown, None));
    assert!(!empty.missing.is_empty() && empty.advice.is_empty() && empty.outliers.is_empty(), "{empty:?}");
    // Two have no peers; of two seconds nothing is said.
    let two = explain(&told(&[Host::new(20e6), Host::new(2e6)], f64::INFINITY, 20, 1.0, 0.05));
    assert!(two.outliers.is_empty() && two.missing.iter().any(|why| why.contains("two hosts have no peers")));
    let mut hosts = vec![Host::new(20e6); 4];
    hosts[2] = Host::new(1e6);
    let short = explain(&told(&hosts, f64::INFINITY, 2, 1.0, 0.05));
    assert!(short.limit.is_none() && short.outliers.is_empty(), "{short:?}");
    assert!(short.missing.iter().any(|why| why.contains("too short")), "{:?}", short.missing);
    // Nor of hosts that wait for nothing but themselves, whose words need no trial.
    let own = vec![Host::new(20e6).by(Limit::Verify); 4];
    for (seconds, span) in [(1, 1.0), (2, 1.0), (20, 10.0)] {
        let short = explain(&told(&own, f64::INFINITY, seconds, span, 0.05));
        assert_eq!((short.hold, short.hold_confidence), (FleetHold::Unknown, 0.0), "{short:?}");
        let why = "whether more hosts would bring more: too short to tell";
        assert!(short.missing.iter().any(|line| line == why), "{:?}", short.missing);
        assert!(!adds_hosts(&short), "{:?}", short.advice);
    }
    // One that is there and told nothing.
    let mut evidence = told(&vec![Host::new(20e6); 3], f64::INFINITY, 40, 1.0, 0.05);
    evidence.workers.push(WorkerEvidence { host: "mute".into(), joined: BEGIN, ..WorkerEvidence::default() });
    let verdict = explain(&evidence);
    let mute = verdict.hosts.iter().find(|host| host.host == "mute").unwrap();
    assert_eq!((mute.limit, mute.rate, mute.intervals), (None, None, 0));
    assert!(verdict.missing.iter().any(|why| why == "mute: nothing was told"), "{:?}", verdict.missing);
    assert!(names(&verdict).is_empty());
}

#[test]
fn hosts_that_run_out_of_work_are_no_trial() {
    let mut hosts = vec![Host::new(50e6); 4];
    hosts.iter_mut().skip(2).for_each(|host| host.leaves = 8.0);
    let mut evidence = told(&hosts, 60e6, 16, 1.0, 0.05);
    evidence.is_complete = true;
    evidence.workers.iter_mut().for_each(|worker| worker.left = worker.left.or(Some(BEGIN + 16.0)));
    let verdict = explain(&evidence);
    assert_eq!((verdict.trial, verdict.hold), (None, FleetHold::Unknown));
}

#[test]
fn hosts_without_work_are_not_slow_and_more_are_not_advised() {
    let mut hosts = vec![Host::new(20e6); 4];
    hosts[3].limit = HeldBy::NoWork;
    hosts[3].cap = 0.0;
    let verdict = explain(&told(&hosts, f64::INFINITY, 20, 1.0, 0.05));
    assert!(names(&verdict).is_empty(), "{verdict:#?}");
    assert_eq!(verdict.hosts[3].missing.as_deref(), Some("there was no work"));
    // Of time without work nothing is learnt about limits.
    let mut late = told(&hosts[3..], f64::INFINITY, 20, 1.0, 0.0);
    late.workers[0].spans[0].held = vec![(HeldBy::Limit(Limit::CpuCore), 0.5), (HeldBy::NoWork, 0.5)];
    let verdict = explain(&late);
    assert_eq!((verdict.limit, verdict.hosts[0].intervals), (None, 1), "{verdict:#?}");
    let idle = vec![Host { limit: HeldBy::NoWork, ..Host::new(0.0) }; 4];
    let verdict = explain(&told(&idle, f64::INFINITY, 20, 1.0, 0.05));
    assert!(verdict.advice[0].action.contains("give the hosts work"), "{:?}", verdict.advice);
    assert!(!adds_hosts(&verdict));
}

#[test]
fn many_workers_of_a_host_are_one_host() {
    let mut hosts = vec![Host::new(20e6); 4];
    hosts[1].workers = 8;
    let verdict = explain(&told(&hosts, f64::INFINITY, 12, 1.0, 0.05));
    assert_eq!((verdict.hosts.len(), verdict.hosts[1].workers), (4, 8));
    assert!(names(&verdict).is_empty(), "{verdict:#?}");
    let rate = verdict.hosts[1].rate.unwrap();
    assert!((rate / 20e6 - 1.0).abs() < 0.05, "{rate}");
}

#[test]
fn spans_that_make_no_sense_are_left_out() {
    let mut evidence = told(&vec![Host::new(20e6); 4], f64::INFINITY, 12, 1.0, 0.05);
    let sound = explain(&evidence);
    let bad = |from: f64, to: f64, share: f64| WorkerSpan {
        from,
        to,
        held: vec![(HeldBy::Limit(Limit::Disk), share)],
        bytes: u64::MAX,
    };
    let spans =
        [bad(f64::NAN, 1.0, 1.0), bad(5.0, 5.0, 1.0), bad(9.0, 2.0, f64::INFINITY), bad(-1e300, 1e300, 1.0)];
    evidence.workers[0].spans.extend(spans);
    evidence.workers[0].spans.push(bad(0.0, 1e300, 1.0));
    let verdict = explain(&evidence);
    assert_eq!(verdict.rate, sound.rate);
    assert_eq!(verdict.shares, sound.shares);
}

#[test]
fn confidence_is_the_share_that_is_right() {
    let mut dice = fastrand::Rng::with_seed(33);
    let (mut odd, mut hold) = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0));
    for _ in 0..400 {
        let (count, noise) = (dice.usize(3..9), 0.6 * dice.f64());
        let own = 20e6 + 20e6 * dice.f64();
        let mut hosts: Vec<Host> = (0..count).map(|_| Host::new(own * (0.9 + 0.2 * dice.f64()))).collect();
        let slow = dice.bool().then(|| dice.usize(0..count));
        if let Some(slow) = slow {
            hosts[slow].cap *= 0.1 + 0.5 * dice.f64();
        }
        let late = dice.usize(1..count);
        hosts.iter_mut().skip(late).for_each(|host| host.joins = 10.0);
        let all: f64 = hosts.iter().map(|host| host.cap).sum();
        let is_shared = dice.bool();
        let shared = if is_shared { all * (0.3 + 0.5 * dice.f64()) } else { all * 1.2 };
        let verdict = explain(&told(&hosts, shared, dice.u32(14..25), 1.0, noise));
        for found in &verdict.outliers {
            let is_right = slow.is_some_and(|slow| found.host == format!("h{slow}"));
            odd = (odd.0 + 1.0, odd.1 + f64::from(u8::from(is_right)), odd.2 + found.confidence);
        }
        if verdict.hold != FleetHold::Unknown {
            let is_right = is_shared == matches!(verdict.hold, FleetHold::Shared(_));
            hold = (hold.0 + 1.0, hold.1 + f64::from(u8::from(is_right)), hold.2 + verdict.hold_confidence);
        }
    }
    println!("odd hosts: said, right, stated {odd:?}; what holds: {hold:?}");
    assert!(odd.0 > 80.0 && hold.0 > 200.0, "{odd:?} {hold:?}");
    assert!(odd.1 >= odd.2 && hold.1 >= hold.2, "{odd:?} {hold:?}");
}

fn hosts() -> impl Strategy<Value = Vec<Host>> {
    let limit = prop::sample::select(vec![Limit::SenderOrPath, Limit::Disk, Limit::PathLoss, Limit::CpuCore]);
    let host = (1e6..50e6, limit, 0.0..10.0, 1..3_u32).prop_map(|(cap, limit, joins, workers)| Host {
        workers,
        ..Host::new(cap).by(limit).joins(f64::floor(joins))
    });
    prop::collection::vec(host, 1..8)
}

proptest! {
    #[test]
    fn the_order_of_hosts_workers_and_spans_does_not_matter(
        hosts in hosts(),
        shared in 10e6..200e6,
        seed: u64,
    ) {
        let mut evidence = told(&hosts, shared, 20, 1.0, 0.2);
        let first = explain(&evidence);
        let mut dice = fastrand::Rng::with_seed(seed);
        dice.shuffle(&mut evidence.workers);
        evidence.workers.iter_mut().for_each(|worker| dice.shuffle(&mut worker.spans));
        prop_assert_eq!(explain(&evidence), first);
    }

    #[test]
    fn one_of_equal_hosts_that_is_a_tenth_is_named_and_of_equal_ones_none(
        count in 3..12_usize,
        slow in 0..12_usize,
        noise in 0.0..0.3,
        seconds in 6..20_u32,
    ) {
        let mut hosts = vec![Host::new(20e6); count];
        let equal = explain(&told(&hosts, f64::INFINITY, seconds, 1.0, noise));
        prop_assert!(equal.outliers.is_empty(), "{:?}", equal.outliers);
        hosts[slow % count].cap /= 10.0;
        let verdict = explain(&told(&hosts, f64::INFINITY, seconds, 1.0, noise));
        prop_assert_eq!(names(&verdict), vec![format!("h{}", slow % count)]);
    }

    #[test]
    fn more_hosts_are_never_advised_where_a_shared_cap_is_full(
        fewer in 1..6_usize,
        more in 1..6_usize,
        own in 20e6..60e6,
        part in 0.2..1.0,
        noise in 0.0..0.3,
        leaves: bool,
    ) {
        let mut hosts = vec![Host::new(own); fewer + more];
        for host in hosts.iter_mut().skip(fewer) {
            *host = if leaves { host.clone().leaves(10.0) } else { host.clone().joins(10.0) };
        }
        // Full with all of them, if not before.
        let shared = own * (fewer + more) as f64 * part * 0.9;
        let verdict = explain(&told(&hosts, shared, 20, 1.0, noise));
        prop_assert!(!adds_hosts(&verdict), "{verdict:#?}");
        prop_assert!(verdict.hold != FleetHold::Own);
    }

    #[test]
    fn nothing_that_a_ledger_may_hold_ends_the_judge(
        spans in prop::collection::vec(
            (any::<f64>(), any::<f64>(), any::<f64>(), any::<u64>(), 0..5_usize, 0..4_usize), 0..40),
        since: f64,
        is_complete: bool,
    ) {
        let limits = [Limit::Disk, Limit::Reader].map(HeldBy::Limit);
        let by = [HeldBy::NoWork, HeldBy::NotJudged, limits[0], limits[1]];
        let mut evidence = FleetEvidence { since, is_complete, ..FleetEvidence::default() };
        for (from, to, share, bytes, host, held) in spans {
            let span = WorkerSpan { from, to, held: vec![(by[held], share)], bytes };
            let host = format!("h{host}");
            evidence.workers.push(WorkerEvidence { host, joined: from, left: None, spans: vec![span] });
        }
        explain(&evidence);
    }
}
