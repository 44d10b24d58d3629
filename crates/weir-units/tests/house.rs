//! The house's rules, as far as a machine can tell: which crate may stand on which, and which module of a
//! crate on which other (`house/knots.rs`); where `unsafe` may be, how long files and functions may grow,
//! that docs/protocol.md names the protocol that is spoken, that nothing is public that nobody uses, that
//! what is one does not become two again, that commands leave sockets to the crates below, and that a test
//! which does not test says so in CI. Who has a reason for an exception adds it to the list here, where a
//! reader of the change sees it.

#[path = "house/knots.rs"]
mod knots;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What each crate may stand on, of weir's own. Fewer are welcome; more are a decision (ARCHITECTURE.md,
/// Arrows).
const ARROWS: &[(&str, &str)] = &[
    ("weir-units", ""),
    ("weir-model", "units"),
    ("weir-codec", "units"),
    ("weir-http", "codec units"),
    ("weir-tree", "units"),
    ("weir-observe", "model units"),
    ("weir-capture", "model units"),
    ("weir-report", "model units"),
    ("weir-serve", "http units"),
    ("weir-bench", "codec model observe units"),
    ("weir-bench-net", "model observe units"),
    ("weir-bench-http", "http model observe units"),
    (
        "weir-checks",
        "bench bench-http bench-net capture codec cp fleet get http model observe report store tree",
    ),
    ("weir-get", "codec http model observe tree units"),
    ("weir-store", "codec get http model observe tree units"),
    ("weir-fleet", "codec cp get http model observe store tree units"),
    ("weir-lab", "bench model observe serve units"),
    ("weir-cp", "bench codec model observe tree units"),
    (
        "weir",
        "bench bench-http bench-net capture codec cp fleet get http lab model observe report serve store tree units",
    ),
];

/// Files with `unsafe`: each block there has its reason beside it (clippy's `undocumented_unsafe_blocks`).
const UNSAFE: &[&str] = &[
    "weir-bench-http/src/http2/pacer.rs",
    "weir-bench-http/src/script/state.rs",
    "weir-bench-net/src/sys.rs",
    "weir-bench/src/disk/ring.rs",
    "weir-bench/src/host/mtu/error_queue.rs",
    "weir-bench/src/mem/arena.rs",
    "weir-bench/src/mem/kernel.rs",
    "weir-bench/src/mem/kernel/portable.rs",
    "weir-bench/src/mem/kernel/x86_64.rs",
    "weir-bench/src/option.rs",
    "weir-bench/src/pps/batch.rs",
    "weir-bench/src/pps/raw.rs",
    "weir-lab/src/cgroup.rs",
    "weir-lab/src/child.rs",
    "weir-lab/src/netns.rs",
    "weir-lab/src/netns/interface.rs",
    "weir-lab/src/privilege.rs",
    "weir-lab/src/slow_core.rs",
    "weir-lab/src/tun.rs",
    "weir-observe/src/clock.rs",
    "weir-observe/src/host/io_uring.rs",
    "weir-observe/src/names.rs",
    "weir-observe/src/tcp_info.rs",
    "weir-serve/src/acknowledged.rs",
    "weir-serve/src/listings.rs",
    "weir-serve/src/signal.rs",
    "weir-serve/src/stream.rs",
    "weir-units/src/atomic_file.rs",
    "weir/src/caught.rs",
    "weir/src/interrupt.rs",
    "weir/src/main.rs",
];

/// Lines of a file without its tests: what one reads in a sitting.
const FILE: usize = 650;

/// Longer ones, each with the lines that it had when it was let in: they may shrink, not grow.
const LONG_FILES: &[(&str, usize)] = &[];

/// Lines of a function: a screen, and a little for signatures and struct literals.
const FUNCTION: usize = 65;

/// Longer ones, by file and name, with the lines that they had when they were let in. Most are one `match` or
/// one literal, a line a case.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[
    ("weir-report/src/html/members/measured.rs", "packets", 80),
    ("weir-bench-net/src/parameters.rs", "to_json", 78),
    ("weir-bench-net/src/server/answers.rs", "hold", 75),
    ("weir-bench-net/src/transactions/client.rs", "run", 70),
    ("weir-cp/src/tuning.rs", "observe", 72),
    ("weir-cp/src/peer.rs", "serve", 70),
    ("weir-model/src/advice.rs", "advise", 70),
    ("weir-http/src/chunked.rs", "next", 67),
];

