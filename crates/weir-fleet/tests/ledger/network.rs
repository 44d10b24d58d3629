//! PostgreSQL over TCP, with a password, plain and by TLS: a server of the test's own with a certificate of
//! an authority of the test's own.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_fleet::FleetError;
use weir_fleet::ledger::database::{Database, Now};
use weir_fleet::ledger::postgres::PostgresDatabase;
use weir_fleet::ledger::{Claimed, FleetLedger, LedgerPlace, Patience};

use crate::cluster::{Cluster, Network, PASSWORD};
use crate::{LEASE, ends, plan, who};

/// A port that nobody has, below those that the kernel gives away by itself (net.ipv4.ip_local_port_range):
/// the server takes up to a second until it listens there. Each is handed out once.
fn port() -> u16 {
    const PORTS: std::ops::Range<u32> = 15_000..32_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: &u16| {
        let local = format!(":{port:04X} ");
        ["tcp", "tcp6"].iter().all(|name| {
            let table = std::fs::read_to_string(format!("/proc/net/{name}")).expect("a list of sockets");
            !table.contains(&local)
        })
    };
    let next = || {
        let index = std::process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Relaxed));
        (PORTS.start + index % (PORTS.end - PORTS.start)) as u16
    };
    std::iter::repeat_with(next).take(PORTS.len()).find(is_free).expect("a free port")
}

fn patience() -> Patience {
    Patience { longest: Duration::from_secs(60), stop: Arc::default() }
}

/// Of the server at `host`, by this mode and with what else the address says.
fn url(host: &str, port: u16, mode: &str, more: &str) -> String {
    format!("postgres://fleet:{PASSWORD}@{host}:{port}/postgres?sslmode={mode}{more}")
}

/// Whether the connection is encrypted, as the server sees it.
fn is_encrypted(url: &str) -> Result<bool, FleetError> {
    LedgerPlace::parse(url).unwrap().open_or_create(patience())?.begin(&ends(), "t", 5).map(drop).or_else(
        |error| {
            // The plan is there from the time before.
            if matches!(error, FleetError::Taken { .. }) { Ok(()) } else { Err(error) }
        },
    )?;
    let mut database = PostgresDatabase::open(&url.parse().unwrap(), false, Now::Database)?;
    let mut encrypted = None;
    let asked = database.transact(&mut |transaction| {
        let sql = "SELECT CAST(ssl AS INT) FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        encrypted = transaction.query(sql, &[])?.first().and_then(|row| row.int(0));
        Ok(())
    });
    asked.unwrap();
    Ok(encrypted.unwrap() == 1)
}

/// It cannot be opened, and no word has the password.
#[track_caller]
fn is_refused(url: &str, says: &[&str]) {
    let error = LedgerPlace::parse(url)
        .unwrap()
        .open_or_create(patience())
        .and_then(|mut ledger| ledger.begin(&ends(), "a test", 5).map(drop));
    let error = error.expect_err(url);
    let words = error.to_string();
    assert!(matches!(error, FleetError::Unusable { .. }), "{error:?}");
    assert!(says.iter().all(|says| words.contains(says)) && !words.contains(PASSWORD), "{words}");
}

