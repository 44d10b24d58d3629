//! The store of a case: a bucket in the far namespace, or on the loopback, that does what the case says.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_lab::bed::Bed;

use super::cases::{Doing, StoreCase};
use crate::support::Server;
use crate::support::bucket::{Bucket, Fault, Handler};

/// Asked for fewer requests in these words.
const WORDS: &str = "Please reduce your request rate.";

/// See the module.
pub(crate) struct CaseStore {
    pub(crate) bucket: Bucket,
}

impl CaseStore {
    pub(crate) fn start(case: &StoreCase, bed: Option<&Bed>) -> anyhow::Result<CaseStore> {
        if let (Doing::SmallBuffer(bytes), Some(bed)) = (case.store, bed) {
            bed.far().set_sysctl("net.ipv4.tcp_rmem", &format!("4096 {bytes} {bytes}"))?;
        }
        let bucket = match bed {
            None => Bucket::start(),
            Some(bed) => {
                let address = SocketAddr::from((bed.far_address(), 0)).to_string();
                let start = |handler: Handler| Server::start_on(&address, handler).expect("a free port");
                bed.far().run(|| Bucket::start_by(start))?
            }
        };
        bucket.holds().trusts = true;
        does(&bucket, case.store);
        Ok(CaseStore { bucket })
    }

    pub(crate) fn url(&self) -> String {
        self.bucket.server.url("")
    }
}

/// From now on it does what the case says.
fn does(bucket: &Bucket, doing: Doing) {
    let mut asked: BTreeMap<String, u32> = BTreeMap::new();
    match doing {
        Doing::Good | Doing::SmallBuffer(_) => {}
        Doing::Caps(pace) => bucket.hook(move |_| Some(Fault::Slow(pace))),
        Doing::CapsAll(pace) => {
            let due = Arc::new(Mutex::new(Instant::now()));
            bucket.hook(move |_| Some(Fault::Shared(Arc::clone(&due), pace)));
        }
        Doing::Late(span) => bucket.hook(move |_| Some(Fault::Late(span))),
        Doing::LateFor(text, span) => {
            bucket.hook(move |request| request.target.contains(text).then_some(Fault::Late(span)));
        }
        Doing::Refuses(status, code) => does(bucket, Doing::RefusesFor("", status, code)),
        Doing::RefusesFor(text, status, code) => bucket.hook(move |request| {
            if !request.target.contains(text) {
                return None;
            }
            let times = asked.entry(format!("{} {}", request.method, request.target)).or_default();
            *times += 1;
            let body = format!("<Error><Code>{code}</Code><Message>{WORDS}</Message></Error>");
            (*times <= 2).then_some(Fault::Answer(status, body))
        }),
    }
}

/// Writes as a program that produces so many bytes a second.
pub(crate) fn write_at(mut to: impl Write, bytes: &[u8], pace: u64) {
    let start = Instant::now();
    let mut done = 0;
    // A few times in the shortest interval of evidence.
    for piece in bytes.chunks((pace / 70).max(1) as usize) {
        let due = Duration::from_secs_f64(done as f64 / pace as f64);
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        if to.write_all(piece).is_err() {
            return;
        }
        done += piece.len();
    }
}
