//! The machine without a socket: each transition, and random histories (`histories`).

mod histories;

use std::io;
use std::sync::Arc;

use url::Url;
use weir_http::Fields;
use weir_observe::names::Names;

use super::*;
use crate::job::Pinned;
use crate::ledger::{LaneId, Ledger};
use crate::object::{Object, Part};
use crate::ranges::RangeSet;
use crate::version::Version;

const HOST: &str = "h";
const SIZE: u64 = 4 << 20;

fn moment() -> Moment {
    let rules = Rules { retries: 2, max_wait: Duration::from_secs(60), drip: 100 };
    Moment { rules, time: Instant::now(), chance: 0.5, is_stopping: false }
}

/// The version with this tag; `""`: one that nothing proves.
fn version(tag: &str) -> Version {
    let mut fields = Fields::new();
    if !tag.is_empty() {
        fields.push("ETag", &format!("\"{tag}\"")).unwrap();
    }
    Version::of(&fields, &Url::parse("http://h/x").unwrap())
}

fn object(tag: &str, holds_to: Option<u64>) -> Object {
    let version = version(tag);
    let ranged = holds_to.is_some() && version.if_range().is_some();
    Object { size: Some(SIZE), version, holds_to, ranged, declared: None }
}

fn asked(tag: &str) -> Result<Part, GetError> {
    Ok(Part::Asked(object(tag, Some(SIZE))))
}

fn whole(tag: &str) -> Result<Part, GetError> {
    Ok(Part::Whole(object(tag, None)))
}

fn status(status: u16, retry_after: Option<u64>) -> GetError {
    let retry_after = retry_after.map(Duration::from_secs);
    GetError::Status { host: HOST.to_owned(), status, reason: String::new(), retry_after, hint: "" }
}

fn broken() -> GetError {
    GetError::Broken { host: HOST.to_owned(), source: io::ErrorKind::ConnectionReset.into() }
}

fn changed() -> GetError {
    GetError::Changed { host: HOST.to_owned(), detail: String::new() }
}

fn wrong_part() -> GetError {
    GetError::WrongPart { host: HOST.to_owned(), detail: String::new() }
}

fn crumbs() -> GetError {
    GetError::Crumbs { host: HOST.to_owned(), bytes: Bytes(1) }
}

fn unclean(got: u64) -> GetError {
    GetError::Unclean { host: HOST.to_owned(), got: Bytes(got) }
}

fn digest() -> GetError {
    GetError::NoDigest { name: String::new(), detail: String::new() }
}

fn disk_full() -> GetError {
    let source = io::ErrorKind::StorageFull.into();
    GetError::Local { action: "write", path: "x".into(), source, kept: None }
}

/// A job at which a lane has begun.
fn asking(wishes: Wishes) -> Download {
    let mut download = Download::default();
    download.on_begin(Wishes { in_parts: true, ..wishes });
    download
}

/// An object at work: of a server that gives parts or not, to a file or out in order.
fn bulk(ranged: bool, to_file: bool) -> Download {
    let mut download = asking(Wishes::default());
    download.on_bulk(Bulk::new(Arc::new(version("a")), Some(SIZE), ranged, to_file, 0));
    assert_eq!(download.phase(), Phase::Bulk);
    download
}

fn at(done: u64, others: usize) -> Standing {
    let began = Instant::now() + Duration::from_secs(3600);
    Standing { began, done, others, bringing: others, is_resumable: false }
}

/// The same, of a part that a later run could go on from.
fn resumable_at(done: u64) -> Standing {
    Standing { is_resumable: true, ..at(done, 0) }
}

/// The lane is alone, and nothing is here yet.
fn fail(download: &mut Download, error: GetError) -> Action {
    download.on_error(error, &at(0, 0), &moment())
}

/// Begins anew with what an action hands on.
fn next(action: Action) -> Download {
    let Action::BeginAnew { next, .. } = action else { panic!("does not begin anew: {action:?}") };
    assert_eq!(next.phase(), Phase::Waiting);
    *next
}

fn steps(download: &mut Download, is_target_known: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    loop {
        steps.push(download.step(is_target_known));
        if matches!(steps.last(), Some(Step::Ask { .. })) {
            return steps;
        }
    }
}

#[test]
fn what_is_here_is_looked_at_before_anything_is_asked() {
    let ask = |ranged, only_if_changed| Step::Ask { ranged, only_if_changed };
    let wishes = Wishes { go_on: true, newer: true, ..Wishes::default() };
    let mut download = asking(wishes);
    assert_eq!(steps(&mut download, true), [Step::Check, Step::Resume, Step::Adopt, ask(true, true)]);
    assert_eq!(steps(&mut download, true), [ask(true, true)], "each once");
    download.on_not_the_same();
    assert_eq!(steps(&mut download, true), [ask(true, false)]);
    for (wishes, asks) in [
        (Wishes { fresh: true, ..wishes }, ask(true, false)),
        (Wishes { decodes: true, ..wishes }, ask(false, true)),
    ] {
        assert_eq!(steps(&mut asking(wishes), true), [Step::Check, asks], "{wishes:?}");
    }
    let list = Wishes { to_memory: true, ..Wishes::default() };
    assert_eq!(steps(&mut asking(list), false), [ask(false, false)]);
}

