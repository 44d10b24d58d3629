//! Is `weir why` right about real programs? Stories of slow transfers are played with the programs that
//! people use, each cause is made and then proven by a counter or by its mend, and `weir why` is asked at
//! both ends, through its command line alone.
//!
//! `cargo test` plays a sample of twelve; `make truth-field` all of them, or the part that
//! `WEIR_FIELD='kind=nagle,side=sender'` names. `WEIR_FIELD_REJUDGE=FOLDER` judges again what an earlier run
//! kept there. docs/truth-field.md has the published figures and how to read them.

#[path = "truth_field/archive.rs"]
mod archive;
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

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::scope;
use std::time::Instant;

use archive::Archive;
use page::Page;
use score::{Line, Ran};
use scores::{claims, margin};
use serde_json::Value;
use stage::Lab;
use story::{Case, Filter, View};

/// Of all verdicts, the share that is right, or abstains with a reason where its side cannot know, as README
/// claims of all stories. The bound is this less [`margin`] of the stories that are played.
const HONEST: f64 = 0.95;

/// Of all verdicts, the share that convicts an innocent with more than half of confidence. As above, and more
/// by as much.
const MISLEADING: f64 = 0.018;

/// Of all verdicts, those of runs that failed or whose cause did not bind: more would be stages that do not
/// do what they say.
const VOID: f64 = 0.15;

/// So many stories at a time: each has a few programs that mostly wait, on two hosts of its own.
const TOGETHER: usize = 3;

#[test]
fn verdicts_about_real_programs_are_right() {
    let filter = env::var("WEIR_FIELD").ok().map(|text| Filter::parse(&text).expect("WEIR_FIELD"));
    let cases = story::all().expect("stories");
    if let Some(folder) = env::var_os("WEIR_FIELD_REJUDGE") {
        return rejudge(Path::new(&folder), &cases, &filter.unwrap_or_default());
    }
    let extent = match &filter {
        Some(filter) if filter.is_all() => Extent::All,
        Some(_) => Extent::Part,
        None => Extent::Sample,
    };
    let wanted = |case: &Case| filter.as_ref().map_or(case.sample, |filter| filter.admits(case));
    let cases: Vec<Case> = cases.into_iter().filter(wanted).collect();
    assert!(!cases.is_empty(), "no story is of that kind");
    let lab = match Lab::open(&binary()) {
        Ok(lab) => lab,
        Err(why) => return skip(&format!("{why:#}")),
    };
    let archive = Archive::begin(extent.folder()).expect("a folder for the results");
    let begun = Instant::now();
    let field = Field { lab, archive, filter: filter.unwrap_or_default(), lines: Mutex::default() };
    field.play_all(&cases, TOGETHER);
    if extent != Extent::Sample {
        field.play_the_void_again(&cases);
    }
    println!("{} cases in {:.0} s", cases.len(), begun.elapsed().as_secs_f64());
    field.tell(&cases, extent);
}

/// How much is played.
#[derive(Clone, Copy, PartialEq)]
enum Extent {
    Sample,
    Part,
    All,
}

impl Extent {
    /// Where its results are: a part does not take the place of the whole.
    fn folder(self) -> &'static str {
        match self {
            Extent::Sample => "field-sample",
            Extent::Part => "field-part",
            Extent::All => "field",
        }
    }
}

/// The program under test: of this build, or another one to compare with.
fn binary() -> PathBuf {
    env::var_os("WEIR_FIELD_BINARY").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_weir")), PathBuf::from)
}

/// Judges again what is kept, and prints what changed and the matrix. It asserts nothing: it is for trying
/// rules.
fn rejudge(folder: &Path, cases: &[Case], filter: &Filter) {
    // As `make` would read it: from the top of the sources.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let mut all = archive::judge_anew(&folder, cases).expect("a folder of kept results");
    let admitted = |line: &Line| {
        let case = cases.iter().find(|case| case.story == line.story && case.point == line.point);
        let views = case.into_iter().flat_map(|case| case.views.iter().map(move |view| (case, view)));
        views.into_iter().any(|(case, view)| view.side == line.side && filter.admits_view(case, view))
    };
    all.retain(|anew| admitted(&anew.line));
    assert!(!all.is_empty(), "nothing of {} is a story of that kind", folder.display());
    let page = Page { lines: all.iter().map(|anew| anew.line.clone()).collect() };
    println!("{}", page.render());
    for anew in &all {
        let (before, line) = (&anew.before, &anew.line);
        if (before.score, &before.said) != (line.score, &line.said) {
            println!(
                "changed {}: {} {} ({:.0} %), was {} {} ({:.0} %)",
                line.name(),
                line.score.name(),
                line.said,
                100.0 * line.confidence,
                before.score.name(),
                before.said,
                100.0 * before.confidence
            );
        }
    }
    let unkept = all.iter().filter(|anew| !anew.judged && anew.line.void.is_none()).count();
    if unkept > 0 {
        println!("{unkept} verdicts stand as they were said: their evidence is not kept");
    }
}