/// Public names that no code but their own tests uses, and why they stay.
const UNUSED: &[&str] = &[
    // The tests of what reads /proc ask it whose network a process is in.
    "shares_network",
];

/// Columns of a comment, and of a page's prose (STYLE.md).
const COLUMNS: usize = 110;

/// What there is one of: a text that shows it, and the only files that may have it.
const ONE: &[(&str, &[&str])] = &[
    ("/kernel/random/boot_id\"", &["weir-units/src/boot.rs"]),
    ("setrlimit(", &["weir-units/src/nofile.rs"]),
    ("RenameFlags::NOREPLACE", &["weir-units/src/atomic_file.rs"]),
    (
        "renameat(",
        &[
            // Others may write the folder too: these take back only what is theirs still.
            "weir-get/src/journal.rs",
            // From one folder into another.
            "weir-get/src/sink/naming.rs",
            "weir-get/src/sink/part_file.rs",
            "weir-tree/src/destination/backup.rs",
            "weir-units/src/atomic_file.rs",
        ],
    ),
    ("sort_by(f64::total_cmp)", &["weir-units/src/stats.rs"]),
    // The middle of a list by its index. Means of the two in the middle: `stats::median`.
    (".len() / 2]", &[]),
    ("eprintln!(\"note: ", &[]),
];

/// What a command leaves to the crates below it: sockets, and what the kernel says of processes.
const HANDS: &[&str] = &[
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "UnixListener",
    "UnixDatagram",
    "rustix::net",
    "\"/proc/",
];

/// Commands that name such a thing, which one, and why.
const HANDS_OF_COMMANDS: &[(&str, &str)] = &[
    // The trait of the load has the type in its signature; the socket is opened by weir-get.
    ("weir/src/cmd/bench/http/way.rs", "TcpStream"),
    // Whether the server that a file of numbers names runs, and this program, to start it again.
    ("weir/src/cmd/bench/net/background.rs", "\"/proc/"),
    // This program, to start it again.
    ("weir/src/cmd/self_check/probes.rs", "\"/proc/"),
];

/// Tests that print `skipped` in CI too, how often at the most, and why nothing can be installed for them.
/// They may shrink, not grow.
const SKIPS: &[(&str, usize)] = &[
    // The kernel may have no io_uring, and a container may forbid it.
    ("weir-bench/src/disk/ring.rs", 1),
    // The host may have no IPv6; an interface may be chosen by a privilege before Linux 5.7.
    ("weir-bench-net/tests/transactions.rs", 1),
    ("weir-observe/tests/sock_diag.rs", 2),
    // The kernel may lack this file of sysfs.
    ("weir-fleet/src/worker/local/tests.rs", 1),
    // The file system of the temporary folder may have no attributes, no leases, or read ahead at a price;
    // and root alone gives a folder to another user, which is one case of several.
    ("weir-get/src/sink/stamp.rs", 1),
    ("weir-serve/tests/containment.rs", 2),
    ("weir-tree/src/pages.rs", 1),
    // The kernel may lack a file system, and FUSE.
    ("weir/tests/bench_disk.rs", 1),
    ("weir/tests/cp/folds.rs", 3),
    // No package of Debian has a kubectl that is new enough.
    ("weir/tests/safety/fleet_queue/kubernetes.rs", 1),
    // A case among many for which this host has not the means: it is listed, and the rest is played.
    ("weir/tests/truth.rs", 1),
    ("weir/tests/truth_field.rs", 1),
];

/// What decides and does nothing: no file, socket, clock, lock, thread or chance, which come in as arguments.
const PURE: &[&str] = &[
    "weir-model/src/",
    "weir-get/src/download.rs",
    "weir-get/src/download/",
    "weir-get/src/ledger.rs",
    "weir-get/src/ramp.rs",
    "weir-get/src/ranges.rs",
];

/// What would show that it does something.
const IMPURE: &[&str] =
    &["Instant::now(", "SystemTime::now(", "fs::", "net::", "Mutex", "std::thread", "fastrand::f64"];

