//! Records from foreign bytes: files that hold a line for each, or have them laid out over lines, of any
//! length, broken off anywhere.
//!
//! Several lines may tell of one transfer that was continued: the last whole one counts. Lines that cannot be
//! read are told by their number; only where none can is that an error.

use std::io::{self, BufRead, Read};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::escape::escape;
use crate::json::ParseError;
use crate::schema::{Record, RunOutcome, SCHEMA};

/// The longest record that is read: a thousand samples are 100 KB, and a hundred thousand files 20 MB. As
/// values in memory a text takes several times its length: see [`weight`].
pub const LONGEST: u64 = 32 << 20;

/// What the values of one record may take in memory, bytes, by the estimate of [`weight`]: three times the
/// largest of weir's own, a hundred thousand files.
const HEAVIEST: u64 = 512 << 20;

/// Bytes of one file that are read, at most: of more lines than that nobody wants the last one to be searched
/// for.
pub const LARGEST: u64 = 1 << 30;

/// Runs of one file that are kept, at most: a page shows no more.
pub const RUNS: usize = 16;

/// What is wrong with a file of records.
#[derive(Debug)]
pub enum RecordsError {
    /// It cannot be read.
    Io(io::Error),
    /// Nothing is in it.
    Empty,
    /// No line is a record; of the first that is not.
    Line {
        /// From 1.
        number: u64,
        /// What is wrong with it.
        why: String,
    },
    /// More bytes than [`LARGEST`].
    TooLarge,
    /// More runs than [`RUNS`].
    TooMany,
}

/// The records of a file, and what is worth knowing about how they were read.
#[derive(Debug, Default)]
pub struct Runs {
    /// The records in the order in which their runs appear; of a transfer that was continued the last whole
    /// one.
    pub records: Vec<Record>,
    /// In words: lines that were left out.
    pub notes: Vec<String>,
}

/// Reads a file's records.
pub fn read(mut from: impl BufRead) -> Result<Runs, RecordsError> {
    let mut found = FoundRecords::default();
    found.lines(&mut from, 1, true)?;
    found.finish()
}

/// What was read so far.
#[derive(Default)]
struct FoundRecords {
    records: Vec<Record>,
    /// Of what was left out the first: its line, and what is wrong with it.
    first_bad: Option<(u64, String)>,
    /// All that was left out.
    bad: u64,
    /// Records in whose place a later one of the same transfer is.
    replaced: u64,
}

impl FoundRecords {
    /// Takes in what has a record a line, from the line with this number on. The `is_first` one that is not
    /// blank may be the beginning of what is laid out over lines.
    fn lines(&mut self, from: &mut dyn BufRead, first: u64, mut is_first: bool) -> Result<(), RecordsError> {
        let (mut line, mut total) = (Vec::new(), 0_u64);
        for number in first.. {
            match next_line(from, &mut line).map_err(RecordsError::Io)? {
                Line::End => break,
                // What begins like that is no file of records.
                Line::TooLong if number == 1 => return Err(too_long(number)),
                Line::TooLong => {
                    let room = LARGEST.saturating_sub(total);
                    total += LONGEST + pass_over(from, room).map_err(RecordsError::Io)?;
                    self.leave_out(number, too_long_words());
                }
                Line::Whole => {}
            }
            total += line.len() as u64 + 1;
            if total > LARGEST {
                return Err(RecordsError::TooLarge);
            }
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let is_list = line.trim_ascii().starts_with(b"[");
            match is_list {
                true if is_first => return self.laid_out(line, from, number),
                true => {
                    Values::of(&line).try_for_each(|(_, value)| self.take(number, value.and_then(parse)))?;
                }
                false => match parse(&line) {
                    Err(_) if is_first && is_opening(&line) => return self.laid_out(line, from, number),
                    read => self.take(number, read)?,
                },
            }
            is_first = false;
        }
        Ok(())
    }

