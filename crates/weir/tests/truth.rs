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
use std::time::{Duration, Instant};

use archive::Archive;
use cell::{Cell, Filter};
use lab::Lab;
use page::Page;
use parking_lot::{Mutex, MutexGuard};
use schedule::ScheduleOutcome;
use scores::{claims, margin};

/// Of verdicts that could know, the share that is right, as README claims of the whole matrix. The bound is
/// this less [`margin`]: verdicts on one run are no independent draws, so it counts runs.
const RIGHT: f64 = 0.99;

/// Of all verdicts, the share that convicts an innocent stage. As above, and more by as much.
const WRONG: f64 = 0.004;

/// Runs in which the cause did not bind: more would be a lab that does not do what it says.
const VOID: f64 = 0.1;

/// Captures that are judged at the least where there is a tcpdump, and of them the share that may name what
/// the live verdict of the same end does not.
const CAPTURES: u32 = 40;
const CONTRADICT: f64 = 0.1;

/// For so long rounds of the runs for which this machine was late are begun, unless half of all were in time.
const PATIENCE: Duration = Duration::from_mins(8);

/// One test at a time: each takes this machine's processors and sets what holds for all of it.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
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
    let page = if env::var_os("WEIR_TRUTH_JUDGE").is_some() {
        Page::judge(&archive, &cells).expect("runs to judge")
    } else {
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
        let goes_on = env::var_os("WEIR_TRUTH_RESUME").is_some();
        let outcome = schedule::run(&lab, &archive, &cells, goes_on);
        println!("{} cells in {:.0} s", cells.len(), start.elapsed().as_secs_f64());
        failed = report(&outcome);
        in_time(&lab, &archive, &cells, &mut failed)
    };
    std::fs::write(archive.path("matrix.md"), page.render()).expect("a file for the matrix");
    std::fs::write(archive.path("weak.txt"), page.weak()).expect("a file for what is weak");
    println!("{}\n{}", page.render(), page.weak());
    for (cell, programs, why) in &page.void {
        println!("void {cell} {}: {why}", programs.name());
    }
    let (late, runs) = (page.late.len(), page.runs);
    println!("in {late} of {runs} runs this machine did not keep the emulator's times");
    // Whoever took the processors from the emulator took them from the rest as well: few runs are left, and
    // none is clean.
    assert!(!page.is_mostly_late(), "not judged: this machine was late in {late} of {runs} runs");
    if tcpdump::is_there() && name == "sample" {
        assert!(page.offline.all() >= CAPTURES, "{} captures", page.offline.all());
    }
    let sums = page.sums();
    assert_eq!(failed, 0, "runs failed");
    assert!(sums.all() > 0, "nothing was judged");
    let (void, runs) = (page.void.len() - late, runs - late);
    assert!(void as f64 <= VOID * runs as f64, "{void} of {runs} runs are void");
    assert!(
        page.offline.contradictions() <= CONTRADICT,
        "{:.2} of captures contradict",
        page.offline.contradictions()
    );
    let counted = runs - void;
    assert!(sums.right_share() >= RIGHT - margin(RIGHT, counted), "{sums}");
    assert!(sums.wrong_share() <= WRONG + margin(WRONG, counted), "{sums}");
}

/// Judges the runs, and plays those again for which this machine was late, until half of all were in time.
fn in_time(lab: &Lab, archive: &Archive, cells: &[Cell], failed: &mut usize) -> Page {
    let start = Instant::now();
    loop {
        let page = Page::judge(archive, cells).expect("runs to judge");
        if !page.is_mostly_late() || start.elapsed() > PATIENCE {
            return page;
        }
        println!("in {} of {} runs this machine was late: played again", page.late.len(), page.runs);
        let late: Vec<Cell> = cells.iter().filter(|cell| page.late.contains(cell)).copied().collect();
        *failed += report(&schedule::run(lab, archive, &late, false));
    }
}

#[test]
fn the_bounds_are_what_readme_claims() {
    assert!(claims(&format!("{:.0} % were right where that end can know", 100.0 * RIGHT)));
    assert!(claims(&format!("{:.1} % named a limit that did not hold", 100.0 * WRONG)));
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
