//! Which modules of a crate stand on which: none may stand, over however many others, on one that stands on
//! it. A module is a file or a folder at the top of `src`; what the files in a folder do among each other is
//! the folder's own affair, and tests may reach anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::{bare, crates, rust_files};

/// Knots that still stand, by crate, with the modules in each. The list may only shrink: one that is
/// gone, or has lost a module, is taken out here too.
const KNOTS: &[(&str, &str)] =
    &[("weir-get", "engine lane"), ("weir-get", "http object version"), ("weir-get", "journal sink")];

/// By module the modules that it names, each with a place where it does.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// The text without comments and without what only tests see.
fn seen(text: &str) -> String {
    let mut seen = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !line.trim_start().starts_with("#[cfg(test)]") {
            seen.push_str(bare(line));
            seen.push('\n');
            continue;
        }
        // Up to the item's end: rustfmt puts a closing bracket as far to the right as the item begins.
        let margin = line.len() - line.trim_start().len();
        let is_head = |line: &&str| line.trim_start().starts_with("#[");
        let first = lines.find(|line| !is_head(line)).unwrap_or_default();
        if !first.ends_with([';', '}', ',']) {
            let closes =
                |line: &str| line.get(margin..).is_some_and(|rest| rest.starts_with(['}', ')', ']']));
            lines.find(|line| closes(line));
        }
    }
    seen
}

/// Follows the path at the beginning of `text` into all its branches, and returns what is behind it.
fn branches<'a>(mut text: &'a str, mut path: Vec<&'a str>, found: &mut Vec<Vec<&'a str>>) -> &'a str {
    loop {
        text = text.trim_start();
        if let Some(mut inside) = text.strip_prefix('{') {
            loop {
                // What is left of a branch is `as` and a name.
                let rest =
                    branches(inside, path.clone(), found).trim_start_matches(|char| !",}".contains(char));
                match rest.strip_prefix(',') {
                    Some(next) => inside = next,
                    None => return rest.strip_prefix('}').unwrap_or(rest),
                }
            }
        }
        let (word, rest) = text.split_at(text.find(|char| !is_word(char)).unwrap_or(text.len()));
        path.extend(Some(word).filter(|word| !word.is_empty()));
        match rest.strip_prefix("::").filter(|_| !word.is_empty()) {
            Some(next) => text = next,
            None => {
                found.push(path);
                return rest;
            }
        }
    }
}

/// All paths in a text that begin with `crate`, `super` or `self`.
fn paths(text: &str) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(start) {
            let inside = text[..at].ends_with(|char| is_word(char) || char == ':' || char == '$');
            if !inside {
                branches(&text[at..], Vec::new(), &mut found);
            }
        }
    }
    found
}

/// The modules from the top of the crate down to a file of `src`.
fn place(file: &str) -> Vec<&str> {
    let mut place: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    if matches!(place.last(), Some(&("mod" | "lib" | "main"))) {
        place.pop();
    }
    place
}

