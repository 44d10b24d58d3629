//! The rules that hold in one folder: those of files in it and, where they are handed down, in the folders
//! around it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::rule::{Against, Merge, Reading, Rule, What};
use super::{Asked, BadRule, Filter};
use crate::entry::Name;

/// Rules of a folder, in the place of the rules that stand for files of such.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    lists: Vec<(u32, Arc<List>)>,
    next_id: u32,
    /// A source that is called otherwise where it goes: rules know it by its own name.
    renamed: Option<Renamed>,
    /// The path of the tree from the system's root, without the first slash: for rules of whole paths.
    path: Arc<[u8]>,
}

/// What a source is called in the tree, and what by the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Renamed {
    /// In the tree.
    pub(crate) name: Name,
    /// Its own name.
    pub(crate) own: Name,
}

/// What one file holds, and the same of the folders above.
#[derive(Debug)]
struct List {
    base: Base,
    rules: Vec<Rule>,
    above: Option<Arc<List>>,
}

/// The folder that anchored patterns of a file begin at.
#[derive(Debug, Clone)]
enum Base {
    /// In the tree.
    Within(Name),
    /// Around it: the way from there to the tree's root, with a slash at its end, or nothing.
    Around(Box<[u8]>),
}

impl Base {
    /// What it is called from here.
    fn relative<'a>(&self, asked: &Asked<'a>) -> Option<Cow<'a, [u8]>> {
        let name = asked.name;
        match self {
            Base::Within(base) if base.is_root() => Some(name.into()),
            Base::Within(base) => Some(name.strip_prefix(base.as_bytes())?.strip_prefix(b"/")?.into()),
            Base::Around(way) => Some([&way[..], asked.called].concat().into()),
        }
    }
}

/// Reads a folder's own file of this name: `None` where there is none.
pub type ReadRules<'a> = &'a mut dyn FnMut(&[u8]) -> Result<Option<Vec<u8>>, String>;

impl Scope {
    /// What holds before any folder is gone into: no rules of folders. `tree`: where names begin.
    pub(crate) fn of(tree: &Path, renamed: Option<Renamed>) -> Scope {
        let path = whole(tree);
        let below = path.as_os_str().as_bytes().strip_prefix(b"/").unwrap_or_default();
        Scope { renamed, path: below.into(), ..Scope::default() }
    }

    /// What rules call `name`.
    pub(super) fn called<'a>(&self, name: &'a Name) -> Cow<'a, [u8]> {
        let own = self.renamed.as_ref().and_then(|renamed| {
            let rest = name.as_bytes().strip_prefix(renamed.name.as_bytes())?;
            name.is_within(&renamed.name).then(|| [renamed.own.as_bytes(), rest].concat())
        });
        own.map_or_else(|| name.as_bytes().into(), Cow::from)
    }

    /// What holds in `folder`, which is in a folder where this scope holds. What cannot be read or understood
    /// is an error: what it leaves out is not known then.
    pub fn enter(&self, filter: &Filter, folder: &Name, read: ReadRules<'_>) -> Result<Scope, BadRule> {
        self.with(filter, &Base::Within(folder.clone()), |_| true, read)
    }

    /// What holds around a tree, of rules that count from further up (`dir-merge /NAME`): of one folder
    /// there, at the absolute path `at`, from which `way` leads to the tree's root.
    pub fn around(
        &self,
        filter: &Filter,
        at: &[u8],
        way: &[u8],
        read: ReadRules<'_>,
    ) -> Result<Scope, BadRule> {
        let from_here_on = |merge: &Merge| merge.parents.as_deref().is_some_and(|from| begins(at, from));
        self.with(filter, &Base::Around(way.into()), from_here_on, read)
    }

    fn with(
        &self,
        filter: &Filter,
        base: &Base,
        wanted: impl Fn(&Merge) -> bool,
        read: ReadRules<'_>,
    ) -> Result<Scope, BadRule> {
        let mut scope = Scope { next_id: self.next_id.max(filter.next_id), ..self.clone() };
        let mut todo: VecDeque<Merge> = self.merges(filter).filter(|merge| wanted(merge)).collect();
        while let Some(merge) = todo.pop_front() {
            if !merge.inherit {
                scope.lists.retain(|(id, _)| *id != merge.id);
            }
            let failed = |why| BadRule::File { path: crate::name::quoted(&merge.file), why };
            let Some(content) = read(&merge.file).map_err(failed)? else { continue };
            let above = scope.list(merge.id).cloned();
            // A file that is merged into this one is looked for beside it.
            let mut beside = |file: &[u8]| {
                if file.contains(&b'/') {
                    return Err("a file that is merged there is named without folders".to_owned());
                }
                read(file)?.ok_or_else(|| "there is none in this folder".to_owned())
            };
            let mut reading = Reading::new(filter.read_as(), &mut scope.next_id, &mut beside);
            reading.file(&content, merge.form, false).map_err(|error| error.within(&merge.file))?;
            let (rules, cleared) = (reading.rules, reading.cleared);
            todo.extend(merges_in(&rules).cloned());
            let list = List { base: base.clone(), rules, above: above.filter(|_| !cleared) };
            scope.lists.retain(|(id, _)| *id != merge.id);
            scope.lists.push((merge.id, Arc::new(list)));
        }
        Ok(scope)
    }

    /// Rules that stand for files: of the whole set, and of the files that hold here.
    fn merges<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = Merge> + 'a {
        let lists = self
            .lists
            .iter()
            .flat_map(|(_, list)| std::iter::successors(Some(list), |list| list.above.as_ref()));
        merges_in(&filter.rules).chain(lists.flat_map(|list| merges_in(&list.rules))).cloned()
    }

    /// Where `called` is, from the system's root.
    fn path_of(&self, called: &[u8]) -> Vec<u8> {
        let slash = if self.path.is_empty() { &b""[..] } else { b"/" };
        [&self.path, slash, called].concat()
    }

    fn list(&self, id: u32) -> Option<&Arc<List>> {
        self.lists.iter().find(|(own, _)| *own == id).map(|(_, list)| list)
    }

    /// Whether the first of `rules` that matches takes what is asked about; `None` where none does.
    /// `relative`: what it is called from where the rules are, if that is around it.
    pub(super) fn decide(&self, rules: &[Rule], asked: &Asked<'_>, relative: Option<&[u8]>) -> Option<bool> {
        rules.iter().find_map(|rule| match &rule.what {
            _ if !rule.is_asked(asked.side) => None,
            What::Match { against, .. } if (*against == Against::Xattr) != asked.is_xattr => None,
            What::Match { take, negated, against, pattern } => {
                let name = match against {
                    Against::Path => Some(self.path_of(asked.called).into()),
                    _ if pattern.is_anchored() => relative.map(Cow::Borrowed),
                    _ => Some(asked.called.into()),
                };
                let matches = name.is_some_and(|name| pattern.matches(&name, asked.is_directory));
                (matches != *negated).then_some(*take)
            }
            What::Merge(merge) => {
                let lists = std::iter::successors(self.list(merge.id), |list| list.above.as_ref());
                lists.into_iter().find_map(|list| {
                    let relative = list.base.relative(asked);
                    self.decide(&list.rules, asked, relative.as_deref())
                })
            }
        })
    }
}