#[test]
fn a_name_that_the_server_gives_is_looked_at_when_it_is_known() {
    let ask = Step::Ask { ranged: true, only_if_changed: false };
    let mut download = asking(Wishes::default());
    assert_eq!(steps(&mut download, false), [ask]);
    assert!(download.on_named(|| true));
    assert_eq!(steps(&mut download, true), [Step::Resume, ask]);
    assert!(!download.on_named(|| false));
    let mut download = asking(Wishes { fresh: true, ..Wishes::default() });
    assert!(!download.on_named(|| panic!("is asked for nothing")));
}

#[test]
fn an_empty_object_is_believed_only_without_a_word_beside_it() {
    let refusal = || status(416, None);
    let mut download = asking(Wishes::default());
    for part in [asked("a"), whole("a")] {
        assert!(download.on_answer(part, None, refusal).is_ok());
    }
    let empty = download.on_answer(Ok(Part::Empty), Some(0), refusal);
    assert!(matches!(empty, Ok(Object { size: Some(0), .. })));
    for (part, left) in [(Part::Empty, Some(9)), (Part::Empty, None), (Part::Beyond(Some(1)), Some(0))] {
        let answer = download.on_answer(Ok(part), left, refusal);
        assert!(matches!(answer, Err(GetError::Status { status: 416, .. })));
    }
    assert!(matches!(download.on_answer(Err(wrong_part()), None, refusal), Err(GetError::WrongPart { .. })));
    assert_eq!(download.phase(), Phase::Asking);
}

#[test]
fn an_earlier_part_is_gone_on_with_only_if_the_version_is_proven() {
    let own = version("a");
    let mut download = asking(Wishes::default());
    assert_eq!(download.step(true), Step::Check);
    assert_eq!(download.step(true), Step::Resume);
    let rest = download.on_rest(asked("a"), SIZE, &own, HOST);
    assert!(matches!(rest, Ok(Rest::Sent(_))));
    let others = [asked("b"), asked(""), whole("a"), Err(wrong_part())];
    for (count, other) in others.into_iter().enumerate().take(3) {
        let rest = download.on_rest(other, SIZE, &own, HOST);
        match count {
            0 | 1 => assert!(matches!(rest, Ok(Rest::AskAgain)), "{count}"),
            _ => assert!(matches!(rest, Ok(Rest::Lost(_))), "{count}"),
        }
    }
    assert!(matches!(download.step(true), Step::Ask { .. }), "it is not looked for again");
    let other_size = download.on_rest(asked("a"), SIZE + 1, &own, HOST);
    assert!(matches!(other_size, Ok(Rest::AskAgain)));
    let refused = download.on_rest(Err(status(404, None)), SIZE, &own, HOST);
    assert!(matches!(refused, Err(GetError::Status { .. })));
}

#[test]
fn silence_about_another_size_is_no_new_version() {
    type Answer = fn() -> Result<Part, GetError>;
    let answers: [Answer; 2] = [
        || Ok(Part::Whole(Object { size: Some(9), ..object("", None) })),
        || Ok(Part::Whole(Object { size: None, ..object("", None) })),
    ];
    for answer in answers {
        let (own, mut download) = (version("a"), asking(Wishes::default()));
        for _ in 1..VERSION_TRIES {
            let rest = download.on_rest(answer(), SIZE, &own, HOST);
            assert!(matches!(rest, Ok(Rest::AskAgain)), "{rest:?}");
        }
        let silent = download.on_rest(answer(), SIZE, &own, HOST).unwrap_err();
        assert!(matches!(silent, GetError::Unproven { is_silent: true, .. }), "{silent}");
        assert!(matches!(fail(&mut download, silent), Action::AskLater { .. }));
        let silent = |kept| object("", None).refuse_silence(&version(""), Some(kept), HOST);
        assert!(silent(SIZE - 1).is_ok() && silent(SIZE + 1).is_err(), "it may have grown");
        let mut download = bulk(true, true);
        let look = |download: &mut Download| {
            assert!(matches!(fail(download, changed()), Action::Look(_)));
            let seen = download.seen(&answer(), false, false, HOST);
            download.on_look(changed(), seen, &at(1, 0), &moment())
        };
        for _ in 0..2 {
            let action = look(&mut download);
            assert!(matches!(action, Action::BackOff { .. }), "{action:?}");
        }
        assert!(!download.brings_all(&answer(), HOST));
        assert!(download.brings_all(&whole("b"), HOST) && download.brings_all(&whole(""), HOST));
        let action = look(&mut download);
        assert!(matches!(action, Action::GiveUp(GetError::Unproven { .. })), "{action:?}");
    }
}

