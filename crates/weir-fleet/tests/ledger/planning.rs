//! Plans of listings that come in any order, break off, and name a target twice.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use weir_fleet::FleetError;
use weir_fleet::ledger::{Claimed, FleetLedger, SqlLedger, WaitReason};
use weir_fleet::object::FleetObject;
use weir_fleet::plan::check::{Difference, Side, compare};
use weir_fleet::plan::list::{ListListing, TargetNames};
use weir_fleet::plan::tree::TreeListing;
use weir_fleet::plan::{Found, LeftOut, Listing, Plan, PlanReport, PlanRules};

use crate::{LEASE, batch, clock, ends, folder, object, sqlite, who};

/// What a test lists, and where it breaks off.
struct Given {
    found: std::vec::IntoIter<Found>,
    breaks_after: Option<usize>,
    unique: bool,
}

impl Given {
    fn of(objects: impl IntoIterator<Item = FleetObject>) -> Given {
        let found: Vec<_> = objects.into_iter().map(Found::Object).collect();
        Given { found: found.into_iter(), breaks_after: None, unique: true }
    }
}

impl Listing for Given {
    fn next(&mut self) -> Result<Option<Found>, FleetError> {
        match &mut self.breaks_after {
            Some(0) => return Err(FleetError::Manifest("cannot list it: the path broke".to_owned())),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(self.found.next())
    }

    fn has_own_targets(&self) -> bool {
        self.unique
    }
}

fn write(
    ledger: &mut SqlLedger,
    listing: &mut dyn Listing,
    skip_bad: bool,
) -> Result<PlanReport, FleetError> {
    let stop = AtomicBool::new(false);
    let rules = PlanRules::default();
    let (ends, planner) = (ends(), "a test".to_owned());
    Plan { ends, copies_itself: false, planner, rules, skip_bad, stop: &stop }.write(ledger, listing)
}

fn names(ledger: &mut SqlLedger) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    ledger.each_object(&mut |object| names.push(object.target.clone())).unwrap();
    names.sort();
    names
}

#[test]
fn an_interrupted_plan_is_gone_on_with_in_whatever_order_the_source_is_listed_then() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    // More than are looked at before the first cut, so that some are in the ledger when it breaks off.
    let all: Vec<_> = (0..150_000).map(|number| object(number, 1)).collect();
    let mut broken = Given { breaks_after: Some(120_000), ..Given::of(all.clone()) };
    let error = write(&mut ledger, &mut broken, false).unwrap_err().to_string();
    assert!(error.contains("the path broke"), "{error}");
    let status = ledger.status().unwrap();
    assert!(!status.sealed && !status.complete && (1..120_000).contains(&status.planned.objects));
    let worker = ledger.join(&who(1)).unwrap();
    assert!(matches!(ledger.claim(worker, LEASE).unwrap(), Claimed::Batch(_)), "it has begun");
    let mut otherwise = all.clone();
    fastrand::Rng::with_seed(3).shuffle(&mut otherwise);
    let report = write(&mut ledger, &mut Given::of(otherwise), false).unwrap();
    assert_eq!(report.before + report.added.objects, 150_000);
    assert_eq!(report.before, status.planned.objects);
    let all: BTreeSet<_> = all.into_iter().map(|object| object.target).collect();
    assert_eq!(names(&mut ledger), all.into_iter().collect::<Vec<_>>());
    assert_eq!(ledger.status().unwrap().planned.objects, 150_000);
}

#[test]
fn objects_that_share_a_target_are_named_and_nothing_is_moved() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let mut objects: Vec<_> = (0..100_000).map(|number| object(number, 1)).collect();
    objects[70_001].target = objects[5].target.clone();
    let mut listing = Given { unique: false, ..Given::of(objects) };
    let error = write(&mut ledger, &mut listing, false).unwrap_err().to_string();
    assert!(error.contains("folder/0000005 to folder/0000005, folder/0070001 to folder/0000005"), "{error}");
    let worker = ledger.join(&who(1)).unwrap();
    let waits = ledger.claim(worker, LEASE).unwrap();
    assert!(matches!(waits, Claimed::Wait(WaitReason::Abandoned, _)), "{waits:?}");
}

#[test]
fn a_plan_that_is_told_to_end_did_not_wait_for_its_ledger() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let (stop, rules) = (AtomicBool::new(true), PlanRules::default());
    let (ends, planner) = (ends(), "a test".to_owned());
    let told = Plan { ends, copies_itself: false, planner, rules, skip_bad: false, stop: &stop };
    let error = told.write(&mut ledger, &mut Given::of([object(1, 1)])).unwrap_err();
    assert!(error.is_interrupted() && error.to_string() == "interrupted", "{error}");
    // It is gone on with at once.
    assert_eq!(write(&mut ledger, &mut Given::of([object(1, 1)]), false).unwrap().added.objects, 1);
}

/// Two objects for the first one's target.
fn doubled() -> [FleetObject; 2] {
    [object(1, 1), FleetObject { target: object(1, 1).target, ..object(2, 1) }]
}

#[test]
fn a_plan_that_was_refused_is_refused_again() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    for time in ["first", "second"] {
        let mut listing = Given { unique: false, ..Given::of(doubled()) };
        let error = write(&mut ledger, &mut listing, false).unwrap_err().to_string();
        let named = "objects share a target: folder/0000001 to folder/0000001, ";
        assert!(error.contains(named), "{time}: {error}");
        let status = ledger.status().unwrap();
        assert!(!status.sealed && status.planned.objects == 2, "{time}: {status:?}");
    }
}

