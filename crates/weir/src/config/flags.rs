//! What the file's entries mean: names are commands' and flags', values become the words that a user would
//! have typed. Pure.

use std::cmp::Reverse;
use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};
use weir_report::escape::escape;

use super::Problem;
use super::text::Entry;
use crate::args;

/// Flags whose values are secrets.
const SECRETS: [&str; 3] = ["header", "user", "cookie"];

/// Flags whose values on the command line come after those of the file, as curl's and rsync's do. The values
/// of others that may be repeated, such as `--output`, take the place of the file's.
const ADD_UP: &str = "header cookie load-cookies resolve connect-to exclude exclude-from include include-from \
                      filter identity o";

/// The file's flags, the nearest sections first.
#[derive(Debug)]
pub struct Flags {
    entries: Vec<Entry>,
    /// One whose value is nobody else's business.
    pub secret: Option<String>,
}

/// An entry as a command takes it.
#[derive(Debug)]
pub struct Setting {
    /// As it is typed.
    pub name: String,
    /// The flag.
    pub id: String,
    /// As the user would have typed it.
    pub words: Vec<OsString>,
    /// From 1 on.
    pub line: usize,
    /// How near to the command its section is.
    pub depth: usize,
    /// The command line adds to it.
    pub adds_up: bool,
}

impl Flags {
    /// Looks whether each section and name is one of `root`'s commands and flags.
    pub fn new(mut entries: Vec<Entry>, root: &Command) -> Result<Flags, Problem> {
        let mut secret = None;
        for entry in &entries {
            let unknown = |text| Problem { line: entry.line, text };
            let command = below(root, &entry.section).map_err(unknown)?;
            if entry.name.is_empty() {
                continue;
            }
            let Some(arg) = find(command, &entry.name) else {
                return Err(unknown(unknown_name(&entry.name, command, &entry.section)));
            };
            let is_secret = name_of(arg).is_some_and(|name| SECRETS.contains(&name.as_str()));
            if entry.value.as_deref().is_some_and(|value| is_secret || holds_a_login(value)) {
                secret.get_or_insert_with(|| dashed(&entry.name));
            }
        }
        entries.sort_by_key(|entry| (Reverse(entry.section.len()), entry.line));
        Ok(Flags { entries, secret })
    }

    /// What holds for the command at `path`: of a flag that takes one value the last of the nearest.
    pub fn settings(&self, path: &[String], command: &Command) -> Result<Vec<Setting>, Problem> {
        let mut settings: Vec<Setting> = Vec::new();
        for entry in self.entries.iter().filter(|entry| path.starts_with(&entry.section)) {
            let Some(arg) = flag(command, &entry.name) else { continue };
            let (id, depth) = (arg.get_id().to_string(), entry.section.len());
            let adds_up = name_of(arg).is_some_and(|name| ADD_UP.split(' ').any(|other| other == name));
            if !adds_up && settings.iter().any(|nearer| nearer.id == id && nearer.depth > depth) {
                continue;
            }
            if !matches!(arg.get_action(), ArgAction::Append | ArgAction::Count) {
                settings.retain(|before| before.id != id);
            }
            let words = words(arg, entry).map_err(|text| Problem { line: entry.line, text })?;
            let (name, line) = (dashed(&entry.name), entry.line);
            settings.push(Setting { name, id, words, line, depth, adds_up });
        }
        Ok(settings)
    }
}

/// A command that can have entries.
pub fn has_flags(command: &Command) -> bool {
    command.get_arguments().any(|arg| name_of(arg).is_some())
}

/// The command that the words of a section name.
fn below<'a>(root: &'a Command, section: &[String]) -> Result<&'a Command, String> {
    section.iter().try_fold(root, |command, word| {
        commands(command).find(|below| below.get_name() == word).ok_or_else(|| {
            let known: Vec<&str> = commands(command).map(Command::get_name).collect();
            let known = if known.is_empty() { "no commands".to_owned() } else { known.join(", ") };
            format!("unknown section [{}]; {} has {known}", escape(&section.join(" ")), command.get_name())
        })
    })
}

