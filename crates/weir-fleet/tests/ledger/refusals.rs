//! What is no ledger, or none that may be written to now, is refused by name and left as it is.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use weir_fleet::FleetError;
use weir_fleet::ledger::{LedgerPlace, PlanEnds, PlanStep};

use crate::{batch, clock, ends, folder, object, patience, plan, sqlite};

fn open(path: &Path) -> Result<(), FleetError> {
    LedgerPlace::parse(&path.display().to_string()).unwrap().open(patience()).map(drop)
}

/// Neither opening nor planning changes a byte of it.
fn is_refused(path: &Path, words: &str) {
    let before = fs::read(path).ok();
    let place = LedgerPlace::parse(&path.display().to_string()).unwrap();
    let planned = place.open_or_create(patience()).and_then(|mut ledger| ledger.begin(&ends(), "t", 5));
    for error in [open(path).unwrap_err(), planned.unwrap_err()] {
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(fs::read(path).ok(), before, "{} was changed", path.display());
    let beside = fs::read_dir(path.parent().unwrap()).unwrap().flatten();
    let beside: Vec<_> = beside.map(|entry| entry.file_name()).collect();
    let made = beside.iter().filter(|name| name.to_string_lossy().contains("-wal")).count();
    assert_eq!(made, 0, "{beside:?}");
}

#[test]
fn other_files_are_left_as_they_are() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("text"), "a list\n".repeat(100)).unwrap();
    is_refused(&at("text"), "is a file of another kind, not a ledger");
    fs::write(at("short"), "SQLite format 3\0").unwrap();
    is_refused(&at("short"), "is a file of another kind, not a ledger");
    let mut other = b"SQLite format 3\0".to_vec();
    other.resize(4096, 1);
    fs::write(at("other"), other).unwrap();
    is_refused(&at("other"), "is a database of another program, not a ledger");
    fs::create_dir(at("folder")).unwrap();
    is_refused(&at("folder"), "is a folder, not a ledger");
    let absent = open(&at("absent")).unwrap_err().to_string();
    assert!(absent.contains("no ledger is there; make one with weir fleet plan"), "{absent}");
    assert!(!at("absent").exists());
    fs::write(at("empty"), "").unwrap();
    assert!(open(&at("empty")).is_err());
    let nowhere = at("no/such/folder/l");
    let place = LedgerPlace::parse(&nowhere.display().to_string()).unwrap();
    assert!(place.open_or_create(patience()).is_err());
}

#[test]
fn a_damaged_ledger_and_one_of_a_newer_weir_are_named() {
    let (folder, clock) = (folder(), clock());
    let path = folder.path().join("l");
    plan(&mut sqlite(&path, &clock), 5000, 10);
    let whole = fs::read(&path).unwrap();
    open(&path).unwrap();
    // Cut in the middle, as a full disk or a copy that broke off leaves it.
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let cut = open(&path).and_then(|()| {
        let mut ledger = LedgerPlace::File(path.clone()).open(patience())?;
        ledger.each_object(&mut |_| ())?;
        ledger.status().map(drop)
    });
    assert!(matches!(cut, Err(FleetError::Damaged { .. })), "{cut:?}");
    fs::write(&path, &whole).unwrap();
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute("UPDATE ledger SET version = 9", []).unwrap();
    let newer = open(&path).unwrap_err().to_string();
    assert!(newer.contains("has version 9, this weir knows up to 3; use a newer weir"), "{newer}");
}

#[test]
fn a_ledger_that_was_cut_anywhere_is_never_taken_for_a_whole_one() {
    let (folder, clock) = (folder(), clock());
    let path = folder.path().join("l");
    plan(&mut sqlite(&path, &clock), 3000, 10);
    rusqlite::Connection::open(&path).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let whole = fs::read(&path).unwrap();
    let pages = whole.len() / 4096;
    assert!(pages > 20, "{pages} pages");
    let inside = (2..pages).step_by(pages / 10).map(|page| page * 4096);
    let edges = [0, 1, 99, 100, 101, 4095, 4096, 4097, whole.len() - 4096, whole.len() - 4097];
    for cut in edges.into_iter().chain(inside) {
        for name in ["l-wal", "l-shm"] {
            let _ = fs::remove_file(folder.path().join(name));
        }
        fs::write(&path, &whole[..cut]).unwrap();
        let read = LedgerPlace::File(path.clone()).open(patience()).and_then(|mut ledger| {
            let mut seen = 0;
            ledger.each_object(&mut |_| seen += 1)?;
            Ok((seen, ledger.status()?))
        });
        match read {
            Err(
                FleetError::Damaged { .. }
                | FleetError::Foreign { .. }
                | FleetError::Absent { .. }
                | FleetError::Unusable { .. },
            ) => {}
            other => panic!("cut at {cut} of {}: {other:?}", whole.len()),
        }
    }
}

#[test]
fn one_plan_at_a_time() {
    let (folder, clock) = (folder(), clock());
    let path = folder.path().join("l");
    let [mut first, mut second] = [sqlite(&path, &clock), sqlite(&path, &clock)];
    let mut lease = first.begin(&ends(), "host a", 5).unwrap();
    let busy = second.begin(&ends(), "host b", 5).unwrap_err().to_string();
    assert!(busy.contains("is being written by host a; wait for it, or 300 s"), "{busy}");
    let other = PlanEnds { source: "/elsewhere/".to_owned(), ..ends() };
    let other = second.begin(&other, "host b", 5).unwrap_err().to_string();
    assert!(other.contains("holds the plan of /from/ to /to/; name another ledger"), "{other}");
    let one = |number| batch(&[object(number, 1)]);
    assert_eq!(first.append(&mut lease, &[one(0)], &[]).unwrap(), PlanStep::Done);
    // The first one is not heard of any more, and comes back after all.
    clock.fetch_add(300_001, Relaxed);
    let mut taken = second.begin(&ends(), "host b", 5).unwrap();
    assert_eq!(taken.objects, 1);
    assert_eq!(first.append(&mut lease, &[one(1)], &[]).unwrap(), PlanStep::Lost);
    assert_eq!(first.seal(&lease).unwrap(), PlanStep::Lost);
    assert_eq!(second.append(&mut taken, &[one(1)], &[]).unwrap(), PlanStep::Done);
    assert_eq!(second.seal(&taken).unwrap(), PlanStep::Done);
    let whole = first.begin(&ends(), "host a", 5).unwrap_err().to_string();
    assert!(whole.contains("holds this plan already, whole"), "{whole}");
    assert_eq!(second.status().unwrap().planned.objects, 2);
}