/// What an answer of this run has said of the object holds for its next attempts, whatever is kept of it.
#[test]
fn what_a_run_has_seen_is_not_forgotten_with_its_bytes() {
    let words = || Object { size: Some(9), ..object("", None) };
    for tag in ["a", ""] {
        let mut download = asking(Wishes::default());
        download.on_seen(&object(tag, None), HOST).unwrap();
        download.on_accepted(&Object { size: Some(3), ..object(tag, None) }, Destination::File);
        assert!(matches!(fail(&mut download, broken()), Action::AskLater { .. }));
        download.on_begin(Wishes::default());
        assert!(matches!(download.on_seen(&words(), HOST), Err(GetError::Unproven { is_silent: true, .. })));
        download.on_seen(&object("", None), HOST).unwrap();
        download.on_bulk(Bulk::new(Arc::new(version(tag)), Some(SIZE), false, true, 0));
        let plain = download.on_part(Ok(Part::Whole(words())), false, false, HOST);
        assert!(matches!(plain, Err(GetError::Unproven { .. })), "{plain:?}");
        // It costs a retry, as any failure does.
        assert!(matches!(fail(&mut download, plain.unwrap_err()), Action::BackOff { .. }));
        let mut again = next(download.on_error(broken(), &at(1, 0), &moment()));
        again.on_begin(Wishes::default());
        assert!(again.on_seen(&words(), HOST).is_err());
        // A version of its own is one, and from then on that is what the object is.
        again.on_seen(&Object { size: Some(9), ..object("b", None) }, HOST).unwrap();
        again.on_seen(&words(), HOST).unwrap();
    }
    // Nor where no size was known.
    let mut download = asking(Wishes::default());
    download.on_seen(&Object { size: None, ..object("a", None) }, HOST).unwrap();
    assert!(download.on_seen(&words(), HOST).is_err());
}

#[test]
fn small_objects_are_read_whole_and_large_ones_shared() {
    let of = |size, holds_to| Object { size, holds_to, ..object("a", None) };
    for (object, to, taken) in [
        (of(Some(SMALL), None), Destination::File, Taken::Whole),
        (of(Some(SMALL), Some(SMALL)), Destination::File, Taken::Whole),
        // A server that gives less than was asked for.
        (of(Some(SMALL), Some(1)), Destination::File, Taken::Bulk),
        (of(Some(SMALL + 1), None), Destination::File, Taken::Bulk),
        (of(None, None), Destination::File, Taken::Bulk),
        (of(Some(1), None), Destination::Stream, Taken::Bulk),
        (of(None, None), Destination::Memory, Taken::Whole),
    ] {
        let mut download = asking(Wishes::default());
        assert_eq!(download.on_accepted(&object, to), taken, "{object:?} {to:?}");
        let small = taken == Taken::Whole;
        assert_eq!(download.phase(), if small { Phase::Small } else { Phase::Asking });
    }
}

#[test]
fn a_large_object_leaves_a_shared_connection() {
    let mut download = asking(Wishes::default());
    let large = Object { size: Some(5 << 20), ..object("a", Some(5 << 20)) };
    assert!(download.wants_own_connection(&large, Destination::File));
    assert!(!download.wants_own_connection(&large, Destination::Memory));
    assert!(!download.wants_own_connection(&Object { ranged: false, ..large.clone() }, Destination::File));
    assert!(!download.wants_own_connection(&Object { size: Some(1), ..large }, Destination::File));
    assert!(download.on_own_connection(asked("b"), HOST).is_ok());
    let gone = download.on_own_connection(Ok(Part::Empty), HOST);
    assert!(matches!(gone, Err(GetError::Changed { .. })));
}

#[test]
fn a_small_object_is_done_once_it_is_verified() {
    let mut download = asking(Wishes::default());
    download.on_accepted(&Object { size: Some(3), ..object("a", None) }, Destination::File);
    assert!(matches!(download.on_body(2, Some(3), HOST), Err(GetError::Truncated { .. })));
    assert_eq!(download.phase(), Phase::Small);
    download.on_body(3, Some(3), HOST).unwrap();
    assert_eq!(download.phase(), Phase::Verifying);
    let again = download.clone();
    download.on_verified(Ok(()), &moment());
    assert_eq!(download.phase(), Phase::Done);
    // A digest that does not match, a disk that is full: as a failure before it.
    for (error, asks_again) in [(digest(), false), (disk_full(), false), (broken(), true)] {
        let action = fail(&mut again.clone(), error);
        match asks_again {
            true => assert!(matches!(action, Action::AskLater { .. })),
            false => assert!(matches!(action, Action::GiveUp(_))),
        }
    }
}

#[test]
fn a_question_is_repeated_as_often_as_the_user_allows() {
    let mut download = asking(Wishes::default());
    for pause in [200, 400] {
        let action = fail(&mut download, broken());
        assert!(
            matches!(action, Action::AskLater { pause: found, .. } if found == Duration::from_millis(pause))
        );
        assert_eq!(download.phase(), Phase::Waiting);
        download.on_begin(Wishes::default());
    }
    assert!(matches!(fail(&mut download, broken()), Action::GiveUp(GetError::Broken { .. })));
    assert_eq!(download.phase(), Phase::Ending);
}