/// Names that say too little alone: each was a type's thirty times, and a search found none of them.
const TOO_COMMON: &[&str] = &["Error", "State", "Seen", "Place", "Outcome", "Told", "Word", "Between"];

/// As `TOO_COMMON`, of constants.
const TOO_COMMON_CONSTANTS: &[&str] = &["LOOK"];

/// A source file: where it is, counted from `crates/`, and its lines up to its own tests.
struct Source {
    name: String,
    lines: Vec<String>,
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// Every Rust file below `folder`.
fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    files(folder, "rs", into);
}

/// Every file below `folder` whose name ends so.
fn files(folder: &Path, ending: &str, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true => files(&path, ending, into),
            false if path.extension().is_some_and(|own| own == ending) => into.push(path),
            false => {}
        }
    }
}

/// Every file of every crate's `src`, without tests.
fn sources() -> Vec<Source> {
    let mut paths = Vec::new();
    for folder in fs::read_dir(crates()).expect("crates/ can be read").flatten() {
        rust_files(&folder.path().join("src"), &mut paths);
    }
    paths.sort();
    assert!(paths.len() > 100, "found only {} source files", paths.len());
    let is_code = |path: &&PathBuf| !path.ends_with("tests.rs");
    paths.iter().filter(is_code).map(|path| Source { name: name(path), lines: code(path) }).collect()
}

fn name(path: &Path) -> String {
    path.strip_prefix(crates()).unwrap_or(path).display().to_string()
}

/// The lines up to the file's own tests.
fn code(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("a source file can be read");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let tests = lines.windows(2).position(|two| two[0] == "#[cfg(test)]" && two[1].starts_with("mod tests"));
    lines.truncate(tests.unwrap_or(lines.len()));
    lines
}

/// A line without its comment. Where `//` stands within a text that is lost too, which costs nothing here.
fn bare(line: &str) -> &str {
    if line.trim_start().starts_with("//") { "" } else { line.split(" //").next().unwrap_or_default() }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    bare(line).split(|char: char| !char.is_alphanumeric() && char != '_').filter(|word| !word.is_empty())
}

#[test]
fn crates_stand_on_what_they_may() {
    let allowed: BTreeMap<&str, BTreeSet<String>> = ARROWS
        .iter()
        .map(|(of, on)| (*of, on.split_whitespace().map(|on| format!("weir-{on}")).collect()))
        .collect();
    for folder in fs::read_dir(crates()).expect("crates/ can be read").flatten() {
        let of = folder.file_name().to_string_lossy().into_owned();
        let Ok(manifest) = fs::read_to_string(folder.path().join("Cargo.toml")) else { continue };
        let of_library = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
        let of_library = of_library.split("\n[").next().unwrap_or_default();
        let may = allowed.get(of.as_str()).unwrap_or_else(|| panic!("{of} is not in the list of arrows"));
        for on in of_library.lines().filter_map(|line| line.split(['.', ' ', '=']).next()) {
            assert!(
                !on.starts_with("weir-") || may.contains(on),
                "{of} stands on {on}, which its place in the list of arrows does not allow"
            );
        }
    }
}

#[test]
fn unsafe_is_where_it_may_be() {
    let marks = ["unsafe {", "unsafe fn ", "unsafe impl ", "unsafe extern ", "[unsafe("];
    let has = |source: &&Source| {
        source.lines.iter().any(|line| marks.iter().any(|mark| bare(line).contains(*mark)))
    };
    let found: BTreeSet<String> = sources().iter().filter(has).map(|source| source.name.clone()).collect();
    let listed: BTreeSet<String> = UNSAFE.iter().map(|name| (*name).to_owned()).collect();
    let differ: Vec<&String> = found.symmetric_difference(&listed).collect();
    assert!(differ.is_empty(), "files with unsafe are not those of the list: {differ:?}");
}

#[test]
fn files_are_short_enough_to_read() {
    let sources = sources();
    let most = |name: &str| LONG_FILES.iter().find(|(long, _)| *long == name).map_or(FILE, |(_, most)| *most);
    let long = sources.iter().filter(|source| source.lines.len() > most(&source.name));
    let long: Vec<_> = long.map(|source| (&source.name, source.lines.len())).collect();
    assert!(long.is_empty(), "longer than {FILE} lines without tests, so to be split: {long:?}");
}

