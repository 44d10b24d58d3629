//! Is the verdict right? Runs whose cause is made and then checked are judged from each side, and the
//! verdicts counted.
//!
//! `cargo test` runs a fixed sample of the matrix (`sample`); `make truth` all of it, or the part that
//! `WEIR_TRUTH='cause=receive-buffer,cc=bbr'` names. Runs are kept under `target/truth/`, and
//! `WEIR_TRUTH_JUDGE=1` judges again what is kept there without running anything. docs/truth.md has the
//! published matrix and how to read it.

#[path = "truth/archive.rs"]
mod archive;
#[path = "truth/captures.rs"]
mod captures;
#[path = "truth/case.rs"]
mod case;
#[path = "truth/cell.rs"]
mod cell;
#[path = "truth/expect.rs"]
mod expect;
#[path = "truth/facts.rs"]
mod facts;
#[path = "truth/fetch.rs"]
mod fetch;
#[path = "truth/fleet.rs"]
mod fleet;
#[path = "truth/lab.rs"]
mod lab;
#[path = "truth/label.rs"]
mod label;
#[path = "truth/page.rs"]
mod page;
#[path = "truth/plan.rs"]
mod plan;
#[path = "truth/sample.rs"]
mod sample;
#[path = "truth/schedule.rs"]
mod schedule;
#[path = "truth/score.rs"]
mod score;
#[path = "support/score.rs"]
mod scores;
#[path = "truth/settled.rs"]
mod settled;
#[path = "truth/stores.rs"]
mod stores;
#[path = "support/mod.rs"]
mod support;
#[path = "support/tcpdump.rs"]
mod tcpdump;
#[path = "truth/traffic.rs"]
mod traffic;
#[path = "truth/watch.rs"]
mod watch;

use std::env;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use archive::Archive;
use cell::{Cell, Filter};
use lab::Lab;
use page::Page;
use schedule::ScheduleOutcome;

/// Of verdicts that could know, the share that must be right: the aim is 0.97. This is what the rules reach
/// today, less what two runs of the sample differ by; it goes up with them and never down.
const RIGHT: f64 = 0.94;

/// Of all verdicts, the share that may convict an innocent stage: the aim is 0.01. As above.
const WRONG: f64 = 0.03;

/// Runs in which the cause did not bind: more would be a lab that does not do what it says.
const VOID: f64 = 0.1;

/// Captures that are judged at the least where there is a tcpdump, and of them the share that may name what
/// the live verdict of the same end does not.
const CAPTURES: u32 = 40;
const CONTRADICT: f64 = 0.1;

/// One test at a time: each takes this machine's processors and sets what holds for all of it.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn verdicts_are_right() {
    let _alone = alone();
    let (name, cells) = match env::var("WEIR_TRUTH") {
        Ok(text) => {
            let filter = Filter::parse(&text).expect("WEIR_TRUTH");
            ("matrix", Cell::all().into_iter().filter(|cell| filter.admits(*cell)).collect())
        }
        Err(_) => ("sample", sample::cells()),
    };
    let archive = Archive::open(name).expect("a folder for the results");
    let mut failed = 0;
    if env::var_os("WEIR_TRUTH_JUDGE").is_none() {
        let lab = match Lab::open() {
            Ok(lab) => lab,
            Err(why) => {
                // No older matrix may stand for this run; there may be none.
                let _ = std::fs::remove_file(archive.path("matrix.md"));
                return skip(&format!("{why:#}"));
            }
        };
        if name == "sample" {
            archive.clear().expect("a folder for the runs");
        }
        let start = Instant::now();
        let outcome = schedule::run(&lab, &archive, &cells);
        println!("{} cells in {:.0} s", cells.len(), start.elapsed().as_secs_f64());
        failed = report(&outcome);
    }
    let page = Page::judge(&archive).expect("runs to judge");
    std::fs::write(archive.path("matrix.md"), page.render()).expect("a file for the matrix");
    std::fs::write(archive.path("weak.txt"), page.weak()).expect("a file for what is weak");
    println!("{}\n{}", page.render(), page.weak());
    for (cell, programs, why) in &page.void {
        println!("void {cell} {}: {why}", programs.name());
    }
    if tcpdump::is_there() && name == "sample" {
        assert!(page.offline.all() >= CAPTURES, "{} captures", page.offline.all());
    }
    let sums = page.sums();
    assert_eq!(failed, 0, "runs failed");
    assert!(sums.all() > 0, "nothing was judged");
    if page.late > 0 {
        println!("in {} of {} runs this machine did not keep the emulator's times", page.late, page.runs);
    }
    let mostly_late = page.late * 2 > page.runs;
    // Of the few that are left where most are late, a tenth may be no run at all.
    let runs = if mostly_late { page.runs } else { page.runs - page.late };
    let void = page.void.len() - page.late;
    assert!(void as f64 <= VOID * runs as f64, "{void} of {runs} runs are void");
    if mostly_late {
        // Whoever took the processors from the emulator took them from the rest as well: few runs are left,
        // and none is clean.
        println!("not held against the bounds: this machine was somebody else's");
        return;
    }
    assert!(
        page.offline.contradictions() <= CONTRADICT,
        "{:.2} of captures contradict",
        page.offline.contradictions()
    );
    assert!(sums.right_share() >= RIGHT, "{sums}");
    assert!(sums.wrong_share() <= WRONG, "{sums}");
}

/// Not a test: the program at one end of a run, which the runs start as a process of its own.
#[test]
#[ignore = "a program that the runs start"]
fn application() {
    traffic::application().expect("an application's work");
}

/// Prints what was not judged; returns how many runs failed.
fn report(outcome: &ScheduleOutcome) -> usize {
    for (cell, why) in &outcome.skipped {
        println!("skipped {cell}: {why}");
    }
    for (cell, programs, why) in &outcome.failed {
        println!("failed {cell} {}: {why}", programs.name());
    }
    outcome.failed.len()
}

/// Says why a test did not test. In CI that is a failure: there the machine has to be able to.
fn skip(why: &str) {
    assert!(env::var("CI").as_deref() != Ok("true"), "skipped in CI: {why}");
    println!("skipped: {why}");
}