#[test]
fn what_is_no_failure_is_not_counted() {
    let mut download = asking(Wishes::default());
    for _ in 0..10 {
        assert!(matches!(fail(&mut download, GetError::Interrupted), Action::AskAgain));
        download.on_begin(Wishes::default());
        let name = Names::default().look_up("localhost", Duration::ZERO);
        assert!(matches!(fail(&mut download, GetError::NamePending(name)), Action::AwaitName(_)));
        download.on_begin(Wishes::default());
    }
    assert!(matches!(fail(&mut download, broken()), Action::AskLater { .. }));
    download.on_begin(Wishes::default());
    let stopping = Moment { is_stopping: true, ..moment() };
    let action = download.on_error(GetError::Interrupted, &at(0, 0), &stopping);
    assert!(matches!(action, Action::GiveUp(GetError::Interrupted)));
}

/// What is called by its digest is the same whoever brings it; of any other file nobody knows what is coming.
#[test]
fn a_file_that_another_weir_brings_is_waited_for() {
    let locked = || GetError::Locked { path: "x".into() };
    let shared = Wishes { shares: true, ..Wishes::default() };
    let mut download = asking(shared);
    assert!(!download.was_lent());
    // Of the minute that is allowed each look takes half a second.
    for _ in 0..120 {
        assert!(matches!(fail(&mut download, locked()), Action::AskLater { .. }));
        assert!(download.was_lent());
        download.on_begin(shared);
    }
    assert!(matches!(fail(&mut download.clone(), broken()), Action::AskLater { .. }), "no retry was used");
    assert!(matches!(fail(&mut download, locked()), Action::GiveUp(GetError::Locked { .. })));
    assert!(matches!(fail(&mut asking(Wishes::default()), locked()), Action::GiveUp(_)));
}

#[test]
fn a_server_s_wait_is_kept_to_up_to_what_the_user_allows() {
    let mut download = asking(Wishes::default());
    for used in [0, 25] {
        let action = fail(&mut download, status(503, Some(25)));
        assert!(matches!(action, Action::AskLater { pause, .. } if pause.as_secs() == 25), "{used}");
        download.on_begin(Wishes::default());
    }
    let action = fail(&mut download, status(503, Some(25)));
    assert!(matches!(action, Action::ComeBack { used, .. } if used.as_secs() == 50));
    let later = status(503, Some(25)).within(Duration::ZERO, Duration::ZERO, std::time::SystemTime::now());
    assert!(matches!(download.on_given_up(later, Remains::Earlier(0)).outcome, JobOutcome::Partial(_)));
    assert_eq!(download.phase(), Phase::Partial);
}

#[test]
fn an_answer_belongs_to_the_object_if_its_version_is_proven() {
    let part = |download: &mut Download, judged| download.on_part(judged, true, false, HOST);
    let mut download = bulk(true, true);
    assert!(matches!(part(&mut download, asked("a")), Ok(Carry::Part(Some(SIZE)))));
    assert!(matches!(part(&mut download, asked("b")), Err(GetError::Changed { .. })));
    assert!(matches!(part(&mut download, asked("")), Err(GetError::Unproven { .. })));
    assert!(matches!(part(&mut download, whole("b")), Err(GetError::Changed { .. })));
    assert!(matches!(part(&mut download, Ok(Part::Beyond(None))), Err(GetError::Changed { .. })));
    let larger = Object { size: Some(SIZE + 1), ..object("a", Some(SIZE + 1)) };
    assert!(matches!(part(&mut download, Ok(Part::Asked(larger))), Err(GetError::Changed { .. })));
    for (moved, resolves) in [(true, true), (false, false)] {
        let answer = download.on_part(Err(status(403, None)), true, moved, HOST);
        assert_eq!(matches!(answer, Ok(Carry::Resolve)), resolves, "{answer:?}");
    }
    assert!(download.is_ranged());
    assert!(matches!(part(&mut download, whole("a")), Ok(Carry::NoParts)));
    assert!(!download.is_ranged());
    assert!(download.on_claim(0, 0, HOST).is_ok_and(|ranged| !ranged));
    assert!(matches!(download.on_claim(1, 0, HOST), Err(GetError::NoParts { .. })));
    assert!(matches!(download.on_claim(1, 1, HOST), Err(GetError::Dropped)), "the other one brings it");
    // It was pinned, so that what comes without a range is checked too.
    let plain = |download: &mut Download, judged| download.on_part(judged, false, false, HOST);
    assert!(matches!(plain(&mut download, whole("a")), Ok(Carry::Whole(_))));
    assert!(matches!(plain(&mut download, whole("b")), Err(GetError::Changed { .. })));
    let unproven = &mut bulk(false, true);
    assert!(matches!(plain(unproven, whole("b")), Ok(Carry::Whole(_))));
    let decoded = Object { size: None, ..object("b", None) };
    assert!(matches!(unproven.on_whole(&decoded, HOST), Err(GetError::Changed { .. })));
}

#[test]
fn lanes_join_where_parts_are_given() {
    let (shared, single) = (bulk(true, true), bulk(false, true));
    assert!(shared.takes_lane(3, true) && shared.takes_lane(3, false));
    assert!(single.takes_lane(0, false) && !single.takes_lane(1, false) && !single.takes_lane(0, true));
    assert!(!Download::replaced().takes_lane(0, false));
}