/// The lines of a text that are wider than people read: prose, without tables, and code in fences or
/// indented. `prose` is what of a line is text.
fn wide<'a>(text: &'a str, prose: impl Fn(&'a str) -> Option<&'a str>) -> Vec<(usize, &'a str)> {
    let (mut is_code, mut wide) = (false, Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let Some(words) = prose(line) else {
            is_code = false;
            continue;
        };
        if words.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let is_free = is_code || words.trim_start().starts_with('|') || words.starts_with("    ");
        if !is_free && line.chars().count() > COLUMNS {
            wide.push((number, line));
        }
    }
    wide
}

#[test]
fn prose_is_no_wider_than_people_read() {
    let mut found = Vec::new();
    let mut paths = Vec::new();
    rust_files(&crates(), &mut paths);
    for path in &paths {
        let text = fs::read_to_string(path).expect("a source file can be read");
        let comment = |line| {
            let line = str::trim_start(line).strip_prefix("//")?.trim_start_matches(['/', '!']);
            Some(line.strip_prefix(' ').unwrap_or(line))
        };
        found.extend(wide(&text, comment).into_iter().map(|(number, _)| (name(path), number)));
    }
    let root = crates().parent().map(Path::to_owned).unwrap_or_default();
    for path in pages(&root) {
        let text = fs::read_to_string(&path).expect("a page can be read");
        found.extend(wide(&text, Some).into_iter().map(|(number, _)| (path.display().to_string(), number)));
    }
    assert!(found.is_empty(), "wider than {COLUMNS} columns: {found:?}");
}

/// The pages at the root and below `docs/`, but those of a script whose letters are two columns wide.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    files(&root.join("docs"), "md", &mut found);
    found.retain(|path| !path.to_string_lossy().contains(".zh-"));
    assert!(found.len() > 20, "found only {} pages", found.len());
    found
}

/// The functions of a file and their lines. rustfmt ends each with a brace as far to the right as its first
/// line.
fn functions(source: &Source) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, line) in source.lines.iter().enumerate() {
        let start = line.trim_start();
        let is_one = start.starts_with("fn ") || start.starts_with("pub") || start.contains(" fn ");
        let Some(name) = start.split("fn ").nth(1).filter(|_| is_one && !bare(line).is_empty()) else {
            continue;
        };
        let name: String = name.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
        let head = start.split("fn ").next().unwrap_or_default();
        if name.is_empty() || head.contains(['"', '(', '=']) && !head.starts_with("pub(") {
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - start.len()]);
        let length = source.lines[at..].iter().position(|line| *line == end);
        // What ends on its own first line, or has no body.
        let length =
            if line.ends_with('}') || line.ends_with(';') { 1 } else { length.map_or(1, |to| to + 1) };
        found.push((name, length));
    }
    found
}

#[test]
fn functions_fit_a_screen() {
    let sources = sources();
    let all: Vec<(&str, String, usize)> = sources
        .iter()
        .flat_map(|source| functions(source).into_iter().map(|(name, lines)| (&*source.name, name, lines)))
        .collect();
    assert!(all.len() > 3000, "found only {} functions", all.len());
    let most = |file: &str, name: &str| {
        let listed = LONG_FUNCTIONS.iter().find(|(in_file, long, _)| *in_file == file && *long == name);
        listed.map_or(FUNCTION, |(_, _, most)| *most)
    };
    let long: Vec<_> = all.iter().filter(|(file, name, lines)| *lines > most(file, name)).collect();
    assert!(long.is_empty(), "longer than {FUNCTION} lines, so to be split: {long:?}");
}

#[test]
fn the_protocol_that_is_spoken_is_the_one_that_is_described() {
    let spoken = code(&crates().join("weir-cp/src/wire/message.rs"));
    let number = spoken.iter().find_map(|line| line.strip_prefix("pub const PROTOCOL: u16 = "));
    let number = number.and_then(|rest| rest.strip_suffix(';')).expect("a protocol number");
    let described = fs::read_to_string(crates().join("../docs/protocol.md")).expect("docs/protocol.md");
    assert!(
        described.contains(&format!("\nProtocol number {number}.")),
        "weir speaks protocol {number}; docs/protocol.md describes another"
    );
}

