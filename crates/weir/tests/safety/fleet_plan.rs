//! A fleet's commands beside its workers: a plan from a folder and a list, its status, its settings, its
//! check.

use std::path::Path;

use serde_json::Value;

use crate::support::listed::{ListedBucket, Manner, weir_of};
use crate::support::{Sandbox, WEIR};

/// Files of a folder `from`.
fn files(sandbox: &Sandbox) {
    std::fs::create_dir_all(sandbox.path("from/sub")).expect("a folder");
    for (name, text) in [("a", "1"), ("sub/b,c", "22"), ("sub/d", "")] {
        std::fs::write(sandbox.path("from").join(name), text).expect("a file");
    }
}

/// `weir fleet` and these words, whose ledger is `l.db`; its stdout where it ends with `code`.
fn fleet(sandbox: &Sandbox, words: &[&str], code: i32) -> String {
    let words = [&["fleet"], words, &["--ledger", "l.db"]].concat();
    let run = sandbox.weir(WEIR, words).run();
    let stdout = String::from_utf8_lossy(&run.stdout).into_owned();
    run.exits(code);
    stdout
}

/// JSON lines.
fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a row")).collect()
}

#[test]
fn a_folder_is_planned_moved_checked_and_exported() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    let planned = fleet(&sandbox, &["plan", "from/", "to"], 0);
    assert!(planned.contains("planned 3 objects, 3 B, in 3 batches"), "{planned}");
    let status = fleet(&sandbox, &["status"], 0);
    assert!(status.contains("under way") && status.contains("no worker has joined"), "{status}");
    let early = fleet(&sandbox, &["check"], 1);
    assert!(early.contains("the fleet is not at its end"), "{early}");

    let set = fleet(&sandbox, &["set", "--workers", "2", "--limit-rate", "50M", "--window", "0:00-23:59"], 0);
    assert!(set.contains("to 2 workers, 50.0 MB/s a host, within 00:00-23:59 UTC"), "{set}");
    fleet(&sandbox, &["set", "--workers", "all", "--limit-rate", "none", "--window", "none"], 0);
    assert!(fleet(&sandbox, &["pause"], 0).contains("paused"));
    assert!(fleet(&sandbox, &["resume"], 0).contains("giving out batches, to all workers"));

    fleet(&sandbox, &["work"], 0);
    let checked = fleet(&sandbox, &["check", "--source", "--digests"], 0);
    assert!(checked.contains("all is done, and there"), "{checked}");
    let status: Value = serde_json::from_str(&fleet(&sandbox, &["status", "--json"], 0)).unwrap();
    assert_eq!((&status["complete"], &status["moved"]["objects"]), (&true.into(), &3.into()));
    let csv = fleet(&sandbox, &["export"], 0);
    assert!(csv.starts_with("source,target,size,state,batch,host,class,reason\n"), "{csv}");
    assert!(csv.contains("\n\"sub/b,c\",\"sub/b,c\",2,done,"), "{csv}");
    let rows = rows(&fleet(&sandbox, &["export", "--format", "json"], 0));
    let row = rows.iter().find(|row| row["source"] == "sub/b,c").expect("its row");
    assert_eq!((rows.len(), &row["target"]), (3, &"sub/b,c".into()));
    assert_eq!((&row["size"], &row["state"], &row["class"]), (&2.into(), &"done".into(), &Value::Null));
    assert_eq!(fleet(&sandbox, &["export", "--format", "json", "--state", "failed"], 0), "");
    // It is the same plan, and whole.
    fleet(&sandbox, &["plan", "from/", "to"], 1);

    std::fs::remove_file(sandbox.path("to/a")).unwrap();
    std::fs::write(sandbox.path("to/sub/b,c"), "33").unwrap();
    std::fs::write(sandbox.path("to/sub/d"), "x").unwrap();
    let wrong = fleet(&sandbox, &["check", "--digests"], 1);
    let names =
        ["a: missing", "sub/d: another size", "/to/sub/b,c differs from", "not all is right; remove what"];
    assert!(names.iter().all(|name| wrong.contains(name)), "{wrong}");
}

