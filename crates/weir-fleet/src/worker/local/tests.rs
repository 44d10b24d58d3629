use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use weir_units::limiter::Limiter;

use super::*;
use crate::ledger::{BatchClaim, BatchLease, BatchResults, BatchWork, FleetSettings};
use crate::worker::desk::Desk;
use crate::worker::shares::LimitShares;

fn object(name: &str) -> FleetObject {
    let name = name.as_bytes().to_vec();
    FleetObject { source: name.clone(), target: name, ..FleetObject::default() }
}

/// What becomes of these, copied between the folders `from` and `to` of `root`.
fn copied(root: &Path, objects: Vec<FleetObject>) -> BatchResults {
    judged((root.join("from").as_path(), root.join("to").as_path()), objects, None).0
}

/// And what held the copies, at so many bytes a second at most.
fn judged(
    (from, to): (&Path, &Path),
    objects: Vec<FleetObject>,
    rate: Option<Rate>,
) -> (BatchResults, Vec<(String, f64)>) {
    let desk = Desk::new(16, 1);
    desk.add(
        BatchClaim {
            lease: BatchLease { batch: 1, fence: 1 },
            work: BatchWork::Objects(objects),
            given_before: 0,
            is_final: false,
            is_last: false,
            length: Duration::from_secs(30),
            settings: FleetSettings::default(),
        },
        Instant::now(),
    );
    desk.lift_limits();
    let shares = LimitShares::new(Instant::now());
    let (stop, limiter) = (desk.begin_run(), Arc::new(Limiter::open(rate)));
    let mover = LocalCopy::new(from, Some(to), Some(2)).unwrap();
    std::thread::scope(|scope| {
        let run = MoverRun { desk: &desk, shares: &shares, limiter: &limiter, stop: &stop };
        let (mover, stop) = (&mover, Arc::clone(&stop));
        scope.spawn(move || mover.run(&run, &mut ()));
        while desk.complete().is_none() {
            desk.await_news(Duration::from_millis(20));
        }
        stop.store(true, Relaxed);
    });
    let held = shares.take(Instant::now(), true).into_iter().map(|span| (span.limit, span.share));
    (desk.complete().unwrap().1, held.collect())
}

#[test]
fn a_copy_is_judged_by_what_its_hands_did() {
    let root = folders();
    std::fs::write(root.path().join("from/large"), vec![7; 3 << 20]).unwrap();
    let (from, to) = (root.path().join("from"), root.path().join("to"));
    let ends = (from.as_path(), to.as_path());
    let (results, held) = judged(ends, vec![object("large")], Some(Rate(2e6)));
    assert_eq!(results.moved.objects, 1);
    let most = held.iter().max_by(|one, other| one.1.total_cmp(&other.1)).unwrap();
    assert_eq!(most.0, "rate-limit", "{held:?}");
}

fn folders() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("from/a")).unwrap();
    fs::create_dir_all(root.path().join("to")).unwrap();
    root
}