    /// Takes in what is laid out over lines: one record behind the other (`jq .`), or a list (`jq -s`).
    /// `text` is its first line, which has this number.
    fn laid_out(
        &mut self,
        mut text: Vec<u8>,
        from: &mut dyn BufRead,
        mut number: u64,
    ) -> Result<(), RecordsError> {
        text.push(b'\n');
        Read::take(&mut *from, LONGEST).read_to_end(&mut text).map_err(RecordsError::Io)?;
        let is_all = text.len() as u64 <= LONGEST;
        let mut values = Values::of(&text).peekable();
        if let Some((_, Err(why))) = values.peek() {
            // Of records a line the first is cut off, and those behind it stand for themselves.
            let why = if is_all { why.clone() } else { too_long_words() };
            self.lines(&mut text.as_slice().chain(from), number, false)?;
            if self.records.is_empty() {
                self.first_bad = Some((number, why));
            }
            return Ok(());
        }
        if !is_all {
            let most = LONGEST >> 20;
            let way = "give a record a line (jq -c . FILE; of a list jq -c '.[]' FILE)";
            let why = format!("laid out over lines, and longer than {most} MiB; {way}");
            return Err(RecordsError::Line { number, why });
        }
        let mut before = 0;
        for (at, value) in values {
            number += text[before..at].iter().filter(|byte| **byte == b'\n').count() as u64;
            before = at;
            self.take(number, value.and_then(parse))?;
        }
        Ok(())
    }

    /// Takes in a record, or what is wrong with what should be one.
    fn take(&mut self, number: u64, read: Result<Record, String>) -> Result<(), RecordsError> {
        let record = match read {
            Ok(record) => record,
            Err(why) => {
                self.leave_out(number, why);
                return Ok(());
            }
        };
        match self.records.iter().position(|earlier| continues(&record, earlier)) {
            Some(earlier) => {
                self.records[earlier] = record;
                self.replaced += 1;
            }
            None if self.records.len() >= RUNS => return Err(RecordsError::TooMany),
            None => self.records.push(record),
        }
        Ok(())
    }

    fn leave_out(&mut self, number: u64, why: String) {
        self.bad += 1;
        self.first_bad.get_or_insert((number, why));
    }

    fn finish(self) -> Result<Runs, RecordsError> {
        let FoundRecords { records, first_bad, bad, replaced } = self;
        let mut notes = Vec::new();
        match (records.is_empty(), first_bad) {
            (true, None) => return Err(RecordsError::Empty),
            (true, Some((number, why))) => return Err(RecordsError::Line { number, why }),
            (false, None) => {}
            (false, Some((number, why))) => {
                let others = if bad > 1 { format!(", and {} more", bad - 1) } else { String::new() };
                notes.push(format!("line {number} was left out{others}: {why}"));
            }
        }
        if replaced > 0 {
            let lines = match replaced {
                1 => "an earlier line of the same transfer is".to_owned(),
                count => format!("{count} earlier lines of the same transfers are"),
            };
            notes.push(format!("if a transfer was continued, the last whole line counts; {lines} not shown"));
        }
        Ok(Runs { records, notes })
    }
}

/// Whether a record tells of the transfer that an earlier one left incomplete: the same command on the same
/// things. A title would not do, for different runs have the same (`port 443`, `100 files`); and what is
/// complete, or measures, is done anew each time.
fn continues(record: &Record, earlier: &Record) -> bool {
    let ends = match (record.extra.get("cp"), earlier.extra.get("cp")) {
        (Some(ends), Some(before)) => are_same_ends(ends, before),
        (None, None) => are_same_files(record, earlier),
        _ => false,
    };
    ends && earlier.outcome != RunOutcome::Complete
        && matches!(record.command.as_str(), "get" | "put" | "cp")
        && record.command == earlier.command
        && !record.is_dry_run()
        && !earlier.is_dry_run()
}

/// Of two copies: the same sources, target and hosts.
fn are_same_ends(ends: &Value, before: &Value) -> bool {
    let hosts = |cp: &Value| -> Vec<Value> {
        let rows = cp.get("hosts").and_then(Value::as_array).into_iter().flatten();
        rows.map(|row| row.get("host").cloned().unwrap_or_default()).collect()
    };
    let has_sources = ends.get("sources").and_then(Value::as_array).is_some_and(|names| !names.is_empty());
    has_sources
        && ["from", "host", "sources", "target"].iter().all(|name| ends.get(name) == before.get(name))
        && hosts(ends) == hosts(before)
}

/// Of two downloads or uploads: the same files from and to the same places. What failed early has no path.
fn are_same_files(record: &Record, earlier: &Record) -> bool {
    let agree = |path: &str, before: &str| path == before || path.is_empty() || before.is_empty();
    !record.files.is_empty()
        && record.files.len() == earlier.files.len()
        && record.lists_all()
        && earlier.lists_all()
        && record.files.iter().zip(&earlier.files).all(|(file, before)| {
            !file.url.is_empty() && file.url == before.url && agree(&file.path, &before.path)
        })
}

