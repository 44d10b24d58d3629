//! Random histories of an object: versions that change, answers that are cut, validators that are present,
//! absent or contradict each other, one run or several, 1 to 8 lanes. Whatever happens, a file under its
//! final name is of one version, and every run ends.
//!
//! 20 histories by default; `WEIR_SOAK=1000` for more, `WEIR_SEED=N` for a history again.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io;
use std::sync::{Arc, Mutex};

use support::{Dice, MIB, Request, Sandbox, Server, Wire, pattern};

/// Versions that an object goes through.
const VERSIONS: u64 = 3;

/// The most requests of one run: eight lanes that begin again three times, with retries and looks, stay far
/// below it.
const MOST_REQUESTS: usize = 400;

const DATE: &str = "Fri, 01 Jan 2021 00:00:00 GMT";

/// What became of the runs.
#[derive(Debug, Default)]
struct Tally {
    complete: usize,
    incomplete: usize,
    /// Of parts of several answers.
    joined: usize,
    begun_again: usize,
}

/// An object whose history goes on with each request.
struct Story {
    dice: Dice,
    versions: Vec<Arc<Vec<u8>>>,
    now: usize,
    /// Of a hundred requests, before how many the object changes.
    changes: u64,
    /// Of a hundred answers, how many are cut.
    cuts: u64,
    /// Of a hundred answers, how many have the validators of a good server.
    honest: u64,
    /// Without `If-Range`, as a simple server is.
    deaf: bool,
    plain_only: bool,
}

impl Story {
    fn new(seed: u64) -> Story {
        let mut dice = Dice::of(seed);
        let size = dice.roll(3 * MIB as u64..6 * MIB as u64) as usize;
        // Often the size stays the same, so that it gives nothing away.
        let grows = dice.roll(0..4) == 0;
        let versions = (0..VERSIONS).map(|version| {
            let size = if grows { size + 1000 * version as usize } else { size };
            Arc::new(pattern(size, seed.wrapping_add(version)))
        });
        let versions = versions.collect();
        let [changes, cuts] = [dice.roll(0..40), dice.roll(0..70)];
        let honest = [0, 20, 60, 100][dice.roll(0..4) as usize];
        let (deaf, plain_only) = (dice.roll(0..2) == 0, dice.roll(0..10) == 0);
        Story { dice, versions, now: 0, changes, cuts, honest, deaf, plain_only }
    }

    fn happens(&mut self, of_a_hundred: u64) -> bool {
        self.dice.roll(0..100) < of_a_hundred
    }

    /// The validators of an answer: never a lie that names this version by another's tag alone, since nobody
    /// could tell.
    fn validators(&mut self) -> Vec<(&'static str, String)> {
        let tag = |version: usize| ("ETag", format!("\"{version}\""));
        let dated =
            |version: usize| ("Last-Modified", format!("Mon, {:02} Jun 2020 00:00:00 GMT", version + 1));
        let (now, other) = (self.now, (self.now + 1) % self.versions.len());
        let date = ("Date", DATE.to_owned());
        if self.happens(self.honest) {
            return vec![tag(now), dated(now), date];
        }
        match self.dice.roll(0..12) {
            0..4 => vec![],
            4 => vec![tag(now)],
            5 => vec![dated(now), date],
            6 => vec![("ETag", format!("W/\"{now}\""))],
            7 => vec![tag(now), tag(other)],
            8 => vec![tag(other), tag(now)],
            9 => vec![tag(now), dated(other), date],
            10 => vec![dated(now)],
            _ => vec![dated(now), dated(other), date],
        }
    }
}