#[test]
fn the_end_of_an_answer_is_judged_by_what_it_promised() {
    const LANE: LaneId = 7;
    let ledger = |size| {
        let mut ledger = Ledger::new(size, RangeSet::default());
        ledger.claim_gap(LANE, u64::MAX, u64::MAX);
        ledger
    };
    let carried = |holds_to, brought, ranged| Carried { holds_to, brought, ranged };
    let mut download = bulk(true, true);
    let mut end = |ledger: &mut Ledger, carried| download.on_end(ledger, LANE, carried, HOST);
    assert!(matches!(end(&mut ledger(Some(9)), carried(Some(9), 0, true)), Err(GetError::Truncated { .. })));
    assert!(matches!(end(&mut ledger(None), carried(None, 0, true)), Err(GetError::EmptyRange { .. })));
    // A manifest's size stands for one that the answer does not say.
    let pinned = Pinned { size: Some(9), ..Pinned::default() };
    let Object { size, holds_to, .. } = pinned.sized(Object { size: None, ..object("a", None) });
    assert!(matches!(end(&mut ledger(size), carried(holds_to, 0, false)), Err(GetError::Truncated { .. })));
    assert_eq!(pinned.sized(object("a", None)).size, Some(SIZE));
    let mut unknown = ledger(None);
    assert!(end(&mut unknown, carried(None, 0, false)).is_ok());
    assert!(unknown.is_complete(), "an empty object");
    let mut ahead = Ledger::new(None, std::iter::once(5..9).collect());
    ahead.claim_gap(LANE, u64::MAX, u64::MAX);
    assert!(matches!(end(&mut ahead, carried(None, 0, false)), Err(GetError::WrongPart { .. })));
    let (mut many, mut download) = (ledger(Some(SIZE)), bulk(true, true));
    let mut crumb = || download.on_end(&mut many, LANE, carried(None, 1, true), HOST).is_err();
    let short: Vec<bool> = (0..20).map(|_| crumb()).collect();
    assert_eq!(short.iter().filter(|crumb| **crumb).count(), 1, "told once");
    assert!(short[7]);
}

#[test]
fn each_failure_of_a_part_has_its_answer() {
    type Fits = fn(&Action) -> bool;
    let leaves: Fits = |action| matches!(action, Action::Leave);
    let anew: Fits = |action| matches!(action, Action::BeginAnew { next, .. } if !next.plain);
    let plain: Fits = |action| matches!(action, Action::BeginAnew { next, .. } if next.plain);
    let ends: Fits = |action| matches!(action, Action::GiveUp(_));
    let backs_off: Fits = |action| matches!(action, Action::BackOff { .. });
    let asks: Fits = |action| matches!(action, Action::AskPlainly(_));
    let looks: Fits = |action| matches!(action, Action::Look(_));
    let empty = || GetError::EmptyRange { host: HOST.to_owned() };
    let no_parts = || GetError::NoParts { host: HOST.to_owned() };
    for (error, ranged, to_file, done, fits) in [
        (GetError::Dropped, true, true, 0, leaves),
        (GetError::Interrupted, true, true, 0, leaves),
        (empty(), false, true, 0, plain),
        (empty(), false, false, 0, leaves),
        (no_parts(), false, true, 1, plain),
        (no_parts(), false, false, 1, ends),
        (crumbs(), true, true, 0, asks),
        (crumbs(), true, false, 0, leaves),
        (changed(), true, true, 1, looks),
        (changed(), false, true, 0, anew),
        (changed(), false, false, 1, ends),
        (unclean(9), false, true, 9, anew),
        (unclean(9), false, false, 9, ends),
        (broken(), true, true, 1, backs_off),
        (broken(), true, false, 1, backs_off),
        (broken(), false, true, 0, backs_off),
        (broken(), false, true, 1, anew),
        (broken(), false, false, 0, backs_off),
        (broken(), false, false, 1, ends),
        (status(404, None), true, true, 1, asks),
        (status(404, None), false, true, 1, ends),
        (status(404, None), true, false, 1, ends),
        (status(401, None), true, true, 1, ends),
        (status(503, Some(1)), true, true, 1, backs_off),
        (disk_full(), true, true, 1, ends),
    ] {
        let mut download = bulk(ranged, to_file);
        let case = format!("{error} ranged {ranged} to_file {to_file} done {done}");
        let action = download.on_error(error, &at(done, 0), &moment());
        assert!(fits(&action), "{case}: {action:?}");
    }
}