#[test]
fn an_interrupted_plan_of_another_object_for_a_target_is_not_gone_on_with() {
    let (folder, clock) = (folder(), clock());
    let [own, other] = doubled();
    for (name, listed) in [("both", vec![own.clone(), other.clone()]), ("other", vec![other])] {
        let mut ledger = sqlite(&folder.path().join(name), &clock);
        let mut lease = ledger.begin(&ends(), "a test", 5).unwrap();
        ledger.append(&mut lease, &[batch(std::slice::from_ref(&own))], &[]).unwrap();
        ledger.abandon(&lease).unwrap();
        let mut listing = Given { unique: false, ..Given::of(listed) };
        let error = write(&mut ledger, &mut listing, false).unwrap_err().to_string();
        let both = "folder/0000001 to folder/0000001, folder/0000002 to folder/0000001";
        assert!(error.contains(both), "{name}: {error}");
        assert!(!ledger.status().unwrap().sealed, "{name}");
    }
}

#[test]
fn what_cannot_be_planned_refuses_the_plan_unless_it_may_be_left_out() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let text = "a\nb/../c\nd\n";
    let listing = || ListListing::read(text.as_bytes(), "/from/", TargetNames::Paths).unwrap();
    let error = write(&mut ledger, &mut listing(), false).unwrap_err().to_string();
    assert!(error.contains("cannot plan 1 of the source: -, line 2: 'b/../c' leads out"), "{error}");
    let report = write(&mut ledger, &mut listing(), true).unwrap();
    assert_eq!((report.bad_count, names(&mut ledger)), (1, vec![b"a".to_vec(), b"d".to_vec()]));
}

#[test]
fn what_has_no_size_is_compared_by_its_name_and_counted() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let without = |number| FleetObject { size: None, ..object(number, 1) };
    write(&mut ledger, &mut Given::of([without(1), object(2, 1), object(3, 1)]), false).unwrap();
    let there = [object(1, 7), object(2, 1), without(3)];
    let compared = compare(&mut ledger, &mut Given::of(there), Side::Source).unwrap();
    assert!(compared.is_right());
    assert_eq!((compared.agree, compared.unsized_objects), (3, 2));
}

#[test]
fn a_tree_is_listed_as_cp_copies_it_and_compared_with_what_is_there() {
    let (folder, clock) = (folder(), clock());
    let root = folder.path().join("tree");
    std::fs::create_dir_all(root.join("sub/empty")).unwrap();
    for (name, text) in [("a", "1"), ("sub/b", "22"), ("sub/c", "")] {
        std::fs::write(root.join(name), text).unwrap();
    }
    std::os::unix::fs::symlink("a", root.join("link")).unwrap();
    let listed = |path: &Path| {
        let mut listing = TreeListing::new(path).unwrap();
        let (mut objects, mut links) = (Vec::new(), 0);
        while let Some(found) = listing.next().unwrap() {
            match found {
                Found::Object(object) => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    objects.push((text(&object.source), text(&object.target), object.size.unwrap()));
                }
                Found::LeftOut(LeftOut::Link) => links += 1,
                Found::LeftOut(_) => {}
                Found::Bad(why) => panic!("{why}"),
            }
        }
        assert_eq!(links, 1);
        objects.sort();
        objects
    };
    let is = |prefix: &str| {
        [("a", 1), ("sub/b", 2), ("sub/c", 0)]
            .map(|(name, size)| (name.to_owned(), format!("{prefix}{name}"), size))
            .to_vec()
    };
    assert_eq!(listed(&root.join("")), is(""));
    assert_eq!(listed(&root), is("tree/"));

    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    write(&mut ledger, &mut TreeListing::new(&root.join("")).unwrap(), false).unwrap();
    let mut of_source = || compare(&mut ledger, &mut TreeListing::new(&root.join("")).unwrap(), Side::Source);
    assert!(of_source().unwrap().is_right());
    std::fs::write(root.join("a"), "333").unwrap();
    std::fs::remove_file(root.join("sub/c")).unwrap();
    std::fs::write(root.join("new"), "").unwrap();
    let compared = of_source().unwrap();
    assert_eq!((compared.agree, compared.others), (1, 1));
    let differ = [("a".to_owned(), Difference::Size), ("sub/c".to_owned(), Difference::Missing)];
    assert_eq!(compared.differ, differ);
    // What could not be read may have the one that was not found.
    let found = vec![Found::Object(object(1, 1)), Found::Bad("sub: permission denied".to_owned())];
    let mut unread = Given { found: found.into_iter(), ..Given::of([]) };
    let compared = compare(&mut ledger, &mut unread, Side::Source).unwrap();
    assert_eq!((compared.unknown, compared.missing, compared.unread), (3, 0, 1));
    assert!(!compared.is_right() && compared.reasons == ["sub: permission denied"]);
    assert_eq!(compared.differ[0], ("a".to_owned(), Difference::Unknown));
    // Nothing is done yet, so nothing need be at the target.
    let at_target = compare(&mut ledger, &mut Given::of([]), Side::Target).unwrap();
    assert!(at_target.is_right() && at_target.expected == 0);
}
