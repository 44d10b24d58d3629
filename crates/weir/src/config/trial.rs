//! The user's words and the file's: which of the file's can stand beside them.
//!
//! clap and the command ([`Command::contradicts`]) alone know which flags exclude or need each other, so they
//! are asked, by trial.
//!
//! [`Command::contradicts`]: crate::args::Command::contradicts

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, FromArgMatches};

use super::Problem;
use super::flags::Setting;
use crate::args::Cli;

/// A command line with a place for the file's words.
pub struct Line {
    command: Command,
    /// Program and commands.
    head: Vec<OsString>,
    /// All that follows them.
    tail: Vec<OsString>,
}

impl Line {
    /// The user's `words`, which lead to the command at `path`.
    pub fn new(command: Command, words: Vec<OsString>, path: &[String]) -> Option<Line> {
        let mut head = words;
        let mut at = 0;
        for name in path {
            at += 1 + head.iter().skip(at + 1).position(|word| word == name.as_str())?;
        }
        let tail = head.split_off(at + 1);
        Some(Line { command, head, tail })
    }

    /// The whole line with as many of `settings`, nearest first, as can stand in it. `None` where the user's
    /// own words are the trouble.
    pub fn merge(&mut self, settings: Vec<Setting>) -> Result<Option<ArgMatches>, Problem> {
        let (mut standing, mut waiting) = (Vec::new(), Vec::new());
        for setting in settings {
            match self.parse(standing.iter().chain([&setting])).map_err(|error| (error.kind(), error)) {
                Ok(_) => standing.push(setting),
                // It means something only beside another flag, or the user's words still lack one.
                Err((ErrorKind::MissingRequiredArgument, _)) => waiting.push(setting),
                Err((ErrorKind::ArgumentConflict, _)) => self.give_way(&setting, &standing)?,
                Err((_, error)) => return Err(refused(&setting, &error)),
            }
        }
        while let Some(found) = self.completed(&standing, &waiting) {
            standing.extend(found.into_iter().rev().map(|at| waiting.remove(at)));
        }
        Ok(self.parse(&standing).ok())
    }

    fn parse<'a>(
        &mut self,
        settings: impl IntoIterator<Item = &'a Setting>,
    ) -> Result<ArgMatches, clap::Error> {
        let file = settings.into_iter().flat_map(|setting| &setting.words);
        let words = self.head.iter().chain(file).chain(&self.tail);
        let matches = self.command.try_get_matches_from_mut(words)?;
        match Cli::from_arg_matches(&matches)?.command.contradicts() {
            Some(why) => Err(self.command.error(ErrorKind::ArgumentConflict, why)),
            None => Ok(matches),
        }
    }

    fn excludes(&mut self, settings: &[&Setting]) -> bool {
        let parsed = self.parse(settings.iter().copied());
        parsed.is_err_and(|error| error.kind() == ErrorKind::ArgumentConflict)
    }

    /// The command line wins, then the nearer section. Two in one section contradict each other whatever the
    /// command line says.
    fn give_way(&mut self, setting: &Setting, standing: &[Setting]) -> Result<(), Problem> {
        let beside = standing.iter().filter(|other| other.depth == setting.depth);
        let mut beside =
            beside.filter(|other| !self.excludes(&[setting]) && self.excludes(&[setting, other]));
        beside.next().map_or(Ok(()), |other| {
            let (one, two, line) = (&setting.name, &other.name, other.line);
            let text = format!("{one} cannot be used with {two} of line {line}; remove one of them");
            Err(Problem { line: setting.line, text })
        })
    }

    /// Those of `waiting` that lack nothing, beside each other or what stands: places in it, ascending. A
    /// flag that needs another is left out where that is not given; two may need each other.
    fn completed(&mut self, standing: &[Setting], waiting: &[Setting]) -> Option<Vec<usize>> {
        let count = waiting.len();
        let single = (0..count).map(|at| vec![at]);
        let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |other| vec![one, other]));
        single.chain(pairs).find(|places| {
            let more = places.iter().map(|at| &waiting[*at]);
            self.parse(standing.iter().chain(more)).is_ok()
        })
    }
}

/// Without the value itself, which may be a secret, as far as its parser does not repeat it.
fn refused(setting: &Setting, error: &clap::Error) -> Problem {
    let expected = match (std::error::Error::source(error), error.get(ContextKind::ValidValue)) {
        (Some(cause), _) => format!(": {cause}"),
        (None, Some(ContextValue::Strings(valid))) => format!(": expected one of {}", valid.join(", ")),
        _ => String::new(),
    };
    let has_mark = |word: &OsString| word.to_string_lossy().contains(" #");
    let comment = if setting.words.iter().any(has_mark) { "; write a comment on another line" } else { "" };
    Problem { line: setting.line, text: format!("invalid value for {}{expected}{comment}", setting.name) }
}