#[test]
fn one_lane_asks_for_all_that_doubt() {
    let mut download = bulk(true, true);
    assert!(matches!(fail(&mut download, changed()), Action::Look(_)));
    assert_eq!(download.phase(), Phase::Doubted);
    assert!(matches!(fail(&mut download, changed()), Action::Rest { refused: None, .. }));
    let look = |download: &mut Download, seen| download.on_look(changed(), seen, &at(1, 0), &moment());
    for (judged, is_unfit, seen) in [
        (asked("a"), false, "Same"),
        (asked("a"), true, "Unfit"),
        (asked("b"), false, "Another"),
        (asked(""), false, "Another"),
        (whole("a"), false, "Another"),
        (Ok(Part::Empty), false, "Unfit"),
        (Err(status(404, None)), false, "Unfit"),
    ] {
        assert_eq!(format!("{:?}", download.seen(&judged, false, is_unfit, HOST)), seen);
        let of_rest = format!("{:?}", download.seen(&judged, true, is_unfit, HOST));
        assert_eq!(of_rest, if seen == "Same" { format!("Sent(Some({SIZE}))") } else { seen.to_owned() });
    }
    let mut same = download.clone();
    assert!(matches!(look(&mut same, BulkSeen::Same), Action::BackOff { .. }));
    assert_eq!(same.phase(), Phase::Bulk);
    // The answer that shows it brings the rest, and is no failure.
    let mut sent = download.clone();
    for _ in 0..10 {
        assert!(matches!(look(&mut sent, BulkSeen::Sent(Some(SIZE))), Action::Carry(Some(SIZE))));
        assert_eq!(sent.phase(), Phase::Bulk);
        assert!(matches!(fail(&mut sent, changed()), Action::Look(_)));
    }
    let mut unfit = download.clone();
    assert!(matches!(look(&mut unfit, BulkSeen::Unfit), Action::GiveUp(GetError::Changed { .. })));
    for (failure, ends) in [(status(404, None), true), (broken(), false)] {
        let action = look(&mut download.clone(), BulkSeen::Failed(failure));
        assert_eq!(matches!(action, Action::GiveUp(_)), ends, "{action:?}");
    }
    assert!(matches!(look(&mut download.clone(), BulkSeen::Failed(GetError::Interrupted)), Action::Leave));
    for _ in 0..VERSION_TRIES - 1 {
        assert!(matches!(look(&mut download, BulkSeen::Another), Action::Look(_)));
    }
    next(look(&mut download, BulkSeen::Another));
    assert_eq!(download.phase(), Phase::Replaced);
    assert!(
        matches!(look(&mut download, BulkSeen::Another), Action::Leave),
        "what comes late changes nothing"
    );
}

#[test]
fn other_lanes_may_end_what_is_doubted() {
    let mut download = bulk(true, true);
    fail(&mut download, changed());
    assert!(matches!(download.on_complete(), Action::Verify));
    assert!(matches!(download.on_look(changed(), BulkSeen::Another, &at(1, 0), &moment()), Action::Leave));
    assert_eq!(download.phase(), Phase::Verifying);
}

#[test]
fn a_download_begins_anew_three_times_and_the_last_time_plainly() {
    let mut download = bulk(false, true);
    for count in 1..=MAX_RESTARTS {
        let mut again = next(fail(&mut download, changed()));
        assert_eq!(again.plain, count == MAX_RESTARTS);
        again.on_begin(Wishes { in_parts: true, go_on: true, ..Wishes::default() });
        let ask = Step::Ask { ranged: count != MAX_RESTARTS, only_if_changed: false };
        assert_eq!(steps(&mut again, true), [Step::Check, ask], "nothing that is here is used");
        again.on_bulk(Bulk::new(Arc::new(version("a")), Some(SIZE), false, true, 0));
        download = again;
    }
    assert!(matches!(fail(&mut download, changed()), Action::GiveUp(GetError::Changed { .. })));
}

#[test]
fn a_body_that_ends_at_the_same_byte_again_is_meant() {
    let mut download = bulk(false, true);
    for got in [5, 6] {
        download = next(fail(&mut download, unclean(got)));
        download.on_begin(Wishes::default());
        download.on_bulk(Bulk::new(Arc::new(version("a")), None, false, true, 0));
    }
    assert!(matches!(fail(&mut download, unclean(6)), Action::GiveUp(GetError::Unclean { .. })));
}

#[test]
fn failures_count_in_a_row_and_once_a_pause() {
    let mut download = bulk(true, true);
    let now = moment();
    let began = |millis| Standing { began: now.time + Duration::from_millis(millis), ..at(0, 0) };
    let mut fails = |standing: Standing, count| {
        let action = download.on_error(broken(), &standing, &now);
        let Action::BackOff { pause, .. } = action else { panic!("{action:?}") };
        assert_eq!(pause.as_millis(), 100_u128 << count);
    };
    fails(began(0), 1);
    fails(began(199), 1);
    fails(began(200), 2);
    // A byte is progress.
    fails(Standing { done: 1, ..began(600) }, 1);
    let drip = |done| Standing { done, ..began(10_000) };
    let slow = || GetError::Stalled {
        host: HOST.to_owned(),
        what: String::new(),
        after: Duration::ZERO,
        way_out: "",
        is_slow: true,
    };
    // A drip is none.
    for (done, ends) in [(2, false), (101, true)] {
        let action = download.on_error(slow(), &drip(done), &now);
        assert_eq!(matches!(action, Action::GiveUp(_)), ends, "{action:?}");
    }
}

