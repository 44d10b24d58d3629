//! The user's words and the file's: which of the file's can stand beside them.
//!
//! clap alone knows which flags exclude or need each other, so it is asked, by trial.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command};
use weir_report::escape::escape;

use super::document::{Problem, Setting};

/// A command line with a place for the file's words.
pub struct Line {
    command: Command,
    /// Program and commands.
    head: Vec<OsString>,
    /// All that follows them.
    tail: Vec<OsString>,
}

/// What came of a trial.
enum Trial {
    Stands,
    /// Something is given that excludes it.
    Excluded,
    /// It means something only beside another flag, or the user's words still lack one.
    Lacks,
    /// Its value is none.
    Wrong(clap::Error),
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

    /// The whole line with as many of `settings` as can stand in it. `None` where the user's own words are the trouble.
    pub fn merge(&mut self, settings: Vec<Setting>) -> Result<Option<ArgMatches>, Problem> {
        if let Ok(matches) = self.parse(&settings) {
            return Ok(Some(matches));
        }
        let mut standing: Vec<Setting> = Vec::new();
        let mut waiting = Vec::new();
        for setting in settings {
            match self.trial(&standing, &[&setting]) {
                Trial::Stands => standing.push(setting),
                Trial::Lacks => waiting.push(setting),
                Trial::Excluded => self.give_way(&setting, &standing)?,
                Trial::Wrong(error) => return Err(refused(&setting, &error)),
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
        self.command.try_get_matches_from_mut(self.head.iter().chain(file).chain(&self.tail))
    }

    fn trial(&mut self, standing: &[Setting], more: &[&Setting]) -> Trial {
        match self.parse(standing.iter().chain(more.iter().copied())) {
            Ok(_) => Trial::Stands,
            Err(error) => match error.kind() {
                ErrorKind::ArgumentConflict => Trial::Excluded,
                ErrorKind::MissingRequiredArgument => Trial::Lacks,
                _ => Trial::Wrong(error),
            },
        }
    }

    /// The command line wins, then the nearer table. Two in one table contradict each other whatever the command line says.
    fn give_way(&mut self, setting: &Setting, standing: &[Setting]) -> Result<(), Problem> {
        if matches!(self.trial(&[], &[setting]), Trial::Excluded) {
            return Ok(());
        }
        let excludes = |other: &&Setting| matches!(self.trial(&[], &[setting, other]), Trial::Excluded);
        match standing.iter().filter(|other| other.depth == setting.depth).find(excludes) {
            None => Ok(()),
            Some(other) => Err(Problem {
                line: setting.line,
                text: format!(
                    "'{}' cannot be used with '{}' of line {}",
                    escape(&setting.name),
                    escape(&other.name),
                    other.line
                ),
            }),
        }
    }

    /// Those of `waiting` that lack nothing, beside each other or what stands: places in it, ascending. A flag that needs another is
    /// left out where that is not given; two may need each other.
    fn completed(&mut self, standing: &[Setting], waiting: &[Setting]) -> Option<Vec<usize>> {
        let mut stands = |places: &[usize]| {
            let more: Vec<&Setting> = places.iter().map(|at| &waiting[*at]).collect();
            matches!(self.trial(standing, &more), Trial::Stands)
        };
        let count = waiting.len();
        let single = (0..count).map(|at| vec![at]);
        let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |other| vec![one, other]));
        single.chain(pairs).find(|places| stands(places))
    }
}

/// Without the value itself, which may be a secret, as far as its parser does not repeat it.
fn refused(setting: &Setting, error: &clap::Error) -> Problem {
    let expected = match (std::error::Error::source(error), error.get(ContextKind::ValidValue)) {
        (Some(cause), _) => format!(": {cause}"),
        (None, Some(ContextValue::Strings(valid))) => format!(": expected one of {}", valid.join(", ")),
        _ => String::new(),
    };
    Problem { line: setting.line, text: format!("invalid value for '{}'{expected}", escape(&setting.name)) }
}
