//! What the guide and the READMEs say can be typed: each command line in them is read by the binary, each
//! link leads somewhere, each chapter is in the table of contents and each limit in the glossary.
//!
//! A command line is cut before its `--`, given `--help` and started. The parser reads from left to right, so
//! a command, a flag or a value that it does not take ends it with an error before it comes to `--help`,
//! which ends it too: nothing is ever done. What that cannot see: flags that exclude each other, and ab's
//! behind `--ab`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::str::Chars;

use weir_model::limit::Limit;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A page in Markdown.
struct Page {
    path: PathBuf,
    text: String,
}

impl Page {
    fn read(path: PathBuf) -> Page {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Page { path, text }
    }

    fn name(&self) -> String {
        self.path.strip_prefix(root()).unwrap_or(&self.path).display().to_string()
    }

    /// Lines inside fences, block by block, but for those that say they are no commands.
    fn blocks(&self) -> Vec<Vec<&str>> {
        let mut blocks = Vec::new();
        let mut lines = self.text.lines();
        while let Some(line) = lines.next() {
            let Some(language) = line.trim_start().strip_prefix("```") else { continue };
            let block: Vec<&str> =
                lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).collect();
            if matches!(language, "" | "sh" | "console") {
                blocks.push(block);
            }
        }
        blocks
    }

    /// Lines outside fences.
    fn prose(&self) -> Vec<&str> {
        let mut fenced = false;
        let outside = |line: &&str| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            !fenced && !fence
        };
        self.text.lines().filter(outside).collect()
    }

    /// What stands between backticks.
    fn spans(&self) -> Vec<String> {
        let prose = self.prose().join(" ");
        prose.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    /// Where its links lead, those to other sites left out.
    fn links(&self) -> Vec<&str> {
        let targets = self.prose().into_iter().flat_map(|line| line.split("](").skip(1));
        let targets = targets.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
        targets.filter(|target| !target.contains("://")).collect()
    }

    /// The anchors of its headings, as mdBook makes them.
    fn anchors(&self) -> BTreeSet<String> {
        let headings = self.prose().into_iter().filter(|line| line.starts_with('#'));
        headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
    }

    /// Everything in fences that a shell would be given.
    fn command_lines(&self) -> Vec<String> {
        self.blocks().into_iter().flat_map(|block| typed(&block)).collect()
    }
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Where a block has prompts the lines behind them, since the others are what was answered; else all. A `\`
/// joins lines.
fn typed(block: &[&str]) -> Vec<String> {
    let prompts = block.iter().any(|line| line.trim_start().starts_with("$ "));
    let mut typed = Vec::new();
    let mut lines = block.iter().map(|line| line.trim_start());
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix("$ ").or((!prompts).then_some(line)) else { continue };
        let mut whole = first.to_owned();
        while let Some(cut) = whole.strip_suffix('\\') {
            whole = format!("{cut}{}", lines.next().unwrap_or_default());
        }
        typed.push(whole);
    }
    typed
}

/// The chapters and the table of contents.
fn guide() -> Vec<Page> {
    let folder = root().join("docs/guide/src");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut chapters: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    chapters.sort();
    assert!(chapters.len() > 10, "{chapters:?}");
    chapters.into_iter().map(Page::read).collect()
}

fn readmes() -> Vec<Page> {
    ["README.md", "README.zh-CN.md"].map(|name| Page::read(root().join(name))).into()
}

/// The calls of weir in a line of shell: behind `sudo` and variables, in pipes, behind weir's own `--`, in
/// the text of `sh -c`.
fn calls(line: &str) -> Vec<Vec<String>> {
    simple_commands(line).into_iter().flat_map(|words| calls_of(&words)).collect()
}

fn calls_of(words: &[String]) -> Vec<Vec<String>> {
    let is_prefix = |word: &String| word == "sudo" || (word.contains('=') && !word.starts_with('-'));
    let words: Vec<String> = words.iter().skip_while(|word| is_prefix(word)).cloned().collect();
    match words.first().map(String::as_str) {
        Some("sh") if words.get(1).is_some_and(|flag| flag == "-c") => calls(words.get(2).unwrap()),
        Some("weir") => {
            let end = words.iter().position(|word| word == "--" || word == "--ab").unwrap_or(words.len());
            let mut found = vec![words[1..end].to_vec()];
            if words.get(end).is_some_and(|word| word == "--") {
                found.extend(calls_of(&words[end + 1..]));
            }
            found
        }
        _ => Vec::new(),
    }
}

/// The words of each command of a line. As a shell reads it, but that two spaces begin a remark (so the
/// README sets them apart).
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut rest = line.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            ' ' if rest.peek().is_none_or(|c| *c == ' ') => break,
            ' ' => {}
            '#' => break,
            '|' | ';' | '&' => commands.push(Vec::new()),
            '<' | '>' => {
                while rest.next_if(|c| " &>".contains(*c)).is_some() {}
                let first = rest.next().unwrap_or(' ');
                word(first, &mut rest);
            }
            // A redirection's number is no word of the command.
            '0'..='9' if rest.peek().is_some_and(|c| "<>".contains(*c)) => {}
            first => {
                let word = word(first, &mut rest);
                commands.last_mut().unwrap().push(word);
            }
        }
    }
    commands
}

/// The word that begins with `first`.
fn word(first: char, rest: &mut Peekable<Chars<'_>>) -> String {
    let mut word = String::new();
    let mut next = Some(first);
    while let Some(c) = next {
        match c {
            '\'' | '"' => word.extend(rest.by_ref().take_while(|inside| *inside != c)),
            c => word.push(c),
        }
        next = rest.next_if(|c| !" |;&<>".contains(*c));
    }
    word
}

fn weir(words: &[String]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(words).arg("--help").output().unwrap()
}

/// What the binary has against it.
fn objection(words: &[String]) -> Option<String> {
    let output = weir(words);
    (!output.status.success())
        .then(|| String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("").to_owned())
}

/// Panics with all that is wrong at once.
#[track_caller]
fn none(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn objections(page: &Page, lines: &[String]) -> Vec<String> {
    let calls = lines.iter().flat_map(|line| calls(line).into_iter().map(move |call| (line, call)));
    calls
        .filter_map(|(line, call)| Some(format!("{}: {line}\n    {}", page.name(), objection(&call)?)))
        .collect()
}

#[test]
fn every_command_line_is_one_that_weir_takes() {
    let mut wrong = Vec::new();
    for page in guide().iter().chain(&readmes()) {
        wrong.extend(objections(page, &page.command_lines()));
    }
    none(&wrong);
}

#[test]
fn commands_and_flags_in_the_guides_prose_exist() {
    let flags = all_flags(&[]);
    let mut wrong = Vec::new();
    for page in guide().iter().chain(&readmes()[1..]) {
        let spans = page.spans();
        let (commands, others): (Vec<String>, Vec<String>) =
            spans.into_iter().partition(|span| span.starts_with("weir "));
        wrong.extend(objections(page, &commands));
        let alone = others.iter().filter_map(|span| span.split([' ', '=']).next());
        let unknown = alone.filter(|word| word.starts_with('-') && !flags.contains(*word));
        wrong.extend(unknown.map(|flag| format!("{}: no command has a flag {flag}", page.name())));
    }
    none(&wrong);
}

/// The flags in the help of a command and of those below it.
fn all_flags(path: &[String]) -> BTreeSet<String> {
    let help = String::from_utf8(weir(path).stdout).unwrap();
    let words = help.split(|c: char| c.is_whitespace() || ",=[]()'".contains(c));
    let mut flags: BTreeSet<String> = words.filter(|word| word.starts_with('-')).map(str::to_owned).collect();
    for name in below(&help) {
        flags.extend(all_flags(&[path, &[name]].concat()));
    }
    flags
}

/// The commands that a help lists.
pub(super) fn below(help: &str) -> Vec<String> {
    let below = help.split_once("Commands:\n").map_or("", |(_, below)| below.split("\n\n").next().unwrap());
    let names = below.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut wrong = Vec::new();
    for page in guide().iter().chain(&readmes()) {
        for link in page.links() {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.path.clone(),
                file => page.path.parent().unwrap().join(file),
            };
            let missing =
                !target.exists() || (!anchor.is_empty() && !Page::read(target).anchors().contains(anchor));
            wrong.extend(missing.then(|| format!("{}: {link}", page.name())));
        }
    }
    none(&wrong);
}

#[test]
fn the_table_of_contents_has_every_chapter_once() {
    let (summary, chapters): (Vec<Page>, Vec<Page>) =
        guide().into_iter().partition(|page| page.path.ends_with("SUMMARY.md"));
    let mut listed: Vec<String> = summary[0].links().into_iter().map(str::to_owned).collect();
    listed.sort();
    let there: Vec<String> =
        chapters.iter().map(|page| page.path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(listed, there);
}

#[test]
fn the_glossary_and_the_chinese_readme_have_every_limit() {
    let pages: Vec<Page> = guide().into_iter().chain(readmes()).collect();
    let page = |name: &str| pages.iter().find(|page| page.path.ends_with(name)).unwrap();
    let (glossary, readme) = (page("limits.md").anchors(), &page("README.zh-CN.md").text);
    for limit in Limit::ALL {
        assert!(glossary.contains(limit.name()), "limits.md has no heading {limit}");
        assert!(readme.contains(&format!("\n| `{limit}` |")), "README.zh-CN.md has no row {limit}");
    }
}

#[test]
fn calls_are_found_wherever_they_stand() {
    let found = |line| calls(line).into_iter().map(|call| call.join(" ")).collect::<Vec<_>>();
    assert_eq!(
        found("sudo weir lab shell --rate 1Mbit -- sh -c 'weir get $URL/1M -o x'"),
        ["lab shell --rate 1Mbit", "get $URL/1M -o x"]
    );
    assert_eq!(
        found("weir why --json --pid 7 2>log | weir report - -o a.html"),
        ["why --json --pid 7", "report - -o a.html"]
    );
    assert_eq!(found("KEY=x weir get URL >file; weir cp a b    what --is said"), ["get URL", "cp a b"]);
    assert_eq!(found("curl -o x URL"), Vec::<String>::new());
    assert_eq!(typed(&["$ weir get \\", "  URL", "received 1 B"]), ["weir get URL"]);
    for line in
        ["weir get --no-such URL", "weir bench https URL", "weir lab shell --rate fast", "weir get -y URL"]
    {
        assert!(objection(&calls(line)[0]).is_some(), "{line}");
    }
}