/// The name that a line makes public, if it does.
fn public(line: &str) -> Option<&str> {
    let mut rest = line.trim_start().strip_prefix("pub ")?;
    for word in ["const ", "async ", "unsafe "] {
        if rest.starts_with(&format!("{word}fn ")) || word != "const " {
            rest = rest.strip_prefix(word).unwrap_or(rest);
        }
    }
    let kinds = ["fn ", "struct ", "enum ", "const ", "static ", "trait ", "type "];
    let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    let end = rest.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(rest.len());
    Some(&rest[..end])
}

/// rustc is silent about what a library offers to nobody. A name counts as used where any other code has it,
/// of any crate, its integration tests, examples and fuzz targets: a name that several things have is not
/// found, and none is blamed wrongly.
#[test]
fn what_is_public_is_used() {
    let (mut made, mut seen) = (BTreeMap::<String, Vec<String>>::new(), BTreeMap::<String, usize>::new());
    let mut paths = Vec::new();
    rust_files(&crates(), &mut paths);
    rust_files(&crates().join("../fuzz/targets"), &mut paths);
    rust_files(&crates().join("../python/src"), &mut paths);
    // This file names what is not used.
    paths.retain(|path| !path.ends_with("weir-units/tests/house.rs"));
    for path in &paths {
        let (name, lines) = (name(path), code(path));
        for line in &lines {
            words(line).for_each(|word| *seen.entry(word.to_owned()).or_default() += 1);
            if let Some(public) = public(bare(line)).filter(|_| name.contains("/src/")) {
                made.entry(public.to_owned()).or_default().push(name.clone());
            }
        }
    }
    assert!(made.len() > 1500, "found only {} public names", made.len());
    let unused = made.iter().filter(|(name, places)| seen.get(*name) == Some(&places.len()));
    let unused: Vec<_> = unused.filter(|(name, _)| !UNUSED.contains(&name.as_str())).collect();
    assert!(
        unused.is_empty(),
        "public, and used by nothing but tests of its own file; take it away: {unused:?}"
    );
}

#[test]
fn what_is_pure_stays_pure() {
    let sources = sources();
    let is_pure = |source: &&Source| {
        let test = source.name.contains("/tests/");
        PURE.iter().any(|pure| source.name.starts_with(pure)) && !test
    };
    let pure: Vec<&Source> = sources.iter().filter(is_pure).collect();
    for place in PURE {
        let is_met = pure.iter().any(|source| source.name.starts_with(place));
        assert!(is_met, "{place} has another name now");
    }
    for source in pure {
        let impure = source.lines.iter().find(|line| IMPURE.iter().any(|mark| bare(line).contains(*mark)));
        assert_eq!(impure, None, "{} decides, and leaves doing to others", source.name);
    }
}

#[test]
fn what_is_one_stays_one() {
    let sources = sources();
    for (mark, places) in ONE {
        let has = |source: &&Source| source.lines.iter().any(|line| bare(line).contains(*mark));
        let found: Vec<&str> = sources.iter().filter(has).map(|source| &*source.name).collect();
        assert_eq!(found, *places, "{mark}: one place has it for all, and the others call that");
    }
    // Tests lock as the program does: by what no panic poisons.
    let mut paths = Vec::new();
    rust_files(&crates(), &mut paths);
    paths.retain(|path| !path.ends_with("weir-units/tests/house.rs"));
    let poisoned = |path: &&PathBuf| {
        fs::read_to_string(path).expect("a source file can be read").contains("PoisonError")
    };
    assert_eq!(paths.iter().find(poisoned), None, "parking_lot's Mutex needs no PoisonError");
}

#[test]
fn commands_leave_sockets_and_proc_to_others() {
    let sources = sources();
    let of_commands = sources.iter().filter(|source| source.name.starts_with("weir/src/cmd/"));
    let found: Vec<(&str, &str)> = of_commands
        .flat_map(|source| {
            let has = move |mark: &&&str| source.lines.iter().any(|line| bare(line).contains(**mark));
            HANDS.iter().filter(has).map(move |mark| (&*source.name, *mark))
        })
        .collect();
    assert_eq!(found, HANDS_OF_COMMANDS, "a command asks the crate that has the socket or the reading");
}