/// The values of a text one behind the other, those of a list for themselves, each with the place where it
/// begins. Behind one that cannot be read nothing else is found.
struct Values<'a> {
    text: &'a [u8],
    at: usize,
    in_list: bool,
}

impl<'a> Values<'a> {
    fn of(text: &'a [u8]) -> Values<'a> {
        Values { text, at: 0, in_list: false }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = (usize, Result<&'a [u8], String>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\t' | b'\r' | b'\n') => {}
                Some(b',') if self.in_list => {}
                Some(b'[') if !self.in_list => self.in_list = true,
                Some(b']') if self.in_list => self.in_list = false,
                Some(_) => break,
                None if std::mem::take(&mut self.in_list) => {
                    return Some((self.at, Err("the list is cut off".to_owned())));
                }
                None => return None,
            }
            self.at += 1;
        }
        let (begin, rest) = (self.at, &self.text[self.at..]);
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
        if values.next().is_some_and(|value| value.is_ok()) {
            let value = &rest[..values.byte_offset()];
            self.at += value.len();
            return Some((begin, Ok(value)));
        }
        (self.at, self.in_list) = (self.text.len(), false);
        Some((begin, Err(parse(rest).err().unwrap_or_default())))
    }
}

enum Line {
    End,
    Whole,
    /// Its rest is still to be read.
    TooLong,
}

/// The next line without its end.
fn next_line(from: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<Line> {
    line.clear();
    let read = Read::take(&mut *from, LONGEST + 1).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Line::Whole);
    }
    if read as u64 <= LONGEST {
        return Ok(if read == 0 { Line::End } else { Line::Whole });
    }
    line.clear();
    Ok(Line::TooLong)
}

/// Reads on to the line's end, piece by piece, no further than `most`. Returns the bytes that were passed
/// over.
fn pass_over(from: &mut dyn BufRead, most: u64) -> io::Result<u64> {
    let mut passed = 0_u64;
    while passed <= most {
        let buffer = from.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |at| at + 1);
        from.consume(used);
        passed += used as u64;
        if end.is_some() || used == 0 {
            break;
        }
    }
    Ok(passed)
}

/// A brace or so: what a record begins with that goes on in the next line.
fn is_opening(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.first() == Some(&b'{')
        && weight(line) <= HEAVIEST
        && serde_json::from_slice::<serde_json::Value>(line).is_err_and(|error| error.is_eof())
}

/// What a text's values take in memory at most, bytes: an object of one member is a node of a tree with room
/// for eleven names and values, 665 bytes measured; any other value is 32. Each is there twice while it is
/// read (serde's flatten).
fn weight(text: &[u8]) -> u64 {
    let marks = |marks: &[u8]| text.iter().filter(|byte| marks.contains(byte)).count() as u64;
    2 * (665 * marks(b"{") + 32 * marks(b",["))
}

fn parse(line: &[u8]) -> Result<Record, String> {
    /// What a record says it is comes first: one of a later version may not fit otherwise.
    #[derive(Deserialize)]
    struct Envelope {
        schema: String,
    }
    if weight(line) > HEAVIEST {
        return Err("it has more values than any record of weir's".to_owned());
    }
    let said = |error: &serde_json::Error| escape(&error.to_string()).into_owned();
    let envelope: Envelope = match serde_json::from_slice(line) {
        Ok(envelope) => envelope,
        // Cut within a number it is a wrong number to who skips it, and no end.
        Err(error) if error.is_eof() || is_opening(line) => return Err("the record is cut off".to_owned()),
        Err(error) if error.is_data() => {
            return Err("JSON, but no record of weir's: it has no schema".to_owned());
        }
        Err(error) => return Err(format!("no record of weir's: {}", said(&error))),
    };
    if envelope.schema != SCHEMA {
        let schema = super::html::words::short(&envelope.schema, 40);
        return Err(format!(
            "{}; use the weir that wrote it, or a later one",
            ParseError::Unknown { schema }
        ));
    }
    let record: Record =
        serde_json::from_slice(line).map_err(|error| format!("a broken record: {}", said(&error)))?;
    Ok(record)
}

fn too_long_words() -> String {
    format!("longer than {} MiB, which no record is", LONGEST >> 20)
}

fn too_long(number: u64) -> RecordsError {
    RecordsError::Line { number, why: too_long_words() }
}

