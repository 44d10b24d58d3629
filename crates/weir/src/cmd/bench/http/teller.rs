//! What is seen of a run while it lasts: the lines that wrk and ab print first, a line of progress on a
//! terminal, ab's log of answers.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_bench_http::answer::Kept;
use weir_bench_http::observer::{Observer, RunProgress};
use weir_units::human_duration;

use super::plan::Plan;
use crate::live::Live;

/// Eyes do not follow faster.
const BETWEEN: Duration = Duration::from_millis(100);

/// Bytes of an answer that ab prints at most: its buffer for a head.
const CBUFFSIZE: usize = 8192;

/// Tells of a run.
pub struct Teller {
    head: Vec<u8>,
    /// ab's `-v`.
    verbosity: u8,
    span: Option<Duration>,
    requests: Option<u64>,
    line: Mutex<Line>,
}

struct Line {
    live: Live,
    last: Option<Instant>,
    is_over: bool,
}

impl Teller {
    pub fn new(plan: &Plan, head: Vec<u8>) -> Teller {
        // A report in pieces would be broken by a line.
        let shown = !plan.quiet && io::stderr().is_terminal();
        Teller {
            head,
            verbosity: plan.ab.as_ref().map_or(0, |flags| flags.verbosity),
            span: plan.settings.span,
            requests: plan.settings.requests,
            line: Mutex::new(Line { live: Live::new(shown, 1), last: None, is_over: false }),
        }
    }

    /// Takes the line away, for good.
    pub fn end(&self) {
        let mut line = self.line.lock();
        line.is_over = true;
        line.live.clear();
    }

    /// `12 s of 30 s: 45120 requests, 3760/s, 3 errors`.
    fn words(&self, seen: &RunProgress) -> String {
        let errors = match seen.errors {
            0 => String::new(),
            1 => ", 1 error".to_owned(),
            many => format!(", {many} errors"),
        };
        if let Some(left) = seen.warm_up.checked_sub(seen.elapsed).filter(|left| !left.is_zero()) {
            return format!("warming up, {} more: {} requests{errors}", human_duration(left), seen.requests);
        }
        let measured = seen.elapsed.saturating_sub(seen.warm_up);
        let rate = seen.requests as f64 / measured.as_secs_f64().max(1e-3);
        let of =
            |span: Duration| format!("{} of {}", human_duration(measured.min(span)), human_duration(span));
        let place = self.span.map_or_else(|| human_duration(measured), of);
        let most = self.requests.map_or_else(String::new, |most| format!(" of {most}"));
        format!("{place}: {}{most} requests, {rate:.0}/s{errors}", seen.requests)
    }
}

impl Observer for Teller {
    fn begun(&self) {
        print(&self.head);
    }

    fn seen(&self, seen: &RunProgress) {
        let mut line = self.line.lock();
        if !line.is_over && line.last.is_none_or(|last| last.elapsed() >= BETWEEN) {
            line.last = Some(Instant::now());
            let words = self.words(seen);
            line.live.say(&words);
        }
    }

    fn answered(&self, status: u16, answer: &Kept) {
        let mut text = b"LOG: header received:\n".to_vec();
        let bytes = answer.head.iter().chain(&answer.body).copied();
        text.extend(bytes.take(CBUFFSIZE - 1));
        text.push(b'\n');
        match status {
            200..=299 if self.verbosity < 3 => {}
            200..=299 => text.extend(format!("LOG: Response code = {status}\n").into_bytes()),
            _ => text.extend(format!("WARNING: Response code not 2xx ({status})\n").into_bytes()),
        }
        print(&text);
    }
}

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Teller").finish_non_exhaustive()
    }
}

fn print(text: &[u8]) {
    let mut out = io::stdout().lock();
    // A stdout that is closed is the report's matter.
    let _ = out.write_all(text).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_it_is() {
        let teller = |span, requests| Teller {
            head: Vec::new(),
            verbosity: 0,
            span,
            requests,
            line: Mutex::new(Line { live: Live::new(false, 1), last: None, is_over: false }),
        };
        let seen = RunProgress {
            elapsed: Duration::from_secs(12),
            warm_up: Duration::from_secs(2),
            requests: 45_120,
            errors: 3,
        };
        let timed = teller(Some(Duration::from_secs(30)), None).words(&seen);
        assert!(timed.contains(" of 30.0 s: 45120 requests, 4512/s, 3 errors"), "{timed}");
        let counted = teller(None, Some(50_000)).words(&RunProgress { errors: 0, ..seen });
        assert!(counted.ends_with(": 45120 of 50000 requests, 4512/s"), "{counted}");
        let warming =
            teller(None, None).words(&RunProgress { elapsed: Duration::from_secs(1), errors: 1, ..seen });
        assert!(warming.starts_with("warming up, ") && warming.ends_with("1 error"), "{warming}");
    }
}