/// An authority, and a certificate of `localhost` by it; and another authority.
fn certificates(cluster: &Cluster) {
    let openssl = |words: &str| {
        let run = Command::new("openssl").args(words.split(' ')).current_dir(cluster.path("")).output();
        let run = run.expect("openssl runs");
        assert!(run.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&run.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for name in ["ca", "other"] {
        openssl(&format!("req -x509 {key} -keyout {name}.key -out {name}.pem -days 2 -subj /CN={name}"));
    }
    openssl(&format!("req {key} -keyout server.key -out server.csr -subj /CN=localhost"));
    std::fs::write(cluster.path("names"), "subjectAltName=DNS:localhost\n").unwrap();
    openssl(
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem",
    );
    cluster.hand_over("server.key");
}

#[test]
fn a_ledger_is_reached_by_tls_as_its_address_says() {
    let Some(cluster) = Cluster::start() else { return };
    certificates(&cluster);
    let port = port();
    cluster.listen(Network::Tls(port));
    let root = |name: &str| format!("&sslrootcert={}", cluster.path(name).display());
    let (ca, other) = (root("ca.pem"), root("other.pem"));
    for (mode, more, is) in [
        ("disable", "", false),
        ("prefer", "", true),
        ("require", "", true),
        ("require", &*ca, true),
        ("verify-ca", &*ca, true),
        ("verify-full", &*ca, true),
    ] {
        let encrypted = is_encrypted(&url("localhost", port, mode, more));
        assert_eq!(encrypted.unwrap_or_else(|error| panic!("{mode}{more}: {error}")), is, "{mode}{more}");
    }
    // By its address the server is not the one that the certificate names.
    assert!(is_encrypted(&url("127.0.0.1", port, "require", "")).unwrap());
    is_refused(&url("127.0.0.1", port, "verify-full", &ca), &["certificate", "localhost"]);
    for mode in ["require", "verify-ca", "verify-full"] {
        is_refused(&url("localhost", port, mode, &other), &["certificate"]);
    }
    // Nobody whom this system trusts has signed it.
    is_refused(&url("localhost", port, "verify-full", ""), &["certificate"]);
    is_refused(&url("localhost", port, "verify-full", &root("none.pem")), &["none.pem", "no such file"]);
    is_refused(&url("localhost", port, "sometimes", ""), &["sslmode is 'sometimes'; expected disable"]);
    is_refused(
        &url("localhost", port, "require", "").replace(PASSWORD, "wrong"),
        &["password authentication failed", "give the password by PGPASSWORD or ~/.pgpass"],
    );
    is_refused(
        &url("localhost", port, "require", "").replace(&format!(":{PASSWORD}"), ""),
        &["password", "PGPASSWORD"],
    );
    // A whole plan over it.
    let place =
        LedgerPlace::parse(&url("localhost", port, "verify-full", &format!("{ca}&schema=two"))).unwrap();
    let mut ledger = place.open_or_create(patience()).unwrap();
    plan(&mut ledger, 100, 10);
    let worker = ledger.join(&who(1)).unwrap();
    assert!(matches!(ledger.claim(worker, LEASE).unwrap(), Claimed::Batch(_)));
}

/// As behind a firewall that swallows what comes.
#[test]
fn a_server_that_says_nothing_keeps_nobody_who_is_to_end() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let place = LedgerPlace::parse(&url("127.0.0.1", port, "disable", "")).unwrap();
    let (patience, began) = (patience(), Instant::now());
    let stop = Arc::clone(&patience.stop);
    let ended = std::thread::scope(|scope| {
        let asks = scope.spawn(|| place.open(patience).map(drop));
        let _held = silent.accept().unwrap();
        stop.store(true, Relaxed);
        asks.join().unwrap()
    });
    assert!(matches!(ended, Err(FleetError::Interrupted { .. })), "{ended:?}");
    // An answer may take twenty seconds.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[test]
fn a_server_without_tls_is_used_where_the_address_allows_it() {
    let Some(cluster) = Cluster::start() else { return };
    let port = port();
    cluster.listen(Network::Plain(port));
    for mode in ["disable", "allow", "prefer"] {
        assert!(!is_encrypted(&url("127.0.0.1", port, mode, "")).unwrap(), "{mode}");
    }
    for mode in ["require", "verify-ca", "verify-full"] {
        is_refused(&url("127.0.0.1", port, mode, ""), &["TLS", "sslmode"]);
    }
    let place = LedgerPlace::parse(&url("127.0.0.1", port, "disable", "")).unwrap();
    cluster.stop();
    let short = Patience { longest: Duration::from_millis(200), stop: Arc::default() };
    let away = place.open(short).err().expect("it is away");
    assert!(matches!(away, FleetError::Away { .. }) && !away.to_string().contains(PASSWORD), "{away}");
}