#[test]
fn a_connection_too_many_is_no_word_on_the_others() {
    let mut download = bulk(true, true);
    let action = download.on_error(status(404, None), &at(1, 2), &moment());
    assert!(matches!(action, Action::Rest { refused: Some(_), .. }), "{action:?}");
    for _ in 0..10 {
        let action = download.on_error(broken(), &at(1, 2), &moment());
        assert!(matches!(action, Action::BackOff { stays: true, others: true, .. }), "{action:?}");
    }
    assert!(matches!(download.on_error(disk_full(), &at(1, 2), &moment()), Action::GiveUp(_)));
    // Beside others that have no more than a head retries come to their end.
    let (mut download, of_heads) = (bulk(true, true), Standing { bringing: 0, ..at(1, 2) });
    for ends in [false, false, true] {
        let action = download.on_error(broken(), &of_heads, &moment());
        assert_eq!(matches!(action, Action::GiveUp(_)), ends, "{action:?}");
    }
}

#[test]
fn a_long_pause_gives_the_place_to_another_download() {
    for (error, stays) in [(broken(), true), (status(503, None), false), (status(500, None), true)] {
        let action = bulk(true, true).on_error(error, &at(1, 0), &moment());
        assert!(matches!(action, Action::BackOff { stays: found, .. } if found == stays), "{action:?}");
    }
}

#[test]
fn after_the_last_retry_a_plain_request_is_tried_where_parts_may_be_what_fails() {
    let exhaust = |error: fn() -> GetError| {
        let mut download = bulk(true, true);
        for _ in 0..2 {
            assert!(matches!(fail(&mut download, error()), Action::BackOff { .. }));
        }
        let last = fail(&mut download, error());
        (download, last)
    };
    assert!(next(exhaust(wrong_part).1).plain);
    assert!(matches!(exhaust(broken).1, Action::GiveUp(_)));
    for (is_whole, begins) in [(true, true), (false, false)] {
        let (mut download, last) = exhaust(|| status(500, None));
        let Action::AskPlainly(error) = last else { panic!("{last:?}") };
        let action = download.on_plain(error, is_whole, &at(0, 0), &moment());
        assert_eq!(matches!(action, Action::BeginAnew { .. }), begins, "{action:?}");
        assert_eq!(matches!(action, Action::GiveUp(_)), !begins, "{action:?}");
    }
    let plainly = |error| bulk(true, true).on_plain(error, false, &at(0, 0), &moment());
    assert!(matches!(plainly(crumbs()), Action::Leave), "they are what there is");
    assert!(matches!(plainly(status(404, None)), Action::GiveUp(_)));
}

/// Of several servers behind a name one may give no parts, or be odd for a moment.
#[test]
fn what_came_in_parts_goes_only_after_the_third_refusal() {
    let no_parts = || GetError::NoParts { host: HOST.to_owned() };
    let refuse = |download: &mut Download, done, error: GetError| {
        let action = download.on_error(error, &resumable_at(done), &moment());
        match action {
            Action::AskPlainly(error) => download.on_plain(error, true, &resumable_at(done), &moment()),
            action => action,
        }
    };
    for error in [&(|| status(403, None)) as &dyn Fn() -> GetError, &no_parts] {
        let mut download = bulk(true, true);
        // A byte between two of them begins the count anew.
        for done in [1, 1, 2, 2] {
            let action = refuse(&mut download, done, error());
            assert!(matches!(action, Action::BackOff { stays: true, others: false, .. }), "{action:?}");
            assert!(download.is_ranged());
        }
        assert!(next(refuse(&mut download, 2, error())).plain);
        // Where nothing is here nothing can be lost.
        assert!(next(refuse(&mut bulk(true, true), 0, error())).plain);
    }
    let mut download = bulk(true, true);
    let now = moment();
    let mut after = |millis| {
        let standing = Standing { began: now.time + Duration::from_millis(millis), ..resumable_at(1) };
        download.on_error(no_parts(), &standing, &now)
    };
    // What is asked for before the pause after the last one is over, of 200 and of 400 ms, does not count.
    for (millis, is_over) in [(0, false), (199, false), (200, false), (399, false), (400, true)] {
        let action = after(millis);
        assert_eq!(matches!(action, Action::BeginAnew { .. }), is_over, "{millis}: {action:?}");
    }
}

#[test]
fn what_cannot_be_gone_on_with_is_begun_anew_as_often_as_the_user_allows() {
    for retries in [0, 1, 6] {
        let moment = Moment { rules: Rules { retries, ..moment().rules }, ..moment() };
        let mut download = bulk(false, true);
        for count in 0..retries {
            let mut again = next(download.on_error(broken(), &at(1, 0), &moment));
            assert!(!again.plain && again.restarts == 0, "{count}");
            again.on_begin(Wishes { in_parts: true, go_on: true, ..Wishes::default() });
            let ask = Step::Ask { ranged: true, only_if_changed: false };
            assert_eq!(steps(&mut again, true), [Step::Check, ask], "nothing that is here is used");
            again.on_bulk(Bulk::new(Arc::new(version("a")), Some(SIZE), false, true, 0));
            download = again;
        }
        let action = download.on_error(broken(), &at(1, 0), &moment);
        assert!(matches!(action, Action::GiveUp(GetError::Broken { .. })), "{retries}: {action:?}");
    }
    // What does come in parts is progress.
    let mut again = next(bulk(false, true).on_error(broken(), &at(1, 0), &moment()));
    again.on_begin(Wishes::default());
    again.on_bulk(Bulk::new(Arc::new(version("a")), Some(SIZE), true, true, 0));
    for done in 1..10 {
        let action = again.on_error(broken(), &at(done, 0), &moment());
        assert!(matches!(action, Action::BackOff { .. }), "{action:?}");
    }
}

