//! What stands in the configuration file, by the names of commands and flags. Pure.
//!
//! Tables are commands, `[bench.net]` or `["bench net"]`; names are long flags. What stands above a command's own table holds for
//! every command below it that has such a flag, and gives way to what stands nearer.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};
use weir_report::escape::escape;

/// Flags whose values are secrets.
const SECRETS: [&str; 2] = ["header", "user"];

/// What is wrong, and where.
#[derive(Debug)]
pub struct Problem {
    /// From 1 on.
    pub line: usize,
    /// In words.
    pub text: String,
}

/// The file's entries, nearest tables first.
#[derive(Debug)]
pub struct Document {
    entries: Vec<Entry>,
}

/// `NAME = VALUE` in a table.
#[derive(Debug)]
struct Entry {
    table: Vec<String>,
    name: String,
    value: Value,
    line: usize,
}

/// What a flag can make something of.
#[derive(Debug)]
enum Value {
    Switch(bool),
    One(String),
    Many(Vec<String>),
    Other,
}

/// An entry as a command takes it.
#[derive(Debug, Clone)]
pub struct Setting {
    /// As it stands in the file.
    pub name: String,
    /// The flag.
    pub id: String,
    /// As the user would have typed it.
    pub words: Vec<OsString>,
    /// From 1 on.
    pub line: usize,
    /// How near to the command its table is.
    pub depth: usize,
}

/// A command that can have entries.
pub fn has_flags(command: &Command) -> bool {
    command.get_arguments().any(|arg| name_of(arg).is_some())
}

impl Document {
    /// Reads `text`, and looks whether each table and name is one of `root`'s commands and flags.
    pub fn parse(text: &str, root: &Command) -> Result<Document, Problem> {
        let line_at =
            |offset: usize| 1 + text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count();
        let table = DeTable::parse(text).map_err(|error| Problem {
            line: line_at(error.span().map_or(0, |span| span.start)),
            text: error.message().trim_end().replace('\n', "; "),
        })?;
        let mut entries = Vec::new();
        Walk { line_at: &line_at, entries: &mut entries }.table(table.get_ref(), root, &[])?;
        entries.sort_by_key(|entry| (std::cmp::Reverse(entry.table.len()), entry.line));
        Ok(Document { entries })
    }

    /// What holds for the command at `path`, each flag once.
    pub fn settings(&self, path: &[String], command: &Command) -> Result<Vec<Setting>, Problem> {
        let mut settings: Vec<Setting> = Vec::new();
        for entry in self.entries.iter().filter(|entry| path.starts_with(&entry.table)) {
            let Some(arg) = flag(command, &entry.name) else { continue };
            if settings.iter().any(|nearer| nearer.id == arg.get_id().as_str()) {
                continue;
            }
            let wrong = |text| Problem {
                line: entry.line,
                text: format!("'{}' of weir {} {text}", escape(&entry.name), path.join(" ")),
            };
            settings.push(Setting {
                name: entry.name.clone(),
                id: arg.get_id().to_string(),
                words: words(arg, &entry.value).map_err(wrong)?,
                line: entry.line,
                depth: entry.table.len(),
            });
        }
        Ok(settings)
    }

    /// A name whose value is nobody else's business.
    pub fn secret(&self) -> Option<&str> {
        let secret = |entry: &&Entry| SECRETS.contains(&entry.name.as_str()) || entry.value.holds_a_login();
        self.entries.iter().find(secret).map(|entry| entry.name.as_str())
    }
}

/// A walk through tables and commands side by side.
struct Walk<'a> {
    line_at: &'a dyn Fn(usize) -> usize,
    entries: &'a mut Vec<Entry>,
}

impl Walk<'_> {
    fn table(&mut self, table: &DeTable<'_>, command: &Command, path: &[String]) -> Result<(), Problem> {
        for (key, value) in table.iter() {
            let line = (self.line_at)(key.span().start);
            let name: &str = key.get_ref();
            if let DeValue::Table(below) = value.get_ref() {
                let unknown = || Problem { line, text: unknown_table(name, command, path) };
                let inner = descend(command, name).ok_or_else(unknown)?;
                let path: Vec<String> =
                    path.iter().cloned().chain(name.split_whitespace().map(str::to_owned)).collect();
                self.table(below, inner, &path)?;
            } else if knows(command, name) {
                let (table, name) = (path.to_vec(), name.to_owned());
                self.entries.push(Entry { table, name, value: Value::of(value), line });
            } else {
                return Err(Problem { line, text: unknown_name(name, command, path) });
            }
        }
        Ok(())
    }
}

/// The command below `command` that a table's name means: one word, or several.
fn descend<'a>(command: &'a Command, name: &str) -> Option<&'a Command> {
    let mut words = name.split_whitespace().peekable();
    words.peek()?;
    words.try_fold(command, |command, word| commands(command).find(|below| below.get_name() == word))
}

