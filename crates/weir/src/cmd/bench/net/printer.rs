//! Where lines go: to stdout, each with the time and the title before it that were asked for.

use std::ffi::CString;
use std::io::{self, Write};
use std::time::SystemTime;

use weir_bench_net::ordered::Json;
use weir_observe::clock;

use crate::args::BenchNet;

/// What stands before each of iperf3's lines.
#[derive(Debug, Clone, Default)]
pub(super) struct Printer {
    /// strftime's format.
    stamp: Option<CString>,
    title: Option<String>,
}

impl Printer {
    pub(super) fn new(bench: &BenchNet) -> Printer {
        Printer { stamp: bench.timestamps.clone(), title: bench.test.title.clone() }
    }

    /// The lines as they are printed now.
    pub(super) fn stamped(&self, text: &str) -> String {
        let stamp = self.stamp.as_ref().map(|format| clock::formatted(SystemTime::now(), format));
        let title = self.title.as_ref().map(|title| format!("{title}:  "));
        let before = format!("{}{}", stamp.unwrap_or_default(), title.unwrap_or_default());
        text.lines().map(|line| format!("{before}{line}\n")).collect()
    }

    pub(super) fn print(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(self.stamped(text).as_bytes())?;
        out.flush()
    }
}

/// JSON as iperf3 prints it: in lines, with tabs.
pub(super) fn print_json(json: &Json) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", json.lines())?;
    out.flush()
}

/// Each on a line.
pub(super) fn print_events(events: &[Json]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    events.iter().try_for_each(|event| writeln!(out, "{}", event.line()))?;
    out.flush()
}
