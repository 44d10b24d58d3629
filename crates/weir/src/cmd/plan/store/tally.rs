//! What a copy with a store moves, counted: what `weir cp` chooses of the sources (`cmd/cp_store.rs`), by the
//! same rules and names, as if the target held nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_observe::stage_clock::StageClock;
use weir_store::address::StoreUrl;
use weir_store::caller::CallerSetup;
use weir_store::cost::{Direction, Requests};
use weir_store::environment::End;
use weir_store::tree::across::takes_key;
use weir_store::tree::decide::{Decision, Facts, decide};
use weir_store::tree::{Rules, key_of, name_below, takes};
use weir_store::upload::Bounds;
use weir_tree::walk::{Root, Step, Walk};
use weir_tree::{Kind, Name};
use weir_units::counted;

use crate::cmd::asked_store;
use crate::cmd::cp_store::Choice;
use crate::cmd::cp_store::between::place_across;
use crate::cmd::cp_store::meant::{Meant, folder_of, key_of_one, meant, nothing};
use crate::cmd::store_ends::{self, Kinship, StoreEnd};
use crate::voice::Usage;

/// What was counted so far.
pub struct Tally<'a> {
    /// Objects, and the requests for them.
    pub requests: Requests,
    direction: Direction,
    bounds: Bounds,
    choice: &'a Choice,
    rules: Rules,
    max_wait: Duration,
    /// Symbolic links, which no store holds.
    links: u64,
    /// Files that no key can be called as, or keys that no file can.
    unholdable: u64,
}

