//! Brings jobs from their source to the pool: those at hand before the first lane starts, the rest on a
//! thread of its own, as there is room for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::Scope;
use std::time::{Duration, Instant};

use super::Run;
use crate::source::{JobSource, Next, WINDOW};

/// Between two questions to a source that has nothing yet, and between two looks at whether the run is over
/// while there is no room.
const PAUSE: Duration = Duration::from_millis(20);

/// The way from a source to the pool.
pub(super) struct Feed<'a> {
    source: &'a mut dyn JobSource,
    is_at_its_end: bool,
}

impl<'a> Feed<'a> {
    pub(super) fn new(source: &'a mut dyn JobSource) -> Feed<'a> {
        Feed { source, is_at_its_end: false }
    }

    /// Takes what the source has at hand, one window at most.
    pub(super) fn at_hand(&mut self, run: &Run<'_>) {
        if self.source.is_at_hand() {
            for _ in 0..WINDOW {
                if self.is_at_its_end || !run.pool.has_room() || !self.step(run, run.stop) {
                    break;
                }
            }
        }
    }

    /// Starts the thread that takes the rest, if there is any. It ends when `over` is set.
    pub(super) fn rest<'scope>(
        self,
        run: &'scope Run<'_>,
        scope: &'scope Scope<'scope, '_>,
        over: &'scope AtomicBool,
    ) where
        'a: 'scope,
    {
        if self.is_at_its_end {
            return;
        }
        let thread = std::thread::Builder::new().name("jobs".to_owned());
        let started = thread.spawn_scoped(scope, move || self.until_its_end(run, over));
        if started.is_err() {
            // What was given is fetched; that it is not all is seen by the count.
            run.pool.close();
        }
    }

    fn until_its_end(mut self, run: &Run<'_>, over: &AtomicBool) {
        // A source that fails by a fault of its own must not leave the lanes waiting for it.
        if catch_unwind(AssertUnwindSafe(|| self.bring(run, over))).is_err() {
            run.pool.stop();
        }
        run.pool.close();
    }

    fn bring(&mut self, run: &Run<'_>, over: &AtomicBool) {
        while !self.is_at_its_end && !over.load(Relaxed) && !run.is_stopped() {
            if !run.pool.has_room() {
                if !run.pool.wait_for_room(PAUSE) {
                    break;
                }
            } else {
                let asked = Instant::now();
                if !self.step(run, over) {
                    // Most sources have waited themselves.
                    std::thread::sleep(PAUSE.saturating_sub(asked.elapsed()));
                }
            }
        }
    }

    /// Takes one thing from the source. False: it has nothing yet.
    fn step(&mut self, run: &Run<'_>, over: &AtomicBool) -> bool {
        match self.source.next(over) {
            Next::Job(job) => {
                if job.url.scheme() == "https" {
                    run.tls.store(true, Relaxed);
                }
                if job.output.is_stream() {
                    run.streams.store(true, Relaxed);
                }
                run.pool.set_count(self.source.count());
                run.pool.add(*job);
            }
            Next::Ended(job, report) => {
                run.pool.set_count(self.source.count());
                run.ended_before(&job, *report);
            }
            Next::Bad(bad) => run.results.bad(bad),
            Next::NotYet => return false,
            Next::End => {
                run.pool.set_whole();
                self.end(run);
            }
            Next::Failed(error) => {
                *run.broken.lock() = Some(error);
                self.end(run);
            }
        }
        true
    }

    fn end(&mut self, run: &Run<'_>) {
        self.is_at_its_end = true;
        run.pool.close();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::Arc;

    use url::Url;

    use super::super::{Task, run};
    use crate::error::GetError;
    use crate::http::credentials::{Credentials, NetrcFile};
    use crate::http::exchange::{Http, Version, Who};
    use crate::http::proxy::Proxies;
    use crate::http::trust::Trust;
    use crate::job::{Job, JobOutcome, Options, Output};
    use crate::source::{Kept, Next};

    use super::*;

    /// A listing over a network, as it were; behind its end it asks for the end of the run.
    struct Listing(VecDeque<Next>, Arc<AtomicBool>);

    impl JobSource for Listing {
        fn next(&mut self, over: &AtomicBool) -> Next {
            match self.0.pop_front() {
                Some(next) => next,
                None => {
                    self.1.store(true, Relaxed);
                    while !over.load(Relaxed) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Next::NotYet
                }
            }
        }

        fn count(&self) -> Option<usize> {
            None
        }
    }

    /// Answers every request with two bytes.
    fn server() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
                    let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                    for _ in lines.filter(String::is_empty) {
                        (&stream).write_all(answer).unwrap();
                    }
                });
            }
        });
        format!("http://{address}/")
    }

    fn run_of(
        list: impl IntoIterator<Item = Next>,
        stop: &Arc<AtomicBool>,
    ) -> (Vec<bool>, crate::job::RunReport) {
        let credentials = Credentials::new(None, NetrcFile::None, false);
        let who = Who { credentials, ..Who::default() };
        let http = Http::new(Trust::default(), Proxies::default(), Version::Auto, Vec::new(), who);
        let (mut source, kept) = (Listing(list.into_iter().collect(), Arc::clone(stop)), Kept::default());
        let task = Task { source: &mut source, results: &kept, reserved: Vec::new() };
        let report = run(task, &Options::default(), &http, stop, &mut ());
        let complete = |file: crate::job::FileReport| matches!(file.outcome, JobOutcome::Complete);
        (kept.into_reports().into_iter().map(complete).collect(), report)
    }

    fn job(url: &str) -> Job {
        let output = Output::Memory(10);
        Job {
            url: Url::parse(url).unwrap(),
            home: None,
            output,
            name: None,
            expectations: Vec::new(),
            pinned: None,
            piece: None,
        }
    }

    #[test]
    fn a_source_may_have_nothing_yet_and_may_break() {
        let url = server();
        let next = || Next::Job(Box::new(job(&url)));
        let ended = || Next::Ended(Box::new(job(&url)), Box::new(job(&url).blank_report()));
        let stop = Arc::new(AtomicBool::new(false));
        let (files, report) = run_of([Next::NotYet, next(), Next::NotYet, ended(), next(), Next::End], &stop);
        assert_eq!((files, report.given, report.not_given), (vec![true; 3], 3, Some(0)));
        assert!(report.broken.is_none() && report.received == 4);
        let broken = Next::Failed(GetError::Refused("the listing broke".to_owned()));
        let (files, report) = run_of([next(), broken], &stop);
        assert_eq!((files, report.not_given), (vec![true], None));
        assert_eq!(report.broken.unwrap().to_string(), "the listing broke");
    }

    /// The source waits for its network for ever, and hears that nobody wants more.
    #[test]
    fn a_source_that_waits_does_not_keep_a_run_from_ending() {
        let url = server();
        let stop = Arc::new(AtomicBool::new(false));
        let (_, report) = run_of([Next::Job(Box::new(job(&url)))], &stop);
        assert!(report.interrupted);
        assert_eq!((report.given, report.not_given), (1, None));
    }
}