/// What `sha256sum` says of the text "1".
const OF_ONE: &str = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b";

/// A list may say what each file must have; nothing else is let through, and a check knows it without the
/// source.
#[test]
fn digests_of_a_list_are_held_to() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    let wrong = "0".repeat(64);
    let list = format!("a\t\t\tsha256:{OF_ONE}\nsub/d\t\t\tsha256:{wrong}\nsub/b,c\n");
    std::fs::write(sandbox.path("list"), list).unwrap();
    fleet(&sandbox, &["plan", "--list", "list", "from/", "to"], 0);
    fleet(&sandbox, &["work"], 1);
    let csv = fleet(&sandbox, &["export", "--state", "failed"], 0);
    assert!(csv.contains("sub/d,sub/d,") && csv.contains(",digest,"), "{csv}");
    let rows = rows(&fleet(&sandbox, &["export", "--format", "json", "--state", "failed"], 0));
    assert_eq!((rows.len(), &rows[0]["source"], &rows[0]["class"]), (1, &"sub/d".into(), &"digest".into()));
    assert!(rows[0]["reason"].as_str().is_some_and(|why| why.contains("sha256")), "{rows:?}");
    assert!(!sandbox.path("to/sub/d").exists());
    let checked = fleet(&sandbox, &["check", "--digests"], 1);
    assert!(checked.contains("content: 2 objects compared, 0 differ"), "{checked}");
    assert!(checked.contains("then weir fleet retry"), "{checked}");
}

/// A list as `find . -type f` writes it, of one file for two names: a check knows both.
#[test]
fn one_source_may_be_brought_to_two_targets() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    std::fs::write(sandbox.path("list"), "./a\t\t1\n./a\tcopy\t1\n./sub/b,c\n").unwrap();
    fleet(&sandbox, &["plan", "--list", "list", "from/", "to"], 0);
    fleet(&sandbox, &["work"], 0);
    let checked = fleet(&sandbox, &["check", "--source"], 0);
    assert!(checked.contains("source: 3 of 3 are there"), "{checked}");
    std::fs::remove_file(sandbox.path("from/a")).unwrap();
    let checked = fleet(&sandbox, &["check", "--source"], 1);
    assert!(checked.contains("source: 1 of 3 are there, 2 are missing"), "{checked}");
}

/// A key may begin with a slash, and is another one than the same without it.
#[test]
fn a_key_that_begins_with_a_slash_is_no_other_ones() {
    let bucket = ListedBucket::start(&[("p/x", b"one"), ("p//x", b"two")], Manner::InOrder, 100);
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("list"), "s3://b/p//x\tdouble\ns3://b/p/x\n").unwrap();
    let fleet = |words: &[&str]| {
        let words = [&["fleet"], words, &["--ledger", "l.db"]].concat();
        weir_of(&sandbox, &bucket.server.url(""), &words).run()
    };
    fleet(&["plan", "--list", "list", "s3://b/p/", "to"]).succeeds();
    fleet(&["work"]).succeeds();
    assert_eq!((sandbox.read("to/double"), sandbox.read("to/x")), (b"two".to_vec(), b"one".to_vec()));
}

/// A copy that equals its source is wrong where both are not what the list says.
#[test]
fn a_check_holds_files_to_their_digests_beside_their_sources() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    std::fs::write(sandbox.path("list"), format!("a\t\t\tsha256:{OF_ONE}\n")).unwrap();
    fleet(&sandbox, &["plan", "--list", "list", "from/", "to"], 0);
    fleet(&sandbox, &["work"], 0);
    fleet(&sandbox, &["check", "--digests"], 0);
    for side in ["from/a", "to/a"] {
        std::fs::write(sandbox.path(side), "2").unwrap();
    }
    let checked = fleet(&sandbox, &["check", "--digests"], 1);
    assert!(checked.contains("has not the sha256"), "{checked}");
}

