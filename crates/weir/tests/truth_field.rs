//! Is `weir why` right about real programs? Stories of slow transfers are played with the programs that
//! people use, each cause is made and then proven by a counter or by its mend, and `weir why` is asked at
//! both ends, through its command line alone.
//!
//! `cargo test` plays a sample of twelve; `make truth-field` all of them, or the part that
//! `WEIR_FIELD='kind=nagle,side=sender'` names. docs/truth-field.md has the published figures and how to read
//! them.

#[path = "truth_field/holds.rs"]
mod holds;
#[path = "truth_field/page.rs"]
mod page;
#[path = "truth_field/play.rs"]
mod play;
#[path = "truth_field/score.rs"]
mod score;
#[path = "support/score.rs"]
mod scores;
#[path = "truth_field/stage.rs"]
mod stage;
#[path = "truth_field/story.rs"]
mod story;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::scope;
use std::time::Instant;

use page::Page;
use score::{Line, Score};
use serde_json::Value;
use stage::Lab;
use story::{Case, Filter, View};

/// What the verdicts of the sample must reach. These are what the judge reaches today, less what two runs of
/// the sample differ by; they go up with it and never down. The aim: 0.90 honest, 0.03 misleading.
const BOUNDS: Bounds = Bounds { honest: 0.40, misleading: 0.45 };

struct Bounds {
    /// Of all verdicts, the share that is right, or abstains with a reason where its side cannot know.
    honest: f64,
    /// Of all verdicts, the share that convicts an innocent with more than half of confidence.
    misleading: f64,
}

/// Of all verdicts, those of runs whose cause did not bind: more would be stages that do not do what they
/// say.
const VOID: f64 = 0.15;

/// So many stories at a time: each has a few programs that mostly wait, on two hosts of its own.
const TOGETHER: usize = 3;

#[test]
fn verdicts_about_real_programs_are_right() {
    let (name, filter) = match env::var("WEIR_FIELD") {
        Ok(text) => ("field", Some(Filter::parse(&text).expect("WEIR_FIELD"))),
        Err(_) => ("field-sample", None),
    };
    let cases = story::all().expect("stories");
    let wanted = |case: &Case| filter.as_ref().map_or(case.sample, |filter| filter.admits(case));
    let cases: Vec<Case> = cases.into_iter().filter(wanted).collect();
    assert!(!cases.is_empty(), "no story is of that kind");
    let lab = match Lab::open(&binary()) {
        Ok(lab) => lab,
        Err(why) => return skip(&format!("{why:#}")),
    };
    let folder = folder(name);
    let begun = Instant::now();
    let field = Field {
        lab,
        folder,
        filter: filter.unwrap_or_default(),
        lines: Mutex::default(),
        failed: Mutex::default(),
    };
    field.play_all(&cases);
    println!("{} cases in {:.0} s", cases.len(), begun.elapsed().as_secs_f64());
    field.tell(&cases);
}

/// The program under test: of this build, or another one to compare with.
fn binary() -> PathBuf {
    env::var_os("WEIR_FIELD_BINARY").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_weir")), PathBuf::from)
}

/// `target/truth/NAME`, empty.
fn folder(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder has a name");
    let folder = target.join("truth").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("wrong")).expect("a folder for the results");
    folder
}

struct Field {
    lab: Lab,
    folder: PathBuf,
    filter: Filter,
    lines: Mutex<Vec<Line>>,
    failed: Mutex<Vec<String>>,
}

impl Field {
    fn play_all(&self, cases: &[Case]) {
        let (alone, together): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(|case| case.alone);
        for (cases, threads) in [(together, TOGETHER), (alone, 1)] {
            let next = AtomicUsize::new(0);
            scope(|scope| {
                for _ in 0..threads.min(cases.len()) {
                    scope.spawn(|| {
                        while let Some(case) = cases.get(next.fetch_add(1, Relaxed)) {
                            self.play(case);
                        }
                    });
                }
            });
        }
    }

    fn play(&self, case: &Case) {
        if let Some(program) = case.needs.iter().find(|program| !has(program)) {
            return println!("skipped {case}: no {program}");
        }
        let views: Vec<View> =
            case.views.iter().filter(|view| self.filter.admits_view(case, view)).cloned().collect();
        let played = match play::play(&self.lab, case, &views) {
            Ok(played) => played,
            Err(why) => return self.failed.lock().expect("no panic").push(format!("{case}: {why:#}")),
        };
        for (view, record, evidence) in &played.seen {
            let line = Line::of(case, view, &played, record);
            println!(
                "{} {}: {} ({:.0} %){}",
                line.score.name(),
                line.name(),
                line.said,
                100.0 * line.confidence,
                line.void.as_ref().map(|why| format!(" VOID {why}")).unwrap_or_default()
            );
            self.keep(&line, record, evidence).expect("a file for the result");
        }
    }

    /// A line of `results.jsonl`, and of a verdict that is not right its record and evidence.
    fn keep(&self, line: &Line, record: &Value, evidence: &Value) -> std::io::Result<()> {
        let mut lines = self.lines.lock().expect("no panic");
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        let mut file =
            fs::OpenOptions::new().create(true).append(true).open(self.folder.join("results.jsonl"))?;
        std::io::Write::write_all(&mut file, text.as_bytes())?;
        if matches!(line.score, Score::Missed | Score::Wrong) {
            let name = line.name().replace([' ', '/', ','], "-");
            fs::write(self.folder.join("wrong").join(format!("{name}.json")), evidence.to_string())?;
            fs::write(self.folder.join("wrong").join(format!("{name}.record.json")), record.to_string())?;
        }
        lines.push(line.clone());
        Ok(())
    }

    fn tell(self, cases: &[Case]) {
        let mut lines = self.lines.into_inner().expect("no panic");
        let place =
            |line: &Line| cases.iter().position(|case| case.story == line.story && case.point == line.point);
        lines.sort_by_key(place);
        let page = Page { lines };
        fs::write(self.folder.join("matrix.md"), page.render()).expect("a file for the matrix");
        println!("{}", page.render());
        for void in page.void() {
            println!("void {void}");
        }
        let failed = self.failed.into_inner().expect("no panic");
        for why in &failed {
            println!("failed {why}");
        }
        let sums = page.sums();
        assert!(failed.is_empty(), "{} runs failed", failed.len());
        assert!(sums.all() > 0, "nothing was judged");
        let void = page.void().len() as f64 / page.lines.len() as f64;
        assert!(void <= VOID, "{:.0} % of the verdicts are void", 100.0 * void);
        assert!(sums.honest() >= BOUNDS.honest, "right or abstained: {:.2}", sums.honest());
        assert!(sums.misleading() <= BOUNDS.misleading, "misleading: {:.2}", sums.misleading());
        println!("of {:?} said with 90 %; promises off by {:?}", page.sure(), page.promise_error());
    }
}

fn has(program: &str) -> bool {
    stage::folders().iter().any(|folder| Path::new(folder).join(program).exists())
}

/// Says why a test did not test. In CI that is a failure: there the machine has to be able to.
fn skip(why: &str) {
    assert!(env::var("CI").as_deref() != Ok("true"), "skipped in CI: {why}");
    println!("skipped: {why}");
}