fn merges_in(rules: &[Rule]) -> impl Iterator<Item = &Merge> {
    rules.iter().filter_map(|rule| match &rule.what {
        What::Merge(merge) => Some(merge),
        What::Match { .. } => None,
    })
}

/// A path from the system's root, without `..`: as it is written, not by where links lead, as rsync has its
/// own (clean_fname in its util1.c).
pub(crate) fn whole(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut whole = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => whole.push(name),
            Component::ParentDir => drop(whole.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    whole
}

/// Whether `path` is `from`, which ends with a slash, or below it.
fn begins(path: &[u8], from: &[u8]) -> bool {
    let from = from.strip_suffix(b"/").unwrap_or(from);
    path.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::Side;
    use super::*;

    fn scope(filter: &Filter, files: &[(&str, &str)], folder: &str) -> Scope {
        let files: HashMap<&str, &str> = files.iter().copied().collect();
        let mut scope = Scope::default();
        let folders = folder.match_indices('/').map(|(at, _)| &folder[..at]).chain([folder]);
        for at in std::iter::once("").chain(folders.filter(|at| !at.is_empty())) {
            let mut read = |file: &[u8]| {
                let slash = if at.is_empty() { "" } else { "/" };
                let path = format!("{at}{slash}{}", String::from_utf8_lossy(file));
                Ok(files.get(path.as_str()).map(|text| text.as_bytes().to_vec()))
            };
            scope = scope.enter(filter, &at.parse().unwrap(), &mut read).unwrap();
        }
        scope
    }

    fn filter(rules: &[&str]) -> Filter {
        let mut filter = Filter::default();
        for rule in rules {
            filter.rule(rule.as_bytes(), &mut |file| Err(format!("{file:?}"))).unwrap();
        }
        filter
    }

    #[test]
    fn rules_of_folders() {
        let filter = filter(&["+ keep.x", ": .f", "- *.z"]);
        // `/top` without a sign is no rule.
        assert!(scope_fails(&filter, "/top\n"));
        let files = [(".f", "- *.x\n- /top\n"), ("a/.f", "+ own.x\n- /here\n"), ("b/.f", "!\n")];
        let asked = |folder: &str, name: &str| {
            let scope = scope(&filter, &files[..], folder);
            filter.decides(&scope, &name.parse().unwrap(), false, Side::Sender)
        };
        for (folder, name, taken) in [
            ("", "q.x", false),
            ("", "keep.x", true),
            ("", "top", false),
            ("", "q.z", false),
            ("a", "a/q.x", false),
            ("a", "a/own.x", true),
            ("a", "a/here", false),
            ("a", "a/top", true),
            ("a/c", "a/c/here", true),
            ("a/c", "a/c/own.x", true),
            ("b", "b/q.x", true),
            ("b", "b/q.z", false),
        ] {
            assert_eq!(asked(folder, name), taken, "{folder}: {name}");
        }
    }

    fn scope_fails(filter: &Filter, text: &str) -> bool {
        let mut read = |_: &[u8]| Ok(Some(text.as_bytes().to_vec()));
        Scope::default().enter(filter, &Name::root(), &mut read).is_err()
    }
}