#[test]
fn bytes_on_trust_are_fetched_anew_if_the_digest_does_not_match() {
    let verifying = |download: &mut Download| {
        download.on_bulk(Bulk::new(Arc::new(version("a")), Some(SIZE), true, true, 1));
        assert!(matches!(download.on_complete(), Action::Verify));
    };
    let mut download = asking(Wishes { go_on: true, ..Wishes::default() });
    download.on_adopted();
    verifying(&mut download);
    assert!(matches!(download.clone().on_verified(Err(disk_full()), &moment()), Action::GiveUp(_)));
    let mut again = next(download.on_verified(Err(digest()), &moment()));
    again.on_begin(Wishes::default());
    verifying(&mut again);
    assert!(matches!(again.on_verified(Err(digest()), &moment()), Action::GiveUp(_)), "once");
    assert_eq!(again.phase(), Phase::Ending);
}

#[test]
fn parts_that_nothing_proves_are_taken_where_a_digest_is_given() {
    let of = |tag| {
        let mut download = asking(Wishes::default());
        assert!(download.may_trust_parts(&object(tag, Some(SIZE)), true));
        assert!(!download.may_trust_parts(&object(tag, None), true));
        assert!(!download.may_trust_parts(&object(tag, Some(SIZE)), false));
        download.on_bulk(Bulk::new(Arc::new(version(tag)), Some(SIZE), true, true, 0));
        download
    };
    let mut download = of("");
    assert!(download.is_pinned() && !download.is_resumable() && of("a").is_resumable());
    // All of one answer is not on trust.
    assert!(matches!(download.on_error(broken(), &at(1, 0), &moment()), Action::BackOff { .. }));
    let mut whole = download.clone();
    assert!(matches!(whole.on_complete(), Action::Verify));
    assert!(matches!(whole.on_verified(Err(digest()), &moment()), Action::GiveUp(_)));
    let part = download.on_part(asked(""), true, false, HOST);
    assert!(matches!(part, Ok(Carry::Part(Some(SIZE)))), "{part:?}");
    for other in [asked("b"), Ok(Part::Asked(Object { size: Some(SIZE + 1), ..object("", Some(SIZE)) }))] {
        assert!(download.on_part(other, true, false, HOST).is_err());
    }
    assert!(matches!(download.on_complete(), Action::Verify));
    let mut again = next(download.on_verified(Err(digest()), &moment()));
    again.on_begin(Wishes::default());
    assert!(!again.may_trust_parts(&object("", Some(SIZE)), true), "once");
}

#[test]
fn what_is_kept_is_what_a_later_run_can_go_on_from() {
    let part = |kept, is_precious, is_there, will_be_found, is_resumable| Remains::Part {
        kept,
        is_precious,
        is_there,
        will_be_found,
        is_resumable,
    };
    let locked = || GetError::Locked { path: "x".into() };
    for (error, remains, phase, discards) in [
        (broken(), part(9, false, true, true, true), Phase::Partial, false),
        (broken(), part(0, false, true, true, true), Phase::Failed, true),
        (broken(), part(9, false, true, false, true), Phase::Failed, true),
        (broken(), part(9, false, true, true, false), Phase::Failed, true),
        (digest(), part(9, false, true, true, true), Phase::Failed, true),
        (broken(), part(9, true, true, true, true), Phase::Failed, false),
        (unclean(9), part(9, false, true, false, false), Phase::Partial, false),
        (unclean(9), part(0, false, true, false, false), Phase::Failed, true),
        (unclean(9), Remains::Stream, Phase::Partial, false),
        (broken(), Remains::Stream, Phase::Failed, false),
        (broken(), Remains::Earlier(9), Phase::Partial, false),
        (locked(), Remains::Earlier(9), Phase::Failed, false),
        (digest(), Remains::Earlier(9), Phase::Failed, false),
        (broken(), Remains::Earlier(0), Phase::Failed, false),
    ] {
        let mut download = bulk(true, true);
        assert!(download.on_stop() && !download.on_stop());
        let case = format!("{error} {remains:?}");
        let ending = download.on_given_up(error, remains);
        assert_eq!((download.phase(), ending.discards), (phase, discards), "{case}");
    }
    let mut full = bulk(true, true);
    full.on_stop();
    let ending = full.on_given_up(disk_full(), part(9, false, true, true, true));
    assert!(matches!(ending.outcome, JobOutcome::Partial(GetError::Local { kept: Some(Bytes(9)), .. })));
}

#[test]
fn an_existing_file_that_stays_is_no_download() {
    let mut download = asking(Wishes::default());
    download.on_kept();
    assert_eq!(download.phase(), Phase::Kept);
    assert!(download.is_over());
    // Nor is one whose name was taken before all was here.
    let mut download = bulk(true, true);
    assert!(matches!(download.on_complete(), Action::Verify));
    download.on_kept();
    assert_eq!(download.phase(), Phase::Kept);
}