impl<'a> Tally<'a> {
    /// Nothing yet, of a copy that goes this way, into a store with these bounds; waits at most so long in a
    /// row when a store asks for it.
    pub fn new(direction: Direction, bounds: Bounds, choice: &'a Choice, max_wait: Duration) -> Tally<'a> {
        // What the target has is not known, so a rule that goes by it leaves nothing out.
        let rules = Rules { existing: false, ..choice.rules.clone() };
        let requests = Requests::default();
        Tally { requests, direction, bounds, choice, rules, max_wait, links: 0, unholdable: 0 }
    }

    /// One object, whatever the rules say.
    pub fn add(&mut self, size: u64) -> Result<(), Usage> {
        self.requests.add(self.direction, size, &self.bounds).map_err(|error| Usage(error.to_string()))
    }

    /// One object, if the rules take its size.
    fn add_by_size(&mut self, size: u64) -> Result<(), Usage> {
        match decide(&self.rules, &Facts { size, ..Facts::default() }, None) {
            Decision::Move => self.add(size),
            _ => Ok(()),
        }
    }

    /// What is in the folders and files `from`, until `stop` is set.
    pub fn walk(&mut self, from: &[PathBuf], to: &StoreUrl, stop: &AtomicBool) -> anyhow::Result<()> {
        let roots: Vec<Root> = from.iter().map(|path| Root::from_argument(path)).collect::<Result<_, _>>()?;
        let (only, prefix) = (key_of_one(from, to), folder_of(&to.key));
        for step in Walk::new(roots, self.choice.filter.clone(), self.choice.wanted()) {
            anyhow::ensure!(!stop.load(Relaxed), "interrupted");
            let entry = match step {
                Step::Found(entry, _) => entry,
                Step::Leave(_) => continue,
                Step::Failed(_, error) => return Err(error.into()),
            };
            match entry.kind {
                Kind::File { .. } if only.is_none() && key_of(&prefix, &entry.name).is_err() => {
                    self.unholdable += 1;
                }
                Kind::File { .. } => self.add_by_size(entry.size())?,
                Kind::Symlink { .. } => self.links += 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// What `from` names in its store, and the requests that ask for that; of a copy into another store, with
    /// what the two are to each other.
    pub fn list(
        &mut self,
        end: &StoreEnd,
        from: &StoreUrl,
        to: Option<(&StoreUrl, Kinship)>,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<()> {
        let clock = StageClock::new(Instant::now());
        let max_wait = self.max_wait;
        let caller = CallerSetup { max_wait, ..asked_store::caller(&end.http, &clock, stop) };
        let shown = from.with_key("").to_string();
        let of_source = |error: anyhow::Error| match to {
            Some(_) => store_ends::of_end(error, End::Source),
            None => error,
        };
        let named = meant(&*end.store, caller, from, &shown).map_err(of_source)?;
        if let Some((to, kinship)) = to {
            place_across((from, &named), to, kinship)?;
        }
        let Meant { chosen, glob, prefix, base, is_one, .. } = named;
        let mut listed = 0;
        std::thread::scope(|scope| -> anyhow::Result<()> {
            for page in chosen.pages(scope, caller)? {
                let page = page.map_err(|error| of_source(error.into()))?;
                for object in page.objects {
                    if glob.as_ref().is_some_and(|glob| !glob.matches(&object.key)) {
                        continue;
                    }
                    listed += 1;
                    let rest = object.key.strip_prefix(&*prefix).unwrap_or(&object.key);
                    self.object(object.size, (!is_one).then_some((rest, &base)))?;
                }
            }
            Ok(())
        })?;
        if listed == 0 && !from.key.is_empty() {
            anyhow::bail!("{}", nothing(from));
        }
        // A key may be an object or a folder of them: it is looked at before anything is listed.
        self.requests.reads += u64::from(glob.is_none() && !from.is_prefix());
        if !is_one {
            self.requests.add_list(listed);
        }
        Ok(())
    }

    /// An object: one that was named, or one of a list, by what of its key is behind the prefix and what the
    /// prefix is called at the target.
    fn object(&mut self, size: u64, of_list: Option<(&str, &Name)>) -> Result<(), Usage> {
        let Choice { filter, .. } = self.choice;
        let is_taken = match of_list {
            None => true,
            Some((rest, _)) if self.direction != Direction::Down => takes_key(filter, rest),
            // What stands for a folder is made here, not fetched.
            Some((rest, _)) if size == 0 && (rest.is_empty() || rest.ends_with('/')) => false,
            Some((rest, base)) => match name_below(base, rest) {
                Ok(name) if !name.is_root() => takes(filter, &name, false),
                _ => {
                    self.unholdable += 1;
                    false
                }
            },
        };
        if is_taken { self.add_by_size(size) } else { Ok(()) }
    }

    /// What of the sources is in none of the figures.
    pub fn notes(&self) -> Vec<String> {
        let links = counted(self.links, "symbolic link");
        let (what, other) = if self.direction == Direction::Down { ("key", "file") } else { ("file", "key") };
        let unholdable = counted(self.unholdable, what);
        let notes = [
            (self.links, format!("{links} not counted: a store holds none; -L copies what they lead to")),
            (
                self.unholdable,
                format!("{unholdable} not counted: no {other} can be called so; weir cp -n names them"),
            ),
        ];
        notes.into_iter().filter(|(count, _)| *count > 0).map(|(_, note)| note).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::cmd::cp_store;
    use clap::Parser;

    const BOUNDS: Bounds = Bounds {
        parts: 10_000,
        least_part: 5 << 20,
        most_part: 5 << 30,
        most_single: 5 << 30,
        most: 5 << 40,
    };

    #[test]
    fn a_walk_hears_that_it_is_to_end() {
        let plan = match Cli::try_parse_from(["weir", "plan", "tree/", "s3://b/"]).unwrap().command {
            Command::Plan(plan) => plan,
            other => panic!("{other:?}"),
        };
        let choice = cp_store::choice(&plan.what, 1).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "abc").unwrap();
        let (from, to) = ([folder.path().join("")], StoreUrl::parse("s3://b/").unwrap().unwrap());
        let walked = |stop: bool| {
            let mut tally = Tally::new(Direction::Up, BOUNDS, &choice, plan.max_wait);
            let ended = tally.walk(&from, &to, &AtomicBool::new(stop));
            (ended.is_ok(), tally.requests.objects)
        };
        assert_eq!(walked(false), (true, 1));
        assert_eq!(walked(true), (false, 0));
    }
}
