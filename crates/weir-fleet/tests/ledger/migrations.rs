//! Ledgers of an older weir become today's, and their plans are gone on with.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;
use weir_fleet::FleetError;
use weir_fleet::ledger::{BatchResults, Claimed, FleetLedger, LedgerPlace, SqlLedger, Tally, schema};
use weir_fleet::object::pack;

use crate::cluster::Cluster;
use crate::{LEASE, clock, folder, object, patience, plan, sqlite, who};

/// The statements of version 1 as they were written first, and a plan of six objects in it: of three batches
/// one is done, one was given to a worker that is gone, and one waits.
const VERSION_1: &str = include_str!("version_1.sql");

/// Writes it; `{bytes}` and `{blob ...}` are the dialects'.
fn version_1(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let sql = VERSION_1.replace("{bytes}", "BLOB");
    connection.execute_batch("PRAGMA application_id = 0x57656972; PRAGMA journal_mode = WAL;").unwrap();
    connection.execute_batch(&sql).unwrap();
    for (batch, first) in [(1, 0), (2, 2), (3, 4)] {
        let lines = pack(&[object(first, 10), object(first + 1, 10)]);
        connection.execute("INSERT INTO manifest (batch, lines) VALUES (?1, ?2)", (batch, lines)).unwrap();
    }
}

/// Its tables, indexes and views, by name.
fn tables(path: &Path) -> BTreeMap<String, String> {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

fn version(path: &Path) -> i64 {
    Connection::open(path).unwrap().query_row("SELECT version FROM ledger", [], |row| row.get(0)).unwrap()
}

fn finish_all(ledger: &mut SqlLedger) {
    let worker = ledger.join(&who(1)).unwrap();
    while let Claimed::Batch(claim) = ledger.claim(worker, LEASE).unwrap() {
        let moved = Tally { objects: 2, bytes: 20 };
        let results = BatchResults { covered: 2, moved, ..BatchResults::default() };
        ledger.finish(claim.lease, &results).unwrap();
    }
}

#[test]
fn a_ledger_of_version_1_becomes_todays_and_is_gone_on_with() {
    let (folder, clock) = (folder(), clock());
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    version_1(&old);
    plan(&mut sqlite(&new, &clock), 6, 2);
    let mut ledger = LedgerPlace::File(old.clone()).open(patience()).unwrap();
    assert_eq!(version(&old), schema::VERSION);
    assert_eq!(tables(&old), tables(&new), "an older ledger has not become what a new one is");
    let before = ledger.status().unwrap();
    assert_eq!((before.planned.objects, before.moved.objects, before.leased), (6, 2, 1), "{before:?}");
    finish_all(&mut ledger);
    let after = ledger.status().unwrap();
    assert!(after.complete && after.moved == Tally { objects: 6, bytes: 60 }, "{after:?}");
    // A second time nothing is done to it.
    LedgerPlace::File(old.clone()).open(patience()).unwrap();
    assert_eq!(version(&old), schema::VERSION);
}

#[test]
fn a_migration_is_done_whole_or_not_at_all() {
    let folder = folder();
    let path = folder.path().join("l");
    version_1(&path);
    // What the second version would make is there already, and the whole fails.
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE batch_leased (a INT)").unwrap();
    let before = tables(&path);
    let error = LedgerPlace::File(path.clone()).open(patience()).err().expect("it fails");
    assert!(matches!(error, FleetError::Unusable { .. }), "{error}");
    assert_eq!((version(&path), tables(&path)), (1, before));
}

#[test]
fn a_version_that_no_weir_has_written_is_named() {
    let folder = folder();
    let path = folder.path().join("l");
    version_1(&path);
    for (version, says) in [
        ("0", "is damaged: it has no version; take it back from a copy"),
        ("-1", "is damaged: it has no version"),
        ("'two'", "is damaged: it has no version"),
        ("1000", "use a newer weir"),
    ] {
        Connection::open(&path)
            .unwrap()
            .execute_batch(&format!("UPDATE ledger SET version = {version}"))
            .unwrap();
        let before = tables(&path);
        let error = LedgerPlace::File(path.clone()).open(patience()).err().expect(version).to_string();
        assert!(error.contains(says), "{error}");
        assert_eq!(tables(&path), before);
    }
}

#[test]
fn a_database_of_version_1_becomes_todays_while_workers_open_it_together() {
    let Some(cluster) = Cluster::start() else { return };
    let sql = VERSION_1.replace("{bytes}", "BYTEA");
    let mut script = format!("CREATE SCHEMA old; SET search_path TO old; {sql}");
    for (batch, first) in [(1, 0), (2, 2), (3, 4)] {
        let lines: String = pack(&[object(first, 10), object(first + 1, 10)])
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        script.push_str(&format!(
            "INSERT INTO manifest (batch, lines) VALUES ({batch}, decode('{lines}', 'hex'));"
        ));
    }
    cluster.does(&script);
    let place = LedgerPlace::parse(&cluster.url("old")).unwrap();
    std::thread::scope(|scope| {
        let openers: Vec<_> = (0..4).map(|_| scope.spawn(|| place.open(patience()).map(drop))).collect();
        for opener in openers {
            opener.join().unwrap().expect("it opens");
        }
    });
    let mut ledger = place.open(patience()).unwrap();
    finish_all(&mut ledger);
    assert!(ledger.status().unwrap().complete);
    let newer = "SET search_path TO old; UPDATE ledger SET version = 1000";
    cluster.does(newer);
    let error = place.open(patience()).err().expect("it is newer").to_string();
    assert!(error.contains("has version 1000, this weir knows up to"), "{error}");
}