struct Field {
    lab: Lab,
    archive: Archive,
    filter: Filter,
    lines: Mutex<Vec<Line>>,
}

impl Field {
    fn play_all(&self, cases: &[Case], together: usize) {
        let (alone, others): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(|case| case.alone);
        for (cases, threads) in [(others, together), (alone, 1)] {
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

    /// Stories of which no run counts, once more and with nothing beside them: this machine may have been
    /// busy.
    fn play_the_void_again(&self, cases: &[Case]) {
        let hidden = hidden(&self.lines.lock().expect("no panic"));
        let cases: Vec<Case> = cases.iter().filter(|case| hidden.contains(&case.story)).cloned().collect();
        for line in self.lines.lock().expect("no panic").extract_if(.., |line| hidden.contains(&line.story)) {
            println!("to be played again: {}: {}", line.name(), line.void.unwrap_or_default());
        }
        self.play_all(&cases, 1);
    }

    fn play(&self, case: &Case) {
        if let Some(program) = case.needs.iter().find(|program| !has(program)) {
            return println!("skipped {case}: no {program}");
        }
        let views: Vec<View> =
            case.views.iter().filter(|view| self.filter.admits_view(case, view)).cloned().collect();
        match play::play(&self.lab, case, &views) {
            Ok(played) => {
                for (view, record, evidence) in &played.seen {
                    let line = Line::of(case, view, &played.ran, record);
                    self.keep(&Line { grounds: archive::grounds(evidence), ..line }, record, evidence);
                }
            }
            Err(why) => {
                let ran = Ran { void: Some(format!("failed: {why:#}")), ..Ran::default() };
                for view in &views {
                    self.keep(&Line::of(case, view, &ran, &Value::Null), &Value::Null, &Value::Null);
                }
            }
        }
    }

    fn keep(&self, line: &Line, record: &Value, evidence: &Value) {
        println!(
            "{} {}: {} ({:.0} %){}",
            line.score.name(),
            line.name(),
            line.said,
            100.0 * line.confidence,
            line.void.as_ref().map(|why| format!(" VOID {why}")).unwrap_or_default()
        );
        let mut lines = self.lines.lock().expect("no panic");
        if let Err(why) = self.archive.add(line, record, evidence) {
            println!("not kept: {why:#}");
        }
        lines.push(line.clone());
    }

    fn tell(self, cases: &[Case], extent: Extent) {
        let mut lines = self.lines.into_inner().expect("no panic");
        let place =
            |line: &Line| cases.iter().position(|case| case.story == line.story && case.point == line.point);
        lines.sort_by_key(place);
        self.archive.settle(&lines).expect("a file for the results");
        let page = Page { lines };
        std::fs::write(self.archive.path("matrix.md"), page.render()).expect("a file for the matrix");
        println!("{}", page.render());
        for void in page.void() {
            println!("void {void}");
        }
        let sums = page.sums();
        assert!(sums.all() > 0, "nothing was judged");
        let void = page.void().len() as f64 / page.lines.len() as f64;
        assert!(void <= VOID, "{:.0} % of the verdicts are void", 100.0 * void);
        let hidden = hidden(&page.lines);
        assert!(hidden.is_empty() || extent == Extent::Sample, "no run counts of {hidden:?}");
        let least = HONEST - margin(HONEST, cases.len());
        assert!(sums.honest() >= least, "right or abstained: {:.2}", sums.honest());
        let most = MISLEADING + margin(MISLEADING, cases.len());
        assert!(sums.misleading() <= most, "misleading: {:.2}", sums.misleading());
        println!("of {:?} said with 90 %; promises off by {:?}", page.sure(), page.promise_error());
    }
}

#[test]
fn the_bounds_are_what_readme_claims() {
    let honest = format!("{:.0} % were right or said that this end cannot know", 100.0 * HONEST);
    let misleading =
        format!("{:.1} % named a wrong limit with more than 50 % confidence", 100.0 * MISLEADING);
    assert!(claims(&honest) && claims(&misleading));
}

/// Stories all of whose verdicts are void: they would be hidden for ever.
fn hidden(lines: &[Line]) -> BTreeSet<String> {
    let all: BTreeSet<&String> = lines.iter().map(|line| &line.story).collect();
    let told: BTreeSet<&String> =
        lines.iter().filter(|line| line.void.is_none()).map(|line| &line.story).collect();
    all.difference(&told).map(|story| (*story).clone()).collect()
}

fn has(program: &str) -> bool {
    stage::folders().iter().any(|folder| Path::new(folder).join(program).exists())
}

/// Says why a test did not test. In CI that is a failure: there the machine has to be able to.
fn skip(why: &str) {
    assert!(env::var("CI").as_deref() != Ok("true"), "skipped in CI: {why}");
    println!("skipped: {why}");
}
