//! The report of ab 2.3 (httpd 2.4), line by line, its `-e` and `-g` files, and its arithmetic, oddities
//! included.

use std::io::{self, Write};
use std::time::Duration;

use weir_units::stats::deviation;

/// What the report is made of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AbReport {
    /// The field Server of the first answer; empty without one.
    pub software: String,
    /// The URL's host.
    pub host: String,
    /// The URL's port.
    pub port: u16,
    /// Path and query.
    pub path: String,
    /// Bytes of the first answer's body; `None` prints `Variable` (`-l`).
    pub length: Option<u64>,
    /// `-c`.
    pub concurrency: u32,
    /// Wall time.
    pub taken: Duration,
    /// Requests that ended, with whatever answer.
    pub done: u64,
    /// Failed ones.
    pub failed: Failed,
    /// Requests that could not be written.
    pub write_errors: u64,
    /// Answers with a status outside 200 to 299.
    pub not_2xx: u64,
    /// Answers that kept the connection open; `None` without `-k`.
    pub kept: Option<u64>,
    /// Bytes received.
    pub received: u64,
    /// Bytes of requests sent; `None` without a body.
    pub sent: Option<u64>,
    /// Bytes of all bodies.
    pub bodies: u64,
    /// Each request's times.
    pub rows: Vec<AbRow>,
    /// Requests that were timed; of fewer rows the report says which they are.
    pub timed: u64,
    /// `-S`: no medians, deviations and warnings.
    pub plain: bool,
    /// `-d`: no percentiles.
    pub no_percentiles: bool,
}

/// What `Failed requests` adds up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Failed {
    /// No connection.
    pub connect: u64,
    /// The answer broke off.
    pub receive: u64,
    /// The body had another length than the first one.
    pub length: u64,
    /// Anything else.
    pub exceptions: u64,
}

impl Failed {
    fn sum(&self) -> u64 {
        self.connect + self.receive + self.length + self.exceptions
    }
}

/// One request's times, microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AbRow {
    /// Since 1970.
    pub start: u64,
    /// Until the connection stood.
    pub connect: u64,
    /// In all.
    pub total: u64,
    /// From the request written to the first byte.
    pub wait: u64,
}

impl AbRow {
    fn processing(&self) -> u64 {
        self.total.saturating_sub(self.connect)
    }
}

/// Whole milliseconds, rounded.
fn millis(micros: u64) -> u64 {
    (micros + 500) / 1000
}

/// Writes the report.
pub fn render(report: &AbReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n\nServer Software:        {}", report.software)?;
    writeln!(out, "Server Hostname:        {}", report.host)?;
    writeln!(out, "Server Port:            {}\n", report.port)?;
    writeln!(out, "Document Path:          {}", report.path)?;
    match report.length {
        Some(length) => writeln!(out, "Document Length:        {length} bytes\n")?,
        None => writeln!(out, "Document Length:        Variable\n")?,
    }
    writeln!(out, "Concurrency Level:      {}", report.concurrency)?;
    let seconds = report.taken.as_secs_f64();
    writeln!(out, "Time taken for tests:   {seconds:.3} seconds")?;
    writeln!(out, "Complete requests:      {}", report.done)?;
    let failed = &report.failed;
    writeln!(out, "Failed requests:        {}", failed.sum())?;
    if failed.sum() > 0 {
        let Failed { connect, receive, length, exceptions } = failed;
        writeln!(
            out,
            "   (Connect: {connect}, Receive: {receive}, Length: {length}, Exceptions: {exceptions})"
        )?;
    }
    for (name, count) in
        [("Write errors:      ", report.write_errors), ("Non-2xx responses: ", report.not_2xx)]
    {
        if count > 0 {
            writeln!(out, "{name}     {count}")?;
        }
    }
    if let Some(kept) = report.kept {
        writeln!(out, "Keep-Alive requests:    {kept}")?;
    }
    writeln!(out, "Total transferred:      {} bytes", report.received)?;
    if let Some(sent) = report.sent {
        writeln!(out, "Total body sent:        {sent}")?;
    }
    writeln!(out, "HTML transferred:       {} bytes", report.bodies)?;
    if report.done > 0 {
        rates(report, seconds.max(1e-9), out)?;
        times(report, out)?;
        if !report.no_percentiles && report.done > 1 {
            percentiles(report, out)?;
        }
    }
    Ok(())
}

