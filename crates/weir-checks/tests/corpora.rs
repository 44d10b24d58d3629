//! Every check on the inputs that are kept, on the seeds, and on changes of both: cut, doubled, joined, odd
//! bytes, flipped bits. The changes are the same in each run; `WEIR_SOAK=N` makes N hundred of each input,
//! `WEIR_SEED` other ones.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use weir_checks::seeds::seeds;
use weir_checks::{ALL, Check};

/// Changes of each input.
const CHANGES: u64 = 100;

/// All kept inputs together, bytes: they are cloned with the source.
const MOST: u64 = 1 << 20;

/// A check's inputs, kept and seeds, by name.
fn inputs(target: &str) -> Vec<(String, Vec<u8>)> {
    let mut inputs: Vec<(String, Vec<u8>)> =
        kept(target).into_iter().map(|path| (name(&path), fs::read(&path).unwrap())).collect();
    inputs
        .extend(seeds().into_iter().filter(|seed| seed.target == target).map(|seed| (seed.name, seed.bytes)));
    inputs.sort();
    inputs
}

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn kept(target: &str) -> Vec<PathBuf> {
    let Ok(folder) = fs::read_dir(corpora().join(target)) else { return Vec::new() };
    folder.map(|entry| entry.unwrap().path()).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Says which input it was if the check panics.
struct InputOnPanic<'a> {
    input: &'a str,
    bytes: &'a [u8],
}

impl Drop for InputOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("on {}; keep it as corpus/NAME/found-WHAT: {}", self.input, self.bytes.escape_ascii());
        }
    }
}

#[track_caller]
fn holds(target: &str) {
    let check: Check = ALL.iter().find(|(name, _)| *name == target).unwrap().1;
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let mut random = fastrand::Rng::with_seed(number("WEIR_SEED").unwrap_or(7));
    let changes = number("WEIR_SOAK").map_or(CHANGES, |soak| soak * 100);
    let inputs = inputs(target);
    let mut understood = 0;
    for (name, bytes) in &inputs {
        let told = InputOnPanic { input: name, bytes };
        understood += usize::from(check(bytes));
        drop(told);
        for _ in 0..changes {
            let mut bytes = bytes.clone();
            for _ in 0..random.u8(1..6) {
                change(&mut bytes, &inputs, &mut random);
            }
            let told = InputOnPanic { input: &format!("a change of {name}"), bytes: &bytes };
            check(&bytes);
            drop(told);
        }
    }
    // Else the parser's form has changed, and its corpus is only noise to it.
    assert!(understood > 0, "{target}: none of {} inputs is understood", inputs.len());
}

/// One change at a place that chance chooses.
fn change(bytes: &mut Vec<u8>, inputs: &[(String, Vec<u8>)], random: &mut fastrand::Rng) {
    const ODD: [&[u8]; 12] = [
        b"\0",
        b"\r\n",
        b"\"",
        b"\\",
        b",",
        b"=",
        b";",
        b"%00",
        b"\xff\xff\xff\xff",
        b"\xef\xbf\xbd",
        b"\t",
        b"<",
    ];
    let at = random.usize(..=bytes.len());
    let end = at + random.usize(..=(bytes.len() - at).min(16));
    match random.u8(..7) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let twice = bytes[at..end].to_vec();
            drop(bytes.splice(at..at, twice));
        }
        3 => drop(bytes.splice(at..at, ODD[random.usize(..ODD.len())].iter().copied())),
        4 => {
            let other = &inputs[random.usize(..inputs.len())].1;
            let from = random.usize(..=other.len());
            let to = from + random.usize(..=(other.len() - from).min(64));
            drop(bytes.splice(at..end, other[from..to].iter().copied()));
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.u8(..8);
            }
        }
    }
}

/// A test for each check.
macro_rules! tests {
    ($($target:ident),* $(,)?) => {
        const TESTED: &[&str] = &[$(stringify!($target)),*];

        $(
            #[test]
            fn $target() {
                holds(stringify!($target));
            }
        )*
    };
}

tests! {
    capture, challenge, chunked, codec, content_coding, content_disposition, content_range, cookies,
    cp_batch, cp_frame, cp_greeting, cp_lane, cp_part_log, cp_patch, cp_record, cp_sample, cp_subtrees,
    delta_recipe, delta_signature, digest_field, entry, fleet_frame, fleet_rows, hub_words, index_page,
    journal, load_answer, load_request, net_words, netrc, probe_words, put_journal, records, release_manifest, response_head,
    serve_conditions, serve_request,
    server_words, sock_diag, store_answer, store_ini,
}

/// The packages of a lock file, each with its version.
fn locked(file: &str) -> BTreeSet<(String, String)> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap();
    let field = |package: &str, name: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_matches([' ', '=', '"']).to_owned()
    };
    let packages = text.split("[[package]]\n").skip(1);
    packages.map(|package| (field(package, "name"), field(package, "version"))).collect()
}

/// What is fuzzed, and what Python calls, is what ships.
#[test]
fn the_other_workspaces_have_the_same_versions() {
    let shipped = locked("Cargo.lock");
    let names: BTreeSet<&String> = shipped.iter().map(|(name, _)| name).collect();
    for file in ["fuzz/Cargo.lock", "python/Cargo.lock"] {
        for package in locked(file).iter().filter(|(name, _)| names.contains(name)) {
            assert!(shipped.contains(package), "{file}: {package:?}");
        }
    }
}

#[test]
fn every_check_is_a_test_and_a_fuzz_target() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    let bins = manifest.split("[[bin]]\n").skip(1);
    let bins: BTreeSet<&str> = bins.filter_map(|bin| bin.split('"').nth(1)).collect();
    let all: BTreeSet<&str> = ALL.iter().map(|(name, _)| *name).collect();
    assert_eq!(all, TESTED.iter().copied().collect());
    assert_eq!(all, bins);
    for name in all {
        let target = fs::read_to_string(fuzz.join(format!("targets/{name}.rs"))).unwrap();
        let lines = format!(
            "//! See `weir_checks::{name}`.\n#![no_main]\n\n\
             libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {{\n    weir_checks::{name}::check(bytes);\n}});\n"
        );
        assert_eq!(target, lines, "fuzz/targets/{name}.rs");
    }
}

#[test]
fn the_corpora_are_of_checks_and_small() {
    let mut size = 0;
    for folder in fs::read_dir(corpora()).unwrap() {
        let target = name(&folder.unwrap().path());
        assert!(TESTED.contains(&&*target), "corpus/{target} is of no check");
        size += kept(&target).iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>();
    }
    assert!(size <= MOST, "{size} bytes");
}