#[test]
fn contents_that_are_not_kept_cannot_be_compared() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    fleet(&sandbox, &["plan", "from/", "/dev/null"], 0);
    fleet(&sandbox, &["work"], 0);
    fleet(&sandbox, &["check"], 0);
    let run = sandbox.weir(WEIR, ["fleet", "check", "--digests", "--ledger", "l.db"]).run();
    run.fails(2, &["/dev/null keeps nothing"]);
}

#[test]
fn what_is_wrong_with_a_plan_is_named() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    let run = |words: &[&str]| sandbox.weir(WEIR, [&["fleet"], words].concat()).run();
    std::fs::write(sandbox.path("list"), "a\nsub/d\ta\nsub/b,c\n").unwrap();
    // The same command once more takes none of it for planned.
    for _ in 0..2 {
        let doubled = run(&["plan", "--list", "list", "from/", "to", "--ledger", "two.db"]);
        doubled.fails(1, &["objects share a target: a to a, sub/d to a"]);
    }
    // Nobody moves any of it, and who comes to is told why.
    let nobody = "the plan is not whole and nobody writes it: run the same weir fleet plan again";
    run(&["work", "--ledger", "two.db", "--once"]).fails(1, &[nobody]);
    assert!(!sandbox.path("to").exists() || std::fs::read_dir(sandbox.path("to")).unwrap().next().is_none());
    run(&["status", "--ledger", "none.db"])
        .fails(1, &["none.db: no ledger is there; make one with weir fleet plan"]);
    assert!(!Path::new(&sandbox.path("none.db")).exists());
    run(&["plan", "s3://b/p", "to", "--ledger", "x.db"])
        .fails(2, &["a fleet moves prefixes, which end with a '/'"]);
    run(&["plan", "http://h/d/?q", "to", "--ledger", "x.db"]).fails(2, &["without a query", "--list FILE"]);
    run(&["plan", "from/", "http://h/d/", "--ledger", "x.db"]).fails(2, &["not to web servers"]);
    for target in ["from", "from/sub/new", "from/./sub/../new"] {
        run(&["plan", "from/", target, "--ledger", "in.db"]).fails(2, &["the target lies in the source"]);
    }
    assert!(!sandbox.path("in.db").exists());
    run(&["plan", "--list", "list", "from/", "from/sub/new", "--ledger", "in.db"])
        .fails(1, &["objects share a target"]);
    run(&["plan", "absent/", "to", "--ledger", "x.db"]).fails(1, &["absent", "no such file"]);
    run(&["set", "--window", "8-9", "--ledger", "two.db"]).fails(2, &["expected two times of a day in UTC"]);
    run(&["retry", "--class", "bad", "--ledger", "two.db"]).fails(2, &["expected one of missing, changed"]);
    std::fs::write(sandbox.path("text"), "no ledger at all\n").unwrap();
    run(&["plan", "from/", "to", "--ledger", "text"]).fails(1, &["is a file of another kind, not a ledger"]);
    assert_eq!(std::fs::read_to_string(sandbox.path("text")).unwrap(), "no ledger at all\n");
    let away = "postgres://me:secret@127.0.0.1:1/d?sslmode=maybe&schema=two";
    run(&["status", "--ledger", away])
        .fails(1, &["postgres://me@127.0.0.1:1/d?schema=two", "sslmode"])
        .hides("secret");
    for libpq in ["host=127.0.0.1 password=secret dbname=x", "postgres:/me:secret@h/a"] {
        let planned = run(&["plan", "from/", "to", "--ledger", libpq]);
        planned.fails(2, &["expected postgres://USER@HOST/DATABASE", "PGPASSWORD"]).hides("secret");
        assert!(sandbox.names().iter().all(|name| !name.contains("secret")), "{:?}", sandbox.names());
    }
}