fn rates(report: &AbReport, seconds: f64, out: &mut dyn Write) -> io::Result<()> {
    let done = report.done as f64;
    let each = seconds * 1000.0 / done;
    writeln!(out, "Requests per second:    {:.2} [#/sec] (mean)", done / seconds)?;
    writeln!(out, "Time per request:       {:.3} [ms] (mean)", f64::from(report.concurrency) * each)?;
    writeln!(out, "Time per request:       {each:.3} [ms] (mean, across all concurrent requests)")?;
    let kib = |bytes: u64| bytes as f64 / 1024.0 / seconds;
    writeln!(out, "Transfer rate:          {:.2} [Kbytes/sec] received", kib(report.received))?;
    if let Some(sent) = report.sent {
        writeln!(out, "                        {:.2} kb/s sent", kib(sent))?;
        writeln!(out, "                        {:.2} kb/s total", kib(report.received + sent))?;
    }
    Ok(())
}

/// A line of the table of times, microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeLine {
    /// Smallest.
    pub min: u64,
    /// Mean, cut to whole microseconds.
    pub mean: u64,
    /// Standard deviation of a sample.
    pub sd: f64,
    /// As ab takes it, see [`median`].
    pub median: u64,
    /// Largest.
    pub max: u64,
}

impl TimeLine {
    /// Of these values; `None` of none.
    pub fn of(values: impl Iterator<Item = u64>) -> Option<TimeLine> {
        let mut sorted: Vec<u64> = values.collect();
        sorted.sort_unstable();
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let count = sorted.len() as u64;
        let mean = sorted.iter().sum::<u64>() / count;
        let sd = deviation(sorted.iter().map(|value| *value as f64), mean as f64, sorted.len() - 1);
        Some(TimeLine { min, mean, sd, median: median(&sorted), max })
    }

    fn line(&self, name: &str, plain: bool) -> String {
        let [min, mean, median, max] = [self.min, self.mean, self.median, self.max].map(millis);
        if plain {
            return format!("{name:<12}{min:>5} {mean:>5} {max:>4}");
        }
        format!("{name:<12}{min:>5} {mean:>4} {:>5.1} {median:>6} {max:>7}", self.sd / 1000.0)
    }

    /// How far mean and median lie apart, in whole milliseconds against the deviation.
    fn doubt(&self, what: &str) -> Option<String> {
        let apart = millis(self.mean).abs_diff(millis(self.median)) as f64;
        let sd = self.sd / 1000.0;
        if apart > 2.0 * sd {
            Some(format!("ERROR: mean and median of the {what} lie more than two standard deviations apart"))
        } else if apart > sd {
            Some(format!("WARNING: mean and median of the {what} lie more than a standard deviation apart"))
        } else {
            None
        }
    }
}

/// ab's median: of an odd number above one the mean of the middle value and the next, of an even number the
/// upper of the two in the middle. The textbook has it the other way round.
pub fn median(sorted: &[u64]) -> u64 {
    let middle = sorted.len() / 2;
    match sorted {
        [] => 0,
        _ if sorted.len() > 1 && !sorted.len().is_multiple_of(2) => (sorted[middle] + sorted[middle + 1]) / 2,
        _ => sorted[middle],
    }
}

/// The four lines of the table: connect, processing, waiting, total.
pub(crate) fn time_lines(rows: &[AbRow]) -> Option<[TimeLine; 4]> {
    Some([
        TimeLine::of(rows.iter().map(|row| row.connect))?,
        TimeLine::of(rows.iter().map(AbRow::processing))?,
        TimeLine::of(rows.iter().map(|row| row.wait))?,
        TimeLine::of(rows.iter().map(|row| row.total))?,
    ])
}