fn commands(command: &Command) -> impl Iterator<Item = &Command> {
    // clap's own one comes with the first parse.
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

/// The flag of `command` or of one below it. A letter has another meaning for each command.
fn find<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    flag(command, name).or_else(|| match letter(name) {
        None => commands(command).find_map(|below| find(below, name)),
        Some(_) => None,
    })
}

/// By its long name, another of its names, or its letter.
fn flag<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let means = |arg: &&Arg| match letter(name) {
        Some(letter) => arg.get_short() == Some(letter),
        None => {
            let is_alias = || arg.get_all_aliases().is_some_and(|others| others.contains(&name));
            arg.get_long() == Some(name) || is_alias()
        }
    };
    command.get_arguments().filter(|arg| name_of(arg).is_some()).find(means)
}

fn letter(name: &str) -> Option<char> {
    let mut chars = name.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// A flag's long name, or the letter of those that have no other. What holds for weir as a whole has none
/// here.
fn name_of(arg: &Arg) -> Option<String> {
    use ArgAction::{Help, HelpLong, HelpShort, Version};
    let asks = matches!(arg.get_action(), Help | HelpShort | HelpLong | Version);
    let name = || arg.get_long().map(str::to_owned).or_else(|| arg.get_short().map(String::from));
    if asks || arg.is_global_set() { None } else { name() }
}

/// As it is typed.
fn dashed(name: &str) -> String {
    format!("{}{}", if letter(name).is_some() { "-" } else { "--" }, escape(name))
}

fn unknown_name(name: &str, command: &Command, section: &[String]) -> String {
    let (flag, of) = (dashed(name), ["weir"].into_iter().chain(section.iter().map(String::as_str)));
    let whole = of.collect::<Vec<_>>().join(" ");
    if let Some(way) = args::instead(&section.join(" "), &flag) {
        return format!("{whole} has no {flag}: {way}");
    }
    let nearest = nearest(command, &flag);
    if nearest.as_ref() == Some(&flag) {
        return format!("{flag} has a meaning on the command line alone");
    }
    let way_out = match nearest {
        _ if letter(name).is_some() && commands(command).next().is_some() => {
            "put a letter below its [COMMAND]".to_owned()
        }
        Some(nearest) => format!("the nearest is {nearest}"),
        None => format!("{whole} --help lists what there is"),
    };
    format!("unknown flag {flag} for {whole}; {way_out}")
}

fn nearest(command: &Command, flag: &str) -> Option<String> {
    args::meant(command, flag).or_else(|| commands(command).find_map(|below| nearest(below, flag)))
}

/// A URL with a user in it.
fn holds_a_login(value: &str) -> bool {
    let authority = value.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    authority.is_some_and(|authority| authority.contains('@'))
}

/// The words that say the same on the command line.
fn words(arg: &Arg, entry: &Entry) -> Result<Vec<OsString>, String> {
    let (bare, name) = (dashed(&name_of(arg).unwrap_or_default()), dashed(&entry.name));
    let is_count = matches!(arg.get_action(), ArgAction::Count);
    let takes_value = arg.get_action().takes_values();
    let is_optional = || arg.get_num_args().is_some_and(|count| count.min_values() == 0);
    let times = match &entry.value {
        // What stands after '=' is a value, whatever it begins with.
        Some(value) if takes_value => return Ok(vec![format!("{bare}={value}").into()]),
        // `-vv`, as it may be typed.
        Some(more) if is_count && more.chars().all(|letter| arg.get_short() == Some(letter)) => {
            1 + more.len()
        }
        Some(count) if is_count && count.parse::<u8>().is_ok() => count.parse().unwrap_or_default(),
        Some(_) => {
            return Err(format!("{name} takes no value; write it alone, and a comment on another line"));
        }
        None if takes_value && !is_optional() => return Err(format!("{name} needs a value: {name}=VALUE")),
        None => 1,
    };
    Ok(vec![bare.into(); times])
}
