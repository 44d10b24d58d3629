//! What the pool hands to whom.

use super::*;

/// A pool of one job for each of `hosts`.
fn pool_of(hosts: &[&str]) -> Pool {
    let pool = Pool::new(hosts.len() as u32, true, 1);
    for host in hosts {
        pool.add(job_of(host));
    }
    pool.close();
    pool
}

fn job_of(host: &str) -> Job {
    Job {
        url: url::Url::parse(&format!("http://{host}/x")).unwrap(),
        home: None,
        output: crate::job::Output::Stdout,
        name: None,
        expectations: Vec::new(),
        pinned: None,
        piece: None,
    }
}

#[test]
fn a_lane_that_avoids_a_host_takes_work_of_another() {
    let pool = pool_of(&["seven", "seven", "eight"]);
    assert!(pool.admit());
    let host = job_of("seven").host();
    let avoids = |span: u64| Some(Avoid { host, until: Instant::now() + Duration::from_millis(span) });
    let opened = |avoids| match pool.next(0, avoids, &|| {}) {
        Work::Open(waiting) => waiting.job,
        _ => panic!("no job to open"),
    };
    assert_eq!(opened(avoids(60_000)), 2);
    assert_eq!(opened(avoids(1)), 0, "only for as long as it was asked to");
    assert_eq!(opened(None), 1);
}

#[test]
fn a_job_that_waits_for_its_name_holds_up_no_other() {
    let pool = pool_of(&["h", "h"]);
    assert!(pool.admit());
    let names = weir_observe::names::Names::default();
    let Work::Open(first) = pool.next(0, None, &|| {}) else { panic!("no job to open") };
    // A name that is known from the start: its job is taken up again after the other.
    pool.put_aside(first, names.look_up("localhost", Duration::ZERO));
    for expected in [1, 0] {
        assert!(matches!(pool.next(0, None, &|| {}), Work::Open(waiting) if waiting.job == expected));
    }
}

#[test]
fn only_the_last_lane_ends_a_run_that_cannot_start_it() {
    let pool = pool_of(&["seven", "eight"]);
    let why = io::Error::from(io::ErrorKind::WouldBlock);
    assert!(pool.admit() && pool.admit());
    pool.dismissed(&why);
    assert_eq!(pool.refusal(), None, "the other one does the work");
    pool.dismissed(&why);
    assert!(pool.refusal().is_some());
    assert!(matches!(pool.begin_bulk(0, 7, None), BulkPlace::Stopped));
}

#[test]
fn a_place_is_waited_for_no_longer_than_asked() {
    let pool = pool_of(&["h", "h"]);
    let timeout = Some(Duration::from_millis(1));
    assert_eq!(pool.begin_bulk(0, 7, timeout), BulkPlace::Taken);
    assert_eq!(pool.begin_bulk(1, 7, timeout), BulkPlace::NotYet);
    // One that did not get a place has none to give back.
    pool.end_bulk();
    assert_eq!(pool.begin_bulk(1, 7, None), BulkPlace::Taken);
    pool.stop();
    assert_eq!(pool.begin_bulk(0, 7, None), BulkPlace::Stopped);
}

/// The last file of a good host is open and in no list while it waits for the place of a lane whose host
/// is silent.
#[test]
fn a_host_that_is_silent_gives_its_place_to_the_last_job_too() {
    let pool = pool_of(&["seven", "eight"]);
    for _ in 0..2 {
        assert!(pool.admit());
        assert!(matches!(pool.next(0, None, &|| {}), Work::Open(_)));
    }
    let (silent, good) = (job_of("seven").host(), job_of("eight").host());
    assert_eq!(pool.begin_bulk(0, silent, None), BulkPlace::Taken);
    std::thread::scope(|scope| {
        let last = scope.spawn(|| pool.begin_bulk(1, good, Some(Duration::from_secs(60))));
        while pool.lock().held.is_empty() {
            std::thread::yield_now();
        }
        pool.set_stuck(vec![(silent, true)]);
        assert_eq!(last.join().unwrap(), BulkPlace::Taken);
    });
}

#[test]
fn a_run_is_over_when_all_are_given_and_have_ended() {
    let pool = Pool::new(1, true, 1);
    let number = pool.add(job_of("h"));
    assert!(pool.admit() && matches!(pool.next(0, None, &|| {}), Work::Open(_)));
    assert!(pool.ended(number, 5).is_some());
    assert!(pool.ended(number, 5).is_none(), "said twice");
    assert!(!pool.is_done(), "more may come");
    pool.set_count(Some(3));
    pool.add_ended(7);
    let census = pool.census();
    assert_eq!((census.finished, census.jobs, census.waiting, census.finished_bytes), (2, 3, 1, 12));
    pool.close();
    assert!(pool.is_done());
}