fn times(report: &AbReport, out: &mut dyn Write) -> io::Result<()> {
    let Some(lines) = time_lines(&report.rows) else { return Ok(()) };
    if (report.rows.len() as u64) < report.timed {
        let (rows, timed) = (report.rows.len(), report.timed);
        writeln!(out, "\nNOTE: the times below are of the first {rows} of {timed} requests; -n keeps all")?;
    }
    writeln!(out, "\nConnection Times (ms)")?;
    match report.plain {
        true => writeln!(out, "              min   avg   max")?,
        false => writeln!(out, "              min  mean[+/-sd] median   max")?,
    }
    for (line, name) in lines.iter().zip(["Connect:", "Processing:", "Waiting:", "Total:"]) {
        writeln!(out, "{}", line.line(name, report.plain))?;
    }
    if !report.plain {
        let named = ["connection time", "processing time", "waiting time", "total time"];
        for doubt in lines.iter().zip(named).filter_map(|(line, what)| line.doubt(what)) {
            writeln!(out, "{doubt}")?;
        }
    }
    Ok(())
}

/// The shares that the report lists, percent.
const SHARES: [usize; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

fn percentiles(report: &AbReport, out: &mut dyn Write) -> io::Result<()> {
    let totals = totals(&report.rows);
    let Some(longest) = totals.last() else { return Ok(()) };
    writeln!(out, "\nPercentage of the requests served within a certain time (ms)")?;
    for share in SHARES {
        match totals.get(totals.len() * share / 100) {
            Some(total) if share < 100 => writeln!(out, " {share:>3}%  {:>5}", millis(*total))?,
            _ => writeln!(out, " {share:>3}%  {:>5} (longest request)", millis(*longest))?,
        }
    }
    Ok(())
}

fn totals(rows: &[AbRow]) -> Vec<u64> {
    let mut totals: Vec<u64> = rows.iter().map(|row| row.total).collect();
    totals.sort_unstable();
    totals
}

/// `-e`: for each percent from 0 to 100 the time within which that share was served, in milliseconds.
pub fn render_percentiles(rows: &[AbRow], out: &mut dyn Write) -> io::Result<()> {
    let totals = totals(rows);
    writeln!(out, "Percentage served,Time in ms")?;
    let Some(last) = totals.len().checked_sub(1) else { return Ok(()) };
    for percent in 0..=100 {
        // Of few requests ab reads behind its last one here; the last one is what it meant.
        let index = (0.5 + (totals.len() * percent) as f64 / 100.0) as usize;
        let index = if percent == 0 { 0 } else { index.min(last) };
        let total = if percent == 100 { totals[last] } else { totals[index] };
        writeln!(out, "{percent},{:.3}", total as f64 / 1000.0)?;
    }
    Ok(())
}

/// `-g`: each request, sorted by its total time.
pub fn render_rows(rows: &[AbRow], out: &mut dyn Write) -> io::Result<()> {
    let mut sorted: Vec<&AbRow> = rows.iter().collect();
    sorted.sort_by_key(|row| row.total);
    writeln!(out, "starttime\tseconds\tctime\tdtime\tttime\twait")?;
    for row in sorted {
        let seconds = row.start / 1_000_000;
        let [connect, processing, total, wait] =
            [row.connect, row.processing(), row.total, row.wait].map(millis);
        writeln!(out, "{}\t{seconds}\t{connect}\t{processing}\t{total}\t{wait}", date(seconds))?;
    }
    Ok(())
}

/// `Sun Nov 22 02:59:07 2026`, as C's ctime writes it, in UTC.
fn date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = seconds / 86_400;
    let (mut year, mut left) = (1970, days);
    let leap = |year: u64| (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while month < 11 && left >= lengths[month] {
        left -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let day = DAYS[(days % 7) as usize];
    format!("{day} {} {:>2} {hour:02}:{minute:02}:{second:02} {year}", MONTHS[month], left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_abs_own() {
        assert_eq!(median(&[1]), 1);
        assert_eq!(median(&[1, 5]), 5);
        assert_eq!(median(&[1, 2, 9]), 5);
        assert_eq!(median(&[1, 2, 3, 4]), 3);
        assert_eq!(median(&[]), 0);
    }

    #[test]
    fn dates_are_those_of_ctime() {
        assert_eq!(date(1_795_316_347), "Sun Nov 22 02:59:07 2026");
        assert_eq!(date(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(date(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(date(1_735_689_599), "Tue Dec 31 23:59:59 2024");
    }

    fn report() -> AbReport {
        let row = |start, connect, total, wait| AbRow { start, connect, total, wait };
        AbReport {
            software: "nginx/1.22.1".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: 8377,
            path: "/nope".to_owned(),
            length: Some(153),
            concurrency: 2,
            taken: Duration::from_millis(8),
            done: 4,
            not_2xx: 4,
            received: 1212,
            sent: Some(2380),
            bodies: 612,
            rows: vec![
                row(1_000_000, 100, 1400, 900),
                row(2_000_000, 200, 2600, 1600),
                row(2_500_000, 0, 9000, 8600),
                row(2_600_000, 0, 1500, 1000),
            ],
            ..AbReport::default()
        }
    }

    #[test]
    fn the_report_is_that_of_ab() {
        let mut text = Vec::new();
        render(&report(), &mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "\n\nServer Software:        nginx/1.22.1\nServer Hostname:        127.0.0.1\n\
             Server Port:            8377\n\nDocument Path:          /nope\nDocument Length:        153 bytes\n\n\
             Concurrency Level:      2\nTime taken for tests:   0.008 seconds\nComplete requests:      4\n\
             Failed requests:        0\nNon-2xx responses:      4\nTotal transferred:      1212 bytes\n\
             Total body sent:        2380\nHTML transferred:       612 bytes\n\
             Requests per second:    500.00 [#/sec] (mean)\nTime per request:       4.000 [ms] (mean)\n\
             Time per request:       2.000 [ms] (mean, across all concurrent requests)\n\
             Transfer rate:          147.95 [Kbytes/sec] received\n\
             \x20                       290.53 kb/s sent\n                        438.48 kb/s total\n\n\
             Connection Times (ms)\n              min  mean[+/-sd] median   max\n\
             Connect:        0    0   0.1      0       0\nProcessing:     1    4   3.7      2       9\n\
             Waiting:        1    3   3.7      2       9\nTotal:          1    4   3.6      3       9\n\n\
             Percentage of the requests served within a certain time (ms)\n\
             \x20 50%      3\n  66%      3\n  75%      9\n  80%      9\n  90%      9\n  95%      9\n  98%      9\n\
             \x20 99%      9\n 100%      9 (longest request)\n"
        );
    }

    #[test]
    fn failures_are_listed_and_plain_is_plain() {
        let mut report = report();
        report.failed = Failed { length: 3, ..Failed::default() };
        (report.plain, report.no_percentiles, report.length) = (true, true, None);
        let mut text = Vec::new();
        render(&report, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for part in [
            "Failed requests:        3\n   (Connect: 0, Receive: 0, Length: 3, Exceptions: 0)\n",
            "Document Length:        Variable\n",
            "              min   avg   max\nConnect:        0     0    0\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("Percentage"));
    }

    #[test]
    fn files_have_their_rows() {
        let mut text = Vec::new();
        render_rows(&report().rows, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "starttime\tseconds\tctime\tdtime\tttime\twait");
        assert_eq!(lines[1], "Thu Jan  1 00:00:01 1970\t1\t0\t1\t1\t1");
        assert_eq!(lines[4], "Thu Jan  1 00:00:02 1970\t2\t0\t9\t9\t9");
        let mut shares = Vec::new();
        render_percentiles(&report().rows, &mut shares).unwrap();
        let shares = String::from_utf8(shares).unwrap();
        let lines: Vec<&str> = shares.lines().collect();
        assert_eq!((lines.len(), lines[1], lines[51], lines[101]), (102, "0,1.400", "50,2.600", "100,9.000"));
        assert_eq!(lines[100], "99,9.000");
    }

    #[test]
    fn rows_that_are_not_all_say_so() {
        let of = |timed| {
            let mut text = Vec::new();
            render(&AbReport { timed, done: timed, ..report() }, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        let note = "\nNOTE: the times below are of the first 4 of 5000000 requests; -n keeps all\n\n";
        assert!(of(5_000_000).contains(note), "{}", of(5_000_000));
        assert!(!of(4).contains("NOTE"));
    }

    #[test]
    fn doubts_are_told() {
        let line = TimeLine { min: 0, mean: 9000, sd: 1000.0, median: 1000, max: 20_000 };
        assert!(line.doubt("total time").unwrap().starts_with("ERROR"));
        assert!(TimeLine { sd: 5000.0, ..line }.doubt("x").unwrap().starts_with("WARNING"));
        assert_eq!(TimeLine { sd: 9000.0, ..line }.doubt("x"), None);
    }
}
