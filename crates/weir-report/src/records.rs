//! Records from foreign bytes: files that hold one record, or a line for each, of any length, broken off
//! anywhere.
//!
//! Several lines may tell of the same run (one appended after the other): the last whole one counts. Lines
//! that cannot be read are told by their number; only where none can is that an error.

use std::io::{self, BufRead, Read};

use serde::Deserialize;

use crate::escape::escape;
use crate::html::words::{kind, subject};
use crate::json::ParseError;
use crate::schema::{Record, SCHEMA};

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
    /// More different runs than [`RUNS`].
    TooMany,
}

/// The records of a file, and what is worth knowing about how they were read.
#[derive(Debug, Default)]
pub struct Runs {
    /// The last whole record of each run, in the order in which the runs appear.
    pub records: Vec<Record>,
    /// In words: lines that were left out.
    pub notes: Vec<String>,
}

/// Reads a file's records.
pub fn read(mut from: impl BufRead) -> Result<Runs, RecordsError> {
    let mut runs = Runs::default();
    let mut first_bad: Option<(u64, String)> = None;
    let (mut bad, mut replaced, mut total) = (0_u64, 0_u64, 0_u64);
    let mut line = Vec::new();
    for number in 1.. {
        match next_line(&mut from, &mut line).map_err(RecordsError::Io)? {
            Line::End => break,
            // What begins like that is no file of records.
            Line::TooLong if number == 1 => return Err(too_long(number)),
            Line::TooLong => {
                total += LONGEST
                    + pass_over(&mut from, LARGEST.saturating_sub(total)).map_err(RecordsError::Io)?;
                bad += 1;
                first_bad.get_or_insert((number, too_long_words()));
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
        match parse(&line) {
            Ok(record) => replaced += u64::from(keep(&mut runs.records, record)?),
            // A record that was laid out over many lines, as `jq .` does.
            Err(cut) if number == 1 && is_opening(&line) => {
                let mut rest = Vec::new();
                from.by_ref().take(LONGEST).read_to_end(&mut rest).map_err(RecordsError::Io)?;
                if rest.is_empty() {
                    return Err(RecordsError::Line { number, why: cut });
                }
                if line.len() + rest.len() >= LONGEST as usize {
                    return Err(too_long(number));
                }
                line.push(b'\n');
                line.extend(rest);
                let why = |why| RecordsError::Line { number, why };
                runs.records.push(parse(&line).map_err(why)?);
                return Ok(runs);
            }
            Err(why) => {
                bad += 1;
                first_bad.get_or_insert((number, why));
            }
        }
    }
    finish(runs, first_bad, bad, replaced)
}

fn finish(
    mut runs: Runs,
    first_bad: Option<(u64, String)>,
    bad: u64,
    replaced: u64,
) -> Result<Runs, RecordsError> {
    match (runs.records.is_empty(), first_bad) {
        (true, None) => return Err(RecordsError::Empty),
        (true, Some((number, why))) => return Err(RecordsError::Line { number, why }),
        (false, None) => {}
        (false, Some((number, why))) => {
            let others = if bad > 1 { format!(", and {} more", bad - 1) } else { String::new() };
            runs.notes.push(format!("line {number} was left out{others}: {why}"));
        }
    }
    if replaced > 0 {
        let lines =
            if replaced == 1 { "an earlier line".to_owned() } else { format!("{replaced} earlier lines") };
        runs.notes
            .push(format!("of each run the last whole line counts; {lines} of the same runs are not shown"));
    }
    Ok(runs)
}

/// Takes a record in. True where it took the place of an earlier one of the same run.
fn keep(records: &mut Vec<Record>, record: Record) -> Result<bool, RecordsError> {
    let same = |other: &Record| kind(other) == kind(&record) && subject(other) == subject(&record);
    match records.iter().position(same) {
        Some(earlier) => {
            records[earlier] = record;
            Ok(true)
        }
        None if records.len() >= RUNS => Err(RecordsError::TooMany),
        None => {
            records.push(record);
            Ok(false)
        }
    }
}

enum Line {
    End,
    Whole,
    /// Its rest is still to be read.
    TooLong,
}

/// The next line without its end.
fn next_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Line> {
    line.clear();
    let read = from.by_ref().take(LONGEST + 1).read_until(b'\n', line)?;
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
fn pass_over(from: &mut impl BufRead, most: u64) -> io::Result<u64> {
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
                write!(f, "more than {RUNS} different runs, which no page shows; give the lines that matter")
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

    fn line(name: &str, bytes: u64) -> String {
        let mut record = Record::new("get", RunOutcome::Complete, bytes, 1.0);
        record.files = vec![FileRecord { path: name.to_owned(), ..FileRecord::default() }];
        serde_json::to_string(&record).unwrap()
    }

    fn told(text: &str) -> String {
        read(text.as_bytes()).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn the_last_whole_line_of_each_run_counts() {
        let whole = line("a", 3);
        let text = format!("{}\n{}\n\n{whole}\n{}", line("a", 1), line("b", 2), &whole[..whole.len() - 9]);
        let runs = read(text.as_bytes()).unwrap();
        assert_eq!(runs.records.iter().map(|record| record.bytes).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(
            runs.notes,
            [
                "line 5 was left out: the record is cut off",
                "of each run the last whole line counts; an earlier line of the same runs are not shown"
            ]
        );
    }

    #[test]
    fn one_over_many_lines_is_a_record_too() {
        let record: serde_json::Value = serde_json::from_str(&line("a", 7)).unwrap();
        let text = serde_json::to_string_pretty(&record).unwrap();
        assert_eq!(read(text.as_bytes()).unwrap().records[0].bytes, 7);
        assert_eq!(told(&text[..text.len() / 2]), "line 1: the record is cut off");
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
        assert!(told(&runs.join("\n")).starts_with("more than 16 different runs"));
    }

    #[test]
    fn an_endless_line_is_not_held_in_memory() {
        let endless = io::BufReader::new(io::repeat(b'x'));
        assert_eq!(read(endless).unwrap_err().to_string(), "line 1: longer than 32 MiB, which no record is");
    }
}