/// How often a file prints that a test was skipped with no word on CI in the two lines before.
fn free_skips(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let prints = |at: usize| {
        let is_broken = at > 0 && lines[at - 1].ends_with("println!(");
        lines[at].contains("println!(\"skipped") || is_broken && lines[at].trim().starts_with("\"skipped")
    };
    let asks = |at: usize| lines[at.saturating_sub(2)..at].iter().any(|line| line.contains("\"CI\""));
    (0..lines.len()).filter(|at| prints(*at) && !asks(*at)).count()
}

#[test]
fn what_skips_fails_in_ci() {
    let mut paths = Vec::new();
    rust_files(&crates(), &mut paths);
    let (mut free, mut all) = (Vec::new(), 0);
    for path in &paths {
        let (name, text) = (name(path), fs::read_to_string(path).expect("a source file can be read"));
        let count = free_skips(&text);
        all += usize::from(text.contains("println!(\"skipped"));
        let most = SKIPS.iter().find(|(listed, _)| *listed == name).map_or(0, |(_, most)| *most);
        if count > most {
            free.push((name, count));
        }
    }
    assert!(all > 10, "found only {all} files that skip");
    assert!(free.is_empty(), "call `skip`, or say in the list why CI may do without: {free:?}");
    let silent = "{\n    println!(\"skipped: no IPv6\");\n    eprintln!(\n        \"skipped: x\"\n    );\n}";
    let asking = "assert!(var(\"CI\").is_err());\nprintln!(\"skipped: no IPv6\");";
    assert_eq!((free_skips(silent), free_skips(asking)), (2, 0));
}

/// The picture in ARCHITECTURE.md is the list of this test.
#[test]
fn the_arrows_that_are_drawn_are_those_that_hold() {
    let page = fs::read_to_string(crates().join("../ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let drawn = page.split("\n## Arrows\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let drawn = drawn.expect("a section of arrows");
    let rows = drawn.lines().filter_map(|line| line.strip_prefix("    ")?.split_once("  "));
    let mut drawn = BTreeMap::new();
    for (of, on) in rows {
        let on: BTreeSet<&str> = on.trim().split(", ").collect();
        of.split(", ").for_each(|of| assert!(drawn.insert(of, on.clone()).is_none(), "{of} twice"));
    }
    assert_eq!(drawn.remove("weir"), Some(BTreeSet::from(["all of them"])));
    // What stands on nothing, what stands on all, and what no program has.
    let apart = ["weir-units", "weir", "weir-checks"];
    let held = ARROWS.iter().filter(|(of, _)| !apart.contains(of));
    let held: BTreeMap<&str, BTreeSet<&str>> =
        held.map(|(of, on)| (of.trim_start_matches("weir-"), on.split_whitespace().collect())).collect();
    assert_eq!(drawn, held);
}

/// The kind and name of what a line declares. An associated type has the name that its trait gives it, so an
/// indented `type` is none.
fn declared(line: &str) -> Option<(&str, &str)> {
    let start = line.trim_start();
    let start = start.strip_prefix("pub").map_or(start, |rest| match rest.strip_prefix('(') {
        Some(rest) => rest.split_once(") ").map_or(rest, |(_, rest)| rest),
        None => rest.trim_start(),
    });
    let (kind, rest) = start.split_once(' ')?;
    let is_one = ["struct", "enum", "union", "trait", "const", "static"].contains(&kind)
        || kind == "type" && !line.starts_with(' ');
    let end = rest.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(rest.len());
    is_one.then_some((kind, &rest[..end]))
}

#[test]
fn names_say_whose_they_are() {
    let mut paths = Vec::new();
    rust_files(&crates(), &mut paths);
    rust_files(&crates().join("../fuzz/targets"), &mut paths);
    let (mut common, mut count) = (Vec::new(), 0);
    for path in &paths {
        let text = fs::read_to_string(path).expect("a source file can be read");
        for (kind, name) in text.lines().filter_map(|line| declared(bare(line))) {
            count += 1;
            let is_constant = ["const", "static"].contains(&kind);
            let list = if is_constant { TOO_COMMON_CONSTANTS } else { TOO_COMMON };
            if list.contains(&name) {
                common.push(format!("{kind} {name} in {}", self::name(path)));
            }
        }
    }
    assert!(count > 2000, "found only {count} declarations");
    assert!(common.is_empty(), "say whose it is, as `GetError` and `TunerState` do: {common:?}");
}