/// A path as it is from the top of the crate.
fn from_top<'a>(path: &[&'a str], place: &[&'a str]) -> Vec<&'a str> {
    let mut whole = if path.first() == Some(&"crate") { Vec::new() } else { place.to_vec() };
    for word in path {
        match *word {
            "crate" | "self" => {}
            "super" => drop(whole.pop()),
            word => whole.push(word),
        }
    }
    whole
}

/// Of a crate's files, each with its path in `src` and its text.
fn graph(files: &[(String, String)]) -> Graph {
    let texts: Vec<(Vec<&str>, &str, String)> =
        files.iter().map(|(file, text)| (place(file), &**file, seen(text))).collect();
    let modules: BTreeSet<&str> = texts.iter().filter_map(|(place, ..)| place.first().copied()).collect();
    // What the crate's root hands on under a shorter name.
    let mut handed_on = BTreeMap::new();
    for (_, _, text) in texts.iter().filter(|(place, ..)| place.is_empty()) {
        for line in text.split("use ").skip(1) {
            let mut found = Vec::new();
            branches(line, Vec::new(), &mut found);
            let found = found.iter().map(|path| from_top(path, &[]));
            let inner = found.filter(|path| path.len() > 1 && modules.contains(path[0]));
            handed_on.extend(inner.filter_map(|path| Some((path.last()?.to_string(), path[0].to_owned()))));
        }
    }
    let mut graph = Graph::new();
    for (place, file, text) in texts.iter().filter(|(place, ..)| !place.is_empty()) {
        for path in paths(text) {
            let whole = from_top(&path, place);
            let Some(first) = whole.first() else { continue };
            let module = modules.get(first).copied().or(handed_on.get(*first).map(String::as_str));
            if let Some(module) = module.filter(|module| *module != place[0]) {
                let on = graph.entry(place[0].to_owned()).or_default();
                on.entry(module.to_owned()).or_insert_with(|| format!("{file}: {}", whole.join("::")));
            }
        }
    }
    graph
}

/// Everything that a module stands on, over others too.
fn beneath(graph: &Graph, module: &str) -> BTreeSet<String> {
    let (mut found, mut open) = (BTreeSet::new(), vec![module.to_owned()]);
    while let Some(next) = open.pop() {
        let on = graph.get(&next).into_iter().flat_map(BTreeMap::keys);
        open.extend(on.filter(|on| found.insert((*on).clone())).cloned());
    }
    found
}

/// Modules that stand on themselves, together with those that they do it over.
fn knots(graph: &Graph) -> BTreeSet<BTreeSet<String>> {
    let beneath: BTreeMap<&String, _> = graph.keys().map(|of| (of, beneath(graph, of))).collect();
    let both = |one: &String, other: &String| beneath[one].contains(other) && beneath[other].contains(one);
    let knot = |of: &&String| graph.keys().filter(|other| both(of, other)).cloned().collect::<BTreeSet<_>>();
    beneath.keys().map(knot).filter(|knot| !knot.is_empty()).collect()
}

/// The arrows within a knot, for whoever is to untie it.
fn arrows(graph: &Graph, knot: &BTreeSet<String>) -> String {
    let of = graph.iter().filter(|(of, _)| knot.contains(*of));
    let arrows = of.flat_map(|(of, on)| on.iter().map(move |(on, place)| (of, on, place)));
    let inside = arrows.filter(|(_, on, _)| knot.contains(*on));
    inside.map(|(of, on, place)| format!("\n    {of} -> {on}   {place}")).collect()
}

#[test]
fn modules_stand_on_each_other_one_way() {
    let (mut found, mut told, mut arrow_count) = (BTreeSet::new(), String::new(), 0);
    for folder in fs::read_dir(crates()).expect("crates/ can be read").flatten() {
        let (name, src) = (folder.file_name().to_string_lossy().into_owned(), folder.path().join("src"));
        let mut paths = Vec::new();
        rust_files(&src, &mut paths);
        paths.retain(|path| !path.ends_with("tests.rs"));
        let in_src =
            |path: &std::path::PathBuf| path.strip_prefix(&src).unwrap_or(path).display().to_string();
        let read = |path| fs::read_to_string(path).expect("a source file can be read");
        let files: Vec<_> = paths.iter().map(|path| (in_src(path), read(path))).collect();
        let graph = graph(&files);
        arrow_count += graph.values().map(BTreeMap::len).sum::<usize>();
        for knot in knots(&graph) {
            let modules = knot.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
            if !KNOTS.contains(&(&*name, &*modules)) {
                told += &format!("\n{name}, {} modules: {modules}{}", knot.len(), arrows(&graph, &knot));
            }
            found.insert((name.clone(), modules));
        }
    }
    assert!(arrow_count > 500, "found only {arrow_count} arrows between modules");
    assert!(told.is_empty(), "modules that stand on each other; move what both need below them:{told}");
    let is_gone = |(of, modules): &&(&str, &str)| !found.contains(&((*of).to_owned(), (*modules).to_owned()));
    let gone: Vec<_> = KNOTS.iter().filter(is_gone).collect();
    assert!(gone.is_empty(), "these knots are untied, or smaller: take them out of the list: {gone:?}");
}

#[test]
fn a_knot_is_found_however_its_modules_are_named() {
    let knots_of = |files: &[(&str, &str)]| {
        let files: Vec<_> =
            files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
        let knots = knots(&graph(&files));
        knots.iter().map(|knot| knot.iter().cloned().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let upwards = [
        "use crate::top::Top;",
        "use crate::{\n    other::{self, Other},\n    top as high,\n};",
        "fn f() {\n    let a = crate::top::f::<u8>();\n}",
        "use super::super::top;",
        "use crate::Top;",
        "pub(crate) use crate::{other, top::*};",
    ];
    for up in upwards {
        let files = |up| [("lib.rs", "pub use self::top::Top;"), ("low/mod.rs", ""), ("low/deep.rs", up)];
        let with = |up, top| knots_of(&[&files(up)[..], &[("top.rs", top), ("other.rs", "")]].concat());
        assert_eq!(with(up, "use crate::low::deep;"), ["low top"], "{up}");
        assert_eq!(with(up, "mod own {}"), [""; 0], "{up}: an arrow one way is none");
        let test = format!("#[cfg(test)]\nmod tests {{\n    {}\n}}", up.replace('\n', "\n    "));
        assert_eq!(with(&test, "use crate::low::deep;"), [""; 0], "{up}: of a test");
        assert_eq!(
            with(&format!("// {}", up.replace('\n', " ")), "use crate::low;"),
            [""; 0],
            "{up}: a comment"
        );
    }
    let round = [
        ("a.rs", "use crate::b;"),
        ("b.rs", "use crate::c;"),
        ("c.rs", "use crate::a;"),
        ("d.rs", "use crate::a;"),
    ];
    assert_eq!(knots_of(&round), ["a b c"]);
    assert_eq!(
        knots_of(&[("a/mod.rs", "use self::b::B;"), ("a/b.rs", "use super::A;\nuse crate::a;")]),
        [""; 0]
    );
}