fn commands(command: &Command) -> impl Iterator<Item = &Command> {
    // clap's own one comes with the first parse.
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

/// It, or a command below it, has the flag.
fn knows(command: &Command, name: &str) -> bool {
    flag(command, name).is_some() || commands(command).any(|below| knows(below, name))
}

fn flag<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let means = |arg: &&Arg| match name_of(arg) {
        Some(own) => own == name || arg.get_visible_aliases().is_some_and(|others| others.contains(&name)),
        None => false,
    };
    command.get_arguments().find(means)
}

/// A flag's name in the file: its long one, or the letter of those that have no other. What is hidden, and what holds for weir as a
/// whole, has none.
fn name_of(arg: &Arg) -> Option<String> {
    let asks = matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    );
    if asks || arg.is_hide_set() || arg.is_global_set() {
        return None;
    }
    arg.get_long().map(str::to_owned).or_else(|| arg.get_short().map(String::from))
}

fn unknown_name(name: &str, command: &Command, path: &[String]) -> String {
    let (name, whole) = (escape(name), whole(path));
    let mut known: Vec<String> = command.get_arguments().filter_map(name_of).collect();
    known.sort();
    match known.is_empty() {
        true if commands(command).next().is_none() => {
            format!("unknown name '{name}' for {whole}: it has no flags")
        }
        true => format!("unknown name '{name}' for {whole}: none of its commands has a flag --{name}"),
        false => {
            // A letter that stands for a name in the file is the name's.
            let has_letter = |arg: &&Arg| arg.get_short().is_some_and(|letter| name == letter.to_string());
            let meant = command.get_arguments().find(has_letter).and_then(name_of);
            let nearest = meant.unwrap_or_else(|| nearest(&name, known));
            format!("unknown name '{name}' for {whole}; the nearest that it knows are {nearest}")
        }
    }
}

/// The three names that look most like `name`: of all, which are more than a line holds, `--help` tells.
fn nearest(name: &str, mut known: Vec<String>) -> String {
    let likeness = |other: &String| strsim::jaro_winkler(name, other);
    known.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
    known.truncate(3);
    known.join(", ")
}

fn unknown_table(name: &str, command: &Command, path: &[String]) -> String {
    let (name, whole) = (escape(name), whole(path));
    let known: Vec<&str> = commands(command).map(Command::get_name).collect();
    match known.is_empty() {
        true => format!("unknown table '{name}': {whole} has no commands of its own"),
        false => format!("unknown table '{name}'; {whole} has {}", known.join(", ")),
    }
}

fn whole(path: &[String]) -> String {
    std::iter::once("weir").chain(path.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
}

impl Value {
    fn of(value: &Spanned<DeValue<'_>>) -> Value {
        match value.get_ref() {
            DeValue::Boolean(on) => Value::Switch(*on),
            DeValue::Array(items) => Value::list(items),
            other => Value::text(other).map_or(Value::Other, Value::One),
        }
    }

    fn list(items: &DeArray<'_>) -> Value {
        let items: Option<Vec<String>> = items.iter().map(|item| Value::text(item.get_ref())).collect();
        items.map_or(Value::Other, Value::Many)
    }

    /// As it would be typed.
    fn text(value: &DeValue<'_>) -> Option<String> {
        match value {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
            }
            DeValue::Float(number) => Some(number.as_str().to_owned()),
            _ => None,
        }
    }

    /// A URL with a user in it.
    fn holds_a_login(&self) -> bool {
        let login = |text: &String| {
            let authority = text.split_once("://").and_then(|(_, rest)| rest.split('/').next());
            authority.is_some_and(|authority| authority.contains('@'))
        };
        match self {
            Value::One(text) => login(text),
            Value::Many(texts) => texts.iter().any(login),
            Value::Switch(_) | Value::Other => false,
        }
    }
}

/// The words that say the same on the command line.
fn words(arg: &Arg, value: &Value) -> Result<Vec<OsString>, &'static str> {
    let bare = match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, short) => format!("-{}", short.unwrap_or_default()),
    };
    let times = |count: usize| vec![OsString::from(&bare); count];
    // What stands after '=' is a value, whatever it begins with.
    let with = |value: &String| OsString::from(format!("{bare}={value}"));
    let is_optional = || arg.get_num_args().is_some_and(|count| count.min_values() == 0);
    match (arg.get_action(), value) {
        (ArgAction::SetTrue | ArgAction::Count, Value::Switch(on)) => Ok(times((*on).into())),
        (ArgAction::SetTrue, _) => Err("is true or false"),
        (ArgAction::Count, Value::One(count)) if count.parse::<u8>().is_ok() => {
            Ok(times(count.parse::<u8>().unwrap_or_default().into()))
        }
        (ArgAction::Count, _) => Err("is true, false or a number up to 255"),
        (_, Value::Switch(on)) if is_optional() => Ok(times((*on).into())),
        (_, Value::One(value)) => Ok(vec![with(value)]),
        (ArgAction::Append, Value::Many(values)) => Ok(values.iter().map(with).collect()),
        (ArgAction::Append, _) => Err("is a text, a number or a list of them"),
        _ => Err("is a text or a number"),
    }
}
