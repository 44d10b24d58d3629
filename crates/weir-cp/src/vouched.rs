//! The source's digests, as this machine gave them out: the hosts of a chain are held to them, so that none
//! of them can pass on another file than the one that was sent to it.

use std::collections::HashMap;

use parking_lot::Mutex;
use weir_tree::Name;

use crate::subtrees::Digest;

/// A file, whatever its source is called on a host: the source's place on the command line, and the path
/// below it.
pub type SourceName = (usize, Box<[u8]>);

/// Digests of files that travel in blocks, by name.
#[derive(Debug, Default)]
pub struct Vouched {
    digests: Mutex<HashMap<SourceName, Digest>>,
}

impl Vouched {
    /// All of a file was sent from here.
    pub(crate) fn note(&self, name: SourceName, digest: Digest) {
        self.digests.lock().insert(name, digest);
    }

    /// Whether it may be this: not where something else was sent from here.
    pub(crate) fn may_be(&self, name: &SourceName, digest: &Digest) -> bool {
        self.digests.lock().get(name).is_none_or(|due| due == digest)
    }
}

/// What a file is, where the sources have these names; `None` for one of no source.
pub(crate) fn name_of(sources: &[Name], name: &Name) -> Option<SourceName> {
    let within = sources.iter().enumerate().filter(|(_, source)| name.is_within(source));
    // Of sources one of which is in another's folder the longer name is meant.
    let (index, source) = within.max_by_key(|(_, source)| source.as_bytes().len())?;
    let rest = name.as_bytes().strip_prefix(source.as_bytes())?;
    Some((index, rest.strip_prefix(b"/").unwrap_or(rest).into()))
}

/// What it is called where the sources have other names.
pub(crate) fn named(sources: &[Name], (index, rest): &SourceName) -> Option<Name> {
    let source = sources.get(*index)?;
    let joined = match (source.as_bytes(), &rest[..]) {
        (b"", rest) => rest.to_vec(),
        (source, b"") => source.to_vec(),
        (source, rest) => [source, b"/", rest].concat(),
    };
    if joined.is_empty() { Some(Name::root()) } else { Name::new(joined).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> Vec<Name> {
        let name =
            |text: &&str| if text.is_empty() { Name::root() } else { Name::new(text.as_bytes()).unwrap() };
        texts.iter().map(name).collect()
    }

    #[test]
    fn a_file_is_the_same_whatever_its_source_is_called() {
        for (here, name, there, other) in [
            (&["a"][..], "a/x", &["b"][..], "b/x"),
            (&["a"], "a", &["b"], "b"),
            (&[""], "x/y", &[""], "x/y"),
            (&["a"], "a/x", &[""], "x"),
            (&[""], "x", &["b"], "b/x"),
            (&["a", "a/b"], "a/b/c", &["n", "m"], "m/c"),
        ] {
            let found = name_of(&names(here), &names(&[name])[0]).unwrap();
            assert_eq!(named(&names(there), &found), Some(names(&[other])[0].clone()), "{name}");
        }
        assert_eq!(name_of(&names(&["a"]), &names(&["b"])[0]), None);
    }

    #[test]
    fn what_was_sent_is_vouched_for() {
        let vouched = Vouched::default();
        let file: SourceName = (0, b"x"[..].into());
        assert!(vouched.may_be(&file, &[1; 32]), "nothing is known of it");
        vouched.note(file.clone(), [1; 32]);
        assert!(vouched.may_be(&file, &[1; 32]) && !vouched.may_be(&file, &[2; 32]));
    }
}