impl std::fmt::Display for RecordsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecordsError::Io(error) => write!(f, "{error}"),
            RecordsError::Empty => f.write_str("nothing is in it; a record is what --json prints"),
            RecordsError::Line { number, why } => write!(f, "line {number}: {why}"),
            RecordsError::TooLarge => {
                write!(f, "more than {} GiB; give the lines that matter (tail -n 1 FILE)", LARGEST >> 30)
            }
            RecordsError::TooMany => {
                let way = "give the lines that matter";
                write!(f, "more than {RUNS} runs, which no page shows; {way} (tail -n {RUNS} FILE)")
            }
        }
    }
}

impl std::error::Error for RecordsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RecordsError::Io(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{FileRecord, RunOutcome};

    fn record(name: &str, bytes: u64, outcome: RunOutcome) -> Record {
        let mut record = Record::new("get", outcome, bytes, 1.0);
        let url = format!("http://far/{name}");
        record.files = vec![FileRecord { url, path: name.to_owned(), ..FileRecord::default() }];
        record
    }

    fn line(name: &str, bytes: u64) -> String {
        serde_json::to_string(&record(name, bytes, RunOutcome::Complete)).unwrap()
    }

    fn unfinished(name: &str, bytes: u64) -> String {
        serde_json::to_string(&record(name, bytes, RunOutcome::Partial)).unwrap()
    }

    /// With a member of its command's own.
    fn with(command: &str, outcome: RunOutcome, member: &str, value: Value) -> Record {
        let mut record = Record::new(command, outcome, 1, 1.0);
        record.extra.insert(member.to_owned(), value);
        record
    }

    /// How many runs are seen where both records are in a file.
    fn runs(first: &Record, second: &Record) -> usize {
        let lines = [first, second].map(|record| serde_json::to_string(record).unwrap());
        read(lines.join("\n").as_bytes()).unwrap().records.len()
    }

    fn told(text: &str) -> String {
        read(text.as_bytes()).map(|_| ()).unwrap_err().to_string()
    }

    fn bytes(runs: &Runs) -> Vec<u64> {
        runs.records.iter().map(|record| record.bytes).collect()
    }

    #[test]
    fn the_last_whole_line_of_each_transfer_counts() {
        let whole = line("a", 3);
        let text =
            format!("{}\n{}\n\n{whole}\n{}", unfinished("a", 1), line("b", 2), &whole[..whole.len() - 9]);
        let runs = read(text.as_bytes()).unwrap();
        assert_eq!(bytes(&runs), [3, 2]);
        assert_eq!(
            runs.notes,
            [
                "line 5 was left out: the record is cut off",
                "if a transfer was continued, the last whole line counts; an earlier line of the same transfer is not shown"
            ]
        );
    }

    #[test]
    fn different_runs_of_one_title_stay() {
        use RunOutcome::{Complete, Failed, Partial};
        assert_eq!(
            runs(&record("a", 1, Complete), &record("a", 1, Complete)),
            2,
            "what is done is done anew"
        );
        let (begun, mut done) = (record("a", 1, Partial), record("a", 1, Complete));
        assert_eq!(runs(&begun, &done), 1);
        done.files[0].url = "http://other/a".to_owned();
        assert_eq!(runs(&begun, &done), 2, "another server's");
        done.files[0] = FileRecord { path: "b/a".to_owned(), ..begun.files[0].clone() };
        assert_eq!(runs(&begun, &done), 2, "to another place");

        let list = |name: &str, outcome| {
            let mut list = record("a", 1, outcome);
            list.files.extend(record(name, 1, outcome).files);
            list
        };
        assert_eq!(runs(&list("b", Partial), &list("b", Complete)), 1);
        assert_eq!(runs(&list("b", Partial), &list("c", Complete)), 2, "two files each");
        let mut long = list("b", Partial);
        long.counts = Some(crate::schema::CountsRecord { files: 20_000, ..Default::default() });
        assert_eq!(runs(&long, &list("b", Complete)), 2, "not all of its files are known");

        let watch = |local: &str| {
            let flows = serde_json::json!([{ "local": local, "peer": "10.0.0.9:9" }]);
            with("why", Partial, "why", serde_json::json!({ "subject": "port 443", "flows": flows }))
        };
        assert_eq!(runs(&watch("10.0.0.1:443"), &watch("10.0.0.2:443")), 2, "two ends");
        for (command, member) in [("plan", "plan"), ("lab", "lab"), ("bench", "ciphers"), ("bench", "mem")] {
            let run = with(command, Failed, member, serde_json::json!({}));
            assert_eq!(runs(&run, &run), 2, "{command} {member}");
        }

        let copy = |target: &str, dry_run: bool, outcome| {
            let cp = serde_json::json!({ "host": "far", "sources": ["data"], "target": target, "dry_run": dry_run });
            with("cp", outcome, "cp", cp)
        };
        assert_eq!(runs(&copy("x", false, Partial), &copy("x", false, Complete)), 1);
        assert_eq!(runs(&copy("x", false, Partial), &copy("y", false, Complete)), 2, "to another place");
        assert_eq!(
            runs(&copy("x", true, Failed), &copy("x", false, Complete)),
            2,
            "only asked what would be"
        );
    }

    #[test]
    fn one_over_many_lines_is_a_record_too() {
        let record: Value = serde_json::from_str(&line("a", 7)).unwrap();
        let text = serde_json::to_string_pretty(&record).unwrap();
        assert_eq!(read(text.as_bytes()).unwrap().records[0].bytes, 7);
        assert_eq!(told(&text[..text.len() / 2]), "line 1: the record is cut off");
    }

    #[test]
    fn several_are_read_however_they_are_laid_out() {
        let all: Vec<Value> =
            (1..4).map(|index| serde_json::from_str(&line(&index.to_string(), index)).unwrap()).collect();
        let pretty: Vec<String> = all.iter().map(|one| serde_json::to_string_pretty(one).unwrap()).collect();
        let behind = pretty.join("\n");
        let list = serde_json::to_string_pretty(&all).unwrap();
        let short = serde_json::to_string(&all).unwrap();
        for text in [behind.clone(), list.clone(), short.clone(), format!("\n{short}\n{}", line("4", 4))] {
            let runs = read(text.as_bytes()).unwrap();
            assert_eq!(bytes(&runs)[..3], [1, 2, 3], "{text}");
            assert_eq!(runs.notes, [""; 0], "{text}");
        }
        let (cut, lines) = (&behind[..behind.len() - 9], pretty[0].lines().count());
        let runs = read(cut.as_bytes()).unwrap();
        assert_eq!(bytes(&runs), [1, 2]);
        assert_eq!(runs.notes, [format!("line {} was left out: the record is cut off", 2 * lines + 1)]);
        assert_eq!(bytes(&read(&list.as_bytes()[..list.len() - 2]).unwrap()), [1, 2, 3]);
        assert_eq!(told("[]"), "nothing is in it; a record is what --json prints");
    }

    #[test]
    fn a_first_line_that_is_cut_off_takes_no_other_with_it() {
        let whole = line("a", 1);
        for cut in [&whole[..whole.len() - 9], "{\"schema\":\"weir.run/1\",", "["] {
            let text = format!("{cut}\n{}\n{}", line("b", 2), line("c", 3));
            let runs = read(text.as_bytes()).unwrap();
            assert_eq!(bytes(&runs), [2, 3], "{cut}");
            assert_eq!(runs.notes.len(), 1, "{cut}: {:?}", runs.notes);
        }
    }

    #[test]
    fn what_is_no_record_is_told_by_its_line() {
        assert_eq!(told(""), "nothing is in it; a record is what --json prints");
        assert_eq!(told("\n<html>"), "line 2: no record of weir's: expected value at line 1 column 1");
        assert_eq!(told("{}"), "line 1: JSON, but no record of weir's: it has no schema");
        assert_eq!(
            told(r#"{"schema":"weir.run/9"}"#),
            "line 1: record is 'weir.run/9', this weir reads weir.run/1; use the weir that wrote it, or a later one"
        );
        assert!(
            told(r#"{"schema":"weir.run/1","command":"get"}"#)
                .starts_with("line 1: a broken record: missing field")
        );
        for many in ["{\"\":0},".repeat(500_000), "[],".repeat(5_000_000)] {
            let text = line("a", 1).replacen('{', &format!("{{\"x\":[{many}0],"), 1);
            assert_eq!(told(&text), "line 1: it has more values than any record of weir's");
        }
        let deep = "[".repeat(100_000);
        assert!(told(&format!("{{\"schema\":{deep}")).starts_with("line 1: "), "no deep recursion");
        let runs: Vec<String> = (0..=RUNS).map(|index| line(&index.to_string(), 1)).collect();
        assert!(told(&runs.join("\n")).starts_with("more than 16 runs"));
    }

    #[test]
    fn an_endless_line_is_not_held_in_memory() {
        let endless = io::BufReader::new(io::repeat(b'x'));
        assert_eq!(read(endless).unwrap_err().to_string(), "line 1: longer than 32 MiB, which no record is");
    }
}