#[test]
fn files_are_copied_once_with_their_times_and_rights() {
    let root = folders();
    let (from, to) = (root.path().join("from"), root.path().join("to"));
    let large: Vec<u8> = (0..300_000_u32).map(|number| (number >> 2) as u8).collect();
    fs::write(from.join("a/small"), "abc").unwrap();
    fs::write(from.join("large"), &large).unwrap();
    fs::write(from.join("empty"), "").unwrap();
    fs::set_permissions(from.join("large"), PermissionsExt::from_mode(0o750)).unwrap();
    let sparse = File::create(from.join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    sparse.write_at(b"end", (1 << 40) - 3).unwrap();
    let all = || ["a/small", "large", "empty", "sparse"].map(object).to_vec();
    let results = copied(root.path(), all());
    assert_eq!((results.moved.objects, results.failures), (4, Vec::new()));
    assert_eq!(
        (fs::read(to.join("a/small")).unwrap(), fs::read(to.join("large")).unwrap()),
        (b"abc".to_vec(), large)
    );
    for name in ["a/small", "large"] {
        let (one, other) = (fs::metadata(from.join(name)).unwrap(), fs::metadata(to.join(name)).unwrap());
        assert_eq!((one.mtime(), one.mtime_nsec()), (other.mtime(), other.mtime_nsec()), "{name}");
    }
    assert_eq!(fs::metadata(to.join("large")).unwrap().mode() & 0o777, 0o750);
    let copy = fs::metadata(to.join("sparse")).unwrap();
    assert!(copy.len() == 1 << 40 && copy.blocks() < 1000, "{} blocks", copy.blocks());
    let some = ["a/small", "large", "empty"].map(object).to_vec();
    let results = copied(root.path(), some);
    assert_eq!((results.same.objects, results.moved.objects), (3, 0));
    assert_eq!(fs::read_dir(&to).unwrap().count(), 4, "nothing is left beside them");
}

#[test]
fn what_cannot_be_copied_is_told_by_its_class_and_nothing_is_replaced() {
    let root = folders();
    let (from, to) = (root.path().join("from"), root.path().join("to"));
    for name in ["other", "longer", "changed", "digest", "a/x"] {
        fs::write(from.join(name), "abc").unwrap();
    }
    fs::write(to.join("other"), "xyz").unwrap();
    fs::write(to.join("longer"), "abcd").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", from.join("link")).unwrap();
    let pinned = FleetObject { size: Some(4), ..object("changed") };
    let digest = FleetObject { digest: Some(format!("sha256:{}", "0".repeat(64))), ..object("digest") };
    let under = FleetObject { target: b"../out".to_vec(), ..object("a/x") };
    let part = FleetObject { target: b".weir-0011.part".to_vec(), ..object("a/x") };
    let objects =
        vec![object("other"), object("longer"), pinned, digest, object("none"), object("link"), under, part];
    let results = copied(root.path(), objects);
    let classes: Vec<FailureClass> = results.failures.iter().map(|failure| failure.class).collect();
    use FailureClass::{Changed, Digest, Missing, Name};
    assert_eq!(classes[..5], [Name, Name, Changed, Digest, Missing], "{:?}", results.failures);
    assert_eq!((classes.len(), classes[6], classes[7]), (8, Name, Name));
    assert_eq!(
        (fs::read(to.join("other")).unwrap(), fs::read(to.join("longer")).unwrap()),
        (b"xyz".to_vec(), b"abcd".to_vec())
    );
    assert!(!root.path().join("out").exists());
    assert_eq!(fs::read_dir(&to).unwrap().count(), 2, "nothing is left beside them");
}

/// No host can copy it, and nothing is wrong with this one.
#[test]
fn what_is_no_file_any_more_has_changed() {
    let root = folders();
    let from = root.path().join("from");
    fs::create_dir(from.join("folder")).unwrap();
    fs::write(from.join("above"), "abc").unwrap();
    std::os::unix::fs::symlink("above", from.join("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, from.join("pipe"), rustix::fs::Mode::RUSR).unwrap();
    let names = ["folder", "link", "socket", "pipe", "above/file"];
    let results = copied(root.path(), names.map(object).to_vec());
    let classes: Vec<FailureClass> = results.failures.iter().map(|failure| failure.class).collect();
    assert_eq!(classes, [FailureClass::Changed; 5], "{:?}", results.failures);
    assert!(results.failures[0].reason.contains("it is no file any more"), "{:?}", results.failures);
}

/// What `sha256sum` says of the text "abc".
const OF_ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn what_is_there_is_held_to_its_digest_and_left_as_it_is() {
    let root = folders();
    let (from, to) = (root.path().join("from"), root.path().join("to"));
    for name in ["right", "wrong"] {
        fs::write(from.join(name), "abc").unwrap();
        fs::write(to.join(name), "abc").unwrap();
        fs::set_permissions(to.join(name), PermissionsExt::from_mode(0o640)).unwrap();
    }
    let before = fs::metadata(to.join("right")).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(from.join("right")).unwrap().set_modified(old).unwrap();
    let wrong = format!("sha256:{}", "0".repeat(64));
    let of = |name: &str, digest: &str| FleetObject { digest: Some(digest.to_owned()), ..object(name) };
    let results = copied(root.path(), vec![of("right", OF_ABC), of("wrong", &wrong)]);
    assert_eq!((results.same.objects, results.failures.len()), (1, 1), "{:?}", results.failures);
    assert_eq!(results.failures[0].class, FailureClass::Digest, "{:?}", results.failures);
    let after = fs::metadata(to.join("right")).unwrap();
    assert_eq!((before.mode(), before.mtime()), (after.mode(), after.mtime()), "it is not weir's");
}

#[test]
fn a_new_file_has_the_rights_of_its_source_that_the_umask_leaves() {
    let root = folders();
    let (from, to) = (root.path().join("from"), root.path().join("to"));
    let modes = [("small", 0o775, 3), ("large", 0o640, 100_000), ("read", 0o444, 3)];
    for (name, mode, size) in modes {
        fs::write(from.join(name), vec![7; size]).unwrap();
        fs::set_permissions(from.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    let results = copied(root.path(), modes.map(|(name, ..)| object(name)).to_vec());
    assert_eq!((results.moved.objects, results.failures), (3, Vec::new()));
    for (name, mode, _) in modes {
        let copy = fs::metadata(to.join(name)).unwrap();
        assert_eq!(copy.mode() & 0o777, mode & !weir_tree::umask(), "{name}");
        assert_eq!(copy.modified().unwrap(), fs::metadata(from.join(name)).unwrap().modified().unwrap());
    }
}

/// A file of sysfs announces a page and has some bytes.
#[test]
fn a_source_that_cannot_be_read_is_not_told_as_a_fault_of_the_target() {
    const SHORT: &str = "uevent_seqnum";
    let from = Path::new("/sys/kernel");
    if !from.join(SHORT).is_file() {
        println!("skipped: no {SHORT} in {}", from.display());
        return;
    }
    let root = folders();
    let (results, _) = judged((from, root.path().join("to").as_path()), vec![object(SHORT)], None);
    let [failure] = &*results.failures else { panic!("{results:?}") };
    assert_eq!(failure.class, FailureClass::Changed, "{failure:?}");
    assert!(failure.reason.starts_with("cannot read 'uevent_seqnum'"), "{failure:?}");
}
