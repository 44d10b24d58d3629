//! The configuration file: flags in front of those of the command line.
//!
//! An entry becomes words in front of the user's own, and both are parsed by the one definition of the
//! command line; so a flag has its name in the file from the day it exists, with the same values and the same
//! complaints. See docs/config.md.

mod file;
mod flags;
mod old;
mod text;
mod trial;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::args::{self, Cli};
use crate::voice::{self, Usage};
use file::ConfigFile;
use flags::{Flags, Setting};
use trial::Line;

/// Variables of the environment that say the same as a flag: they stand above the file, as they stand below
/// the flag.
const VARIABLES: [(&str, &[&str]); 2] = [
    ("--proxy", &["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
    ("--cacert", &["SSL_CERT_FILE"]),
];

/// What is wrong, and where.
#[derive(Debug)]
struct Problem {
    /// From 1 on.
    line: usize,
    /// In words.
    text: String,
}

/// The command line, with the file's entries beneath it. Ends the program where clap would: for help, and for
/// words that it refuses.
pub fn command_line(words: Vec<OsString>) -> anyhow::Result<Cli> {
    let mut command = Cli::command();
    let plain = command.try_get_matches_from_mut(&words);
    let given = match &plain {
        Ok(matches) => Some(matches.clone()),
        // The file may hold what is missing.
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => as_far_as_given(&words),
        Err(_) => None,
    };
    let mut matches =
        match given.map(|given| with_file(command, words.clone(), &given)).transpose()?.flatten() {
            Some(matches) => matches,
            None => plain.or_else(|error| refused(error, &words))?,
        };
    Cli::from_arg_matches_mut(&mut matches)
        .map_err(|error| voice::end_with(&error.format(&mut Cli::command())))
}

/// The command line of a program that has weir as a library: no file beneath it, and what is refused is an
/// error in the words that would be printed.
pub fn command_alone(words: &[OsString]) -> anyhow::Result<Cli> {
    let refused = |error: clap::Error| match error.use_stderr() {
        true => Usage(first_words(&error)),
        false => Usage("help and the version are for the command line, as in weir get --help".to_owned()),
    };
    let mut matches = match Cli::command().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => return Err(refused(mended(error, words)?).into()),
    };
    Ok(Cli::from_arg_matches_mut(&mut matches).map_err(refused)?)
}

/// What clap says is wrong, without what it says of the whole command.
fn first_words(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let end = ["\n\nUsage:", "\n\nFor more information"].iter().filter_map(|mark| text.find(mark)).min();
    text[..end.unwrap_or(text.len())].trim_end().to_owned()
}

/// Ends the program as clap would, unless there is something better to say.
fn refused(error: clap::Error, words: &[OsString]) -> anyhow::Result<ArgMatches> {
    voice::end_with(&mended(error, words)?)
}

/// What clap says, in better words where there are some; an error, where there is something else to say.
fn mended(mut error: clap::Error, words: &[OsString]) -> Result<clap::Error, Usage> {
    let path = as_far_as_given(words).map(|given| innermost(&given).0).unwrap_or_default();
    // `weir help bench nte`: the commands that there are stand behind the word.
    let of_help = words.get(1).is_some_and(|word| word == "help");
    let above = if of_help { named(&words[2..]) } else { path.clone() };
    let of_command = || args::answer_command(&above, &error);
    if let Some(answer) = args::answer(&path.join(" "), &error).or_else(of_command) {
        return Err(Usage(answer));
    }
    args::mend(&path, &mut error);
    args::mend_command(&above, &mut error);
    Ok(error)
}

/// The words that lead to a command, up to the first that does not.
fn named(words: &[OsString]) -> Vec<String> {
    let whole = Cli::command();
    let mut above = &whole;
    let mut path = Vec::new();
    for word in words.iter().filter_map(|word| word.to_str()) {
        let Some(below) = above.find_subcommand(word) else { break };
        path.push(word.to_owned());
        above = below;
    }
    path
}

/// What can be told of a command line that lacks something.
fn as_far_as_given(words: &[OsString]) -> Option<ArgMatches> {
    Cli::command().ignore_errors(true).try_get_matches_from(words).ok()
}

/// `None` where the file has nothing to say.
fn with_file(
    command: clap::Command,
    words: Vec<OsString>,
    given: &ArgMatches,
) -> anyhow::Result<Option<ArgMatches>> {
    let (path, own) = innermost(given);
    let leaf = path.iter().try_fold(&command, |command, word| command.find_subcommand(word));
    // What weir starts by itself is told everything on its command line.
    let Some(leaf) = leaf.filter(|leaf| !leaf.is_hide_set() && flags::has_flags(leaf)) else {
        return Ok(None);
    };
    if is_given(given, "no_config") {
        return Ok(None);
    }
    let Some(file) = file::find(|name| std::env::var_os(name))? else { return Ok(None) };
    let wrong = |problem: Problem| complaint(&file, problem);
    let entries = if file.is_old() { old::parse(&file.text) } else { text::parse(&file.text) };
    let flags = entries.and_then(|entries| Flags::new(entries, &command)).map_err(wrong)?;
    let mut settings = flags.settings(&path, leaf).map_err(wrong)?;
    // In the old form a list of the command line takes the place of the file's.
    let stays = |setting: &Setting| setting.adds_up && !file.is_old() || !is_given(own, &setting.id);
    settings.retain(|setting| stays(setting) && !is_in_environment(setting) && !is_opposed(setting, own));
    if settings.is_empty() {
        tell(&file, &flags, own);
        return Ok(None);
    }
    let merged = Line::new(command, words, &path).and_then(|mut line| line.merge(settings).transpose());
    let merged = merged.transpose().map_err(wrong)?;
    tell(&file, &flags, merged.as_ref().map_or(own, |merged| innermost(merged).1));
    Ok(merged)
}

/// The names of the command and of those below it, and what belongs to the last of them.
fn innermost(matches: &ArgMatches) -> (Vec<String>, &ArgMatches) {
    let (mut path, mut inner) = (Vec::new(), matches);
    while let Some((name, below)) = inner.subcommand() {
        path.push(name.to_owned());
        inner = below;
    }
    (path, inner)
}

fn is_given(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// `-q` and `-v` set one thing, but clap takes both: that of the command line counts.
fn is_opposed(setting: &Setting, own: &ArgMatches) -> bool {
    let opposed: &[&str] = match setting.id.as_str() {
        "quiet" | "silent" => &["verbose"],
        "verbose" => &["quiet", "silent"],
        _ => &[],
    };
    opposed.iter().any(|id| own.try_contains_id(id).is_ok_and(|is_here| is_here && is_given(own, id)))
}

fn is_in_environment(setting: &Setting) -> bool {
    let variables =
        VARIABLES.iter().find(|(flag, _)| *flag == setting.name).map_or(&[][..], |(_, names)| names);
    variables.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

fn complaint(file: &ConfigFile, problem: Problem) -> anyhow::Error {
    Usage(format!("{}, line {}: {}", file.shown(), problem.line, problem.text)).into()
}

/// What is to be said of the file itself. A password that others can read is no longer one.
fn tell(file: &ConfigFile, flags: &Flags, own: &ArgMatches) {
    if ["quiet", "silent"].iter().any(|id| matches!(own.try_get_one::<bool>(id), Ok(Some(true)))) {
        return;
    }
    let shown = file.shown();
    if let Some(secret) = flags.secret.as_ref().filter(|_| file.others_can_read()) {
        voice::warn(&format!("{shown} holds {secret} and can be read by others: chmod 600 {shown}"));
    }
    if file.is_old() {
        let new = shown.trim_end_matches(".toml");
        voice::warn(&format!(
            "note: {shown} has the old form, which is still read; write its flags into {new}, one a line"
        ));
    }
}