/// Answers as the story goes. The lock is let go before bytes are sent.
fn answer(story: &Mutex<Story>, request: &Request, wire: &mut Wire) -> io::Result<()> {
    let (status, mut fields, bytes, part, sent) = {
        let mut story = story.lock().unwrap();
        let changes = story.changes;
        if request.number > 0 && story.happens(changes) {
            story.now = (story.now + 1) % story.versions.len();
        }
        let bytes = Arc::clone(&story.versions[story.now]);
        let fields = story.validators();
        let own_tag = format!("\"{}\"", story.now);
        let pinned = request.field("if-range").filter(|_| !story.deaf);
        let same = pinned.is_none_or(|tag| tag == own_tag || fields.iter().any(|(_, value)| value == tag));
        let asked = request.range().filter(|_| same && !story.plain_only);
        let (status, part) = match asked {
            Some((start, _)) if start as usize >= bytes.len() => ("416 Range Not Satisfiable", 0..0),
            Some((start, end)) => {
                let end = end.map_or(bytes.len(), |end| (end as usize).min(bytes.len()));
                ("206 Partial Content", start as usize..end)
            }
            None => ("200 OK", 0..bytes.len()),
        };
        let cuts = story.cuts;
        let sent = match story.happens(cuts) {
            true => story.dice.roll(0..part.len() as u64 + 1) as usize,
            false => part.len(),
        };
        (status, fields, bytes, part, sent)
    };
    match status {
        "206 Partial Content" => {
            fields.push(("Content-Range", format!("bytes {}-{}/{}", part.start, part.end - 1, bytes.len())));
        }
        "416 Range Not Satisfiable" => fields.push(("Content-Range", format!("bytes */{}", bytes.len()))),
        _ => {}
    }
    fields.push(("Content-Length", part.len().to_string()));
    wire.head(status, &fields)?;
    wire.body(&bytes[part.start..part.start + sent])?;
    if sent < part.len() { wire.close() } else { Ok(()) }
}

#[test]
fn a_file_is_of_one_version() {
    let (mut dice, runs) = Dice::for_runs();
    let mut tally = Tally::default();
    for _ in 0..runs {
        let seed = dice.roll(0..u64::MAX);
        play(seed, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.complete as u64 * 2 >= runs, "too few came to their end: {tally:?}");
    assert!(tally.joined > 0, "no file was put together of parts, so nothing was proven: {tally:?}");
}

fn play(seed: u64, tally: &mut Tally) {
    let story = Story::new(seed);
    let versions = story.versions.clone();
    let mut dice = Dice::of(seed ^ 0x5eed);
    let (runs, lanes) = (dice.roll(1..4), dice.roll(1..9).to_string());
    let to_stdout = dice.roll(0..6) == 0;
    let context = format!("history {seed}: {runs} runs, {lanes} lanes, to stdout: {to_stdout}");
    let story = Mutex::new(story);
    let server = Server::start(move |request, wire| answer(&story, request, wire));
    let sandbox = Sandbox::new();
    for _ in 0..runs {
        let before = server.requests().len();
        let output = if to_stdout { "-" } else { "out" };
        let run = sandbox.get([&server.url("x"), "-o", output, "-c", &lanes, "--retries", "2"]).run();
        let asked = server.requests().len() - before;
        assert!(asked <= MOST_REQUESTS, "{context}: {asked} requests");
        match run.status.code() {
            Some(0) => {
                let got = if to_stdout { run.stdout } else { sandbox.read("out") };
                assert!(
                    versions.iter().any(|version| **version == got),
                    "{context}: a mixed file\n{}",
                    run.stderr
                );
                tally.complete += 1;
                let again = run.stderr.contains("starting again");
                tally.joined +=
                    usize::from(!again && server.requests_from(before).iter().any(|one| one.start() > 0));
            }
            Some(1 | 4) => {
                assert!(!sandbox.path("out").exists(), "{context}: a name before its end");
                let part = &run.stdout;
                assert!(
                    versions.iter().any(|version| version.starts_with(part)),
                    "{context}: mixed bytes passed on"
                );
                tally.incomplete += 1;
            }
            other => panic!("{context}: {other:?}\n{}", run.stderr),
        }
        tally.begun_again += usize::from(run.stderr.contains("starting again"));
        if sandbox.path("out").exists() {
            return;
        }
    }
}
