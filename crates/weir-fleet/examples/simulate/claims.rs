//! How many batches a second a ledger gives out and takes back.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_fleet::FleetError;
use weir_fleet::ledger::{
    BatchResults, BatchWork, Claimed, Finished, FleetLedger, LedgerPlace, Patience, PlannedBatch, SqlLedger,
    Tally, WorkerId, WorkerIdentity,
};
use weir_fleet::object::{FleetObject, pack};

use super::{Flags, Folder, LEASE, plan};

/// Objects of a batch of small ones, as a plan cuts them.
const OBJECTS: u64 = 1000;

/// A lease that does not end while it is measured.
const LONG: Duration = Duration::from_secs(3600);

/// What one client had.
#[derive(Default)]
struct Had {
    /// How long each claim took.
    claims: Vec<Duration>,
    /// And each finish.
    finishes: Vec<Duration>,
}

/// Measures, and prints a line for each number of clients.
pub fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let clients = flags.text("clients").unwrap_or("1,16,64,256");
    let (held, more) = (flags.number("held", 0_u64)?, flags.number("batches", 0_u64)?);
    let span = Duration::from_secs_f64(flags.number("seconds", 5.0)?);
    println!(
        "| clients | batches/s | claim, median | claim, 99 of 100 | finish, median | batches held by others | batches |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for clients in clients.split(',') {
        let clients: usize = clients.parse().map_err(|_| format!("invalid --clients '{clients}'"))?;
        // More than are claimed: no ledger measured so far gives out 8000 a second.
        let batches = more.max((span.as_secs_f64() * 8000.0) as u64) + held;
        let folder = Folder::new(flags.text("folder"))?;
        let place = match flags.text("ledger") {
            Some(url) => {
                let mark = if url.contains('?') { '&' } else { '?' };
                LedgerPlace::parse(&format!("{url}{mark}schema=claims_{:08x}", fastrand::u32(..)))?
            }
            None => LedgerPlace::File(folder.0.join("fleet.db")),
        };
        let mut ledger = place.open_or_create(patience())?;
        plan(&mut ledger, batches, &batch())?;
        hold(&mut ledger, held)?;
        let had = measure(&place, clients, span)?;
        print(clients, span, &had, held, batches);
    }
    Ok(())
}

fn patience() -> Patience {
    Patience { longest: Duration::from_secs(60), stop: Arc::default() }
}

/// A batch of a thousand names.
fn batch() -> PlannedBatch {
    let object = |number: u64| {
        let source = format!("folder/{number:07}").into_bytes();
        FleetObject { target: source.clone(), source, size: Some(1), ..FleetObject::default() }
    };
    let objects: Vec<FleetObject> = (0..OBJECTS).map(object).collect();
    PlannedBatch { objects: OBJECTS, bytes: OBJECTS, lines: pack(&objects) }
}

fn joined(ledger: &mut SqlLedger, number: usize) -> Result<WorkerId, FleetError> {
    let host = format!("host{}", number % 50);
    ledger.join(&WorkerIdentity { host, pid: number as u32, version: "1".to_owned() })
}

/// Others hold so many batches.
fn hold(ledger: &mut SqlLedger, held: u64) -> Result<(), Box<dyn Error>> {
    let other = joined(ledger, 0)?;
    for _ in 0..held {
        let Claimed::Batch(_) = ledger.claim(other, LONG)? else { return Err("too few batches".into()) };
    }
    Ok(())
}

fn measure(place: &LedgerPlace, clients: usize, span: Duration) -> Result<Vec<Had>, Box<dyn Error>> {
    let (go, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let start = |number: usize| {
            let (go, over) = (&go, &over);
            scope.spawn(move || client(place, number, go, over))
        };
        let threads: Vec<_> = (1..=clients).map(start).collect();
        // All are connected after this time, or join while the others are measured.
        std::thread::sleep(Duration::from_secs(1));
        go.store(true, Relaxed);
        std::thread::sleep(span);
        over.store(true, Relaxed);
        let had = threads.into_iter().map(|thread| match thread.join() {
            Ok(had) => had.map_err(Box::from),
            Err(_) => Err("a client failed".into()),
        });
        had.collect()
    })
}

fn client(place: &LedgerPlace, number: usize, go: &AtomicBool, over: &AtomicBool) -> Result<Had, FleetError> {
    let mut ledger = place.open(patience())?;
    let worker = joined(&mut ledger, number)?;
    let mut had = Had::default();
    while !go.load(Relaxed) {
        std::thread::yield_now();
    }
    while !over.load(Relaxed) {
        let start = Instant::now();
        let Claimed::Batch(claim) = ledger.claim(worker, LEASE)? else { break };
        had.claims.push(start.elapsed());
        let BatchWork::Objects(objects) = &claim.work else { break };
        let moved = Tally { objects: objects.len() as u64, bytes: objects.len() as u64 };
        let results = BatchResults { covered: moved.objects, moved, ..BatchResults::default() };
        let start = Instant::now();
        if ledger.finish(claim.lease, &results)? == Finished::Done {
            had.finishes.push(start.elapsed());
        }
    }
    Ok(had)
}

fn print(clients: usize, span: Duration, had: &[Had], held: u64, batches: u64) {
    let mut claims: Vec<Duration> = had.iter().flat_map(|had| had.claims.clone()).collect();
    let mut finishes: Vec<Duration> = had.iter().flat_map(|had| had.finishes.clone()).collect();
    claims.sort_unstable();
    finishes.sort_unstable();
    let at = |times: &[Duration], share: f64| {
        let place = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
        times.get(place).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    };
    let rate = finishes.len() as f64 / span.as_secs_f64();
    println!(
        "| {clients} | {rate:.0} | {:.2} ms | {:.2} ms | {:.2} ms | {held} | {batches} |",
        at(&claims, 0.5),
        at(&claims, 0.99),
        at(&finishes, 0.5)
    );
}
