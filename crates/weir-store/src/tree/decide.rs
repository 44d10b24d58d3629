//! Whether an entry is to be moved: a pure decision by what is known of both sides, or what has to be asked
//! first.

use std::time::{Duration, SystemTime};

/// What is moved, and over what: as `weir cp` has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// The same size is the same (`--size-only`).
    pub size_only: bool,
    /// The content decides (`--checksum`).
    pub checksum: bool,
    /// Times so far apart are one (`--modify-window`).
    pub window: Duration,
    /// Nothing that the target has is written over (`--ignore-existing`).
    pub ignore_existing: bool,
    /// Nothing that the target lacks is made (`--existing`).
    pub existing: bool,
    /// What the target has decides nothing: all is moved (`--force`).
    pub anew: bool,
    /// Bytes (`--max-size`).
    pub max_size: Option<u64>,
    /// Bytes (`--min-size`).
    pub min_size: Option<u64>,
}

/// What is known of one side of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Bytes.
    pub size: u64,
    /// The time of its content: a file's, or the one that was written down with an object.
    pub mtime: Mtime,
    /// When the store took it; `None` for a file.
    pub stored: Option<SystemTime>,
    /// An object's entity tag.
    pub etag: Option<String>,
}

/// The time of a content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mtime {
    /// Of an object it has to be asked for.
    #[default]
    NotAsked,
    /// Nobody wrote it down.
    Unknown,
    /// This.
    Known(SystemTime),
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Move it.
    Move,
    /// Both are the same.
    Same,
    /// The rules leave it out.
    Leave,
    /// Ask for the time of the object, and decide then.
    AskTime,
    /// Compare the contents, and decide then.
    AskContent,
}

/// The decision for an entry of which the source is `from` and the target `to`, if it has it.
///
/// 1. What is too large or too small, there, or not there is left out, if the rules say so; and they may say
///    that nothing is there.
/// 2. Another size is another content.
/// 3. With `--size-only` the same size is the same, with `--checksum` the content decides.
/// 4. Two objects of the same tag are the same.
/// 5. The same time is the same, to what the coarser of both can tell.
/// 6. Where no time was written down, a file that has the store's time of its object, or an object that was
///    stored after its source was written, is the same. It can be wrong where an older file took the place of
///    a newer one of the same size meanwhile; what weir stores has its time.
pub fn decide(rules: &Rules, from: &Facts, to: Option<&Facts>) -> Decision {
    let to = to.filter(|_| !rules.anew);
    let is_out = rules.max_size.is_some_and(|most| from.size > most)
        || rules.min_size.is_some_and(|least| from.size < least)
        || to.is_some() && rules.ignore_existing
        || to.is_none() && rules.existing;
    let Some(to) = to.filter(|_| !is_out) else {
        return if is_out { Decision::Leave } else { Decision::Move };
    };
    if from.size != to.size {
        return Decision::Move;
    }
    let has_same_tag = || from.etag.is_some() && from.etag == to.etag;
    match (rules.size_only, rules.checksum) {
        (true, _) => return Decision::Same,
        (_, true) if has_same_tag() => return Decision::Same,
        (_, true) => return Decision::AskContent,
        _ if has_same_tag() => return Decision::Same,
        _ => {}
    }
    let same = |is_same| if is_same { Decision::Same } else { Decision::Move };
    match (from.mtime, to.mtime) {
        // 6, for two objects and what is asked for by nobody.
        _ if from.stored.is_some() && to.stored.is_some() => same(from.stored <= to.stored),
        (Mtime::NotAsked, Mtime::Known(own)) if is_near(rules, from.stored, Some(own)) => Decision::Same,
        (Mtime::NotAsked, _) | (_, Mtime::NotAsked) => Decision::AskTime,
        (Mtime::Known(from), Mtime::Known(to)) => same(is_near(rules, Some(from), Some(to))),
        (Mtime::Unknown, Mtime::Known(file)) => same(is_near(rules, from.stored, Some(file))),
        (Mtime::Known(file), Mtime::Unknown) => same(to.stored.is_some_and(|stored| stored >= file)),
        (Mtime::Unknown, Mtime::Unknown) => Decision::Move,
    }
}

/// The same time: a time of whole seconds, as other programs and some file systems keep it, tells no more.
fn is_near(rules: &Rules, one: Option<SystemTime>, other: Option<SystemTime>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    let apart = one.duration_since(other).unwrap_or_else(|error| error.duration());
    let (one, other) = (weir_units::instant::since_epoch(one), weir_units::instant::since_epoch(other));
    let is_coarse = one.1 == 0 || other.1 == 0;
    apart <= rules.window || is_coarse && one.0 == other.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, nanoseconds: u32) -> SystemTime {
        weir_units::instant::at(seconds, nanoseconds).unwrap()
    }

    fn file(size: u64, time: SystemTime) -> Facts {
        Facts { size, mtime: Mtime::Known(time), ..Facts::default() }
    }

    fn object(size: u64, mtime: Mtime, stored: SystemTime) -> Facts {
        Facts { size, mtime, stored: Some(stored), etag: Some("\"x\"".to_owned()) }
    }

    #[test]
    fn size_and_time_decide() {
        let rules = Rules::default();
        let (own, late) = (at(100, 5), at(200, 0));
        for (from, to, expected) in [
            (file(1, own), None, Decision::Move),
            (file(1, own), Some(object(2, Mtime::NotAsked, late)), Decision::Move),
            (file(1, own), Some(object(1, Mtime::NotAsked, late)), Decision::AskTime),
            (file(1, own), Some(object(1, Mtime::Known(own), late)), Decision::Same),
            (file(1, own), Some(object(1, Mtime::Known(at(100, 0)), late)), Decision::Same),
            (file(1, own), Some(object(1, Mtime::Known(at(100, 6)), late)), Decision::Move),
            // It was stored after the file was written.
            (file(1, own), Some(object(1, Mtime::Unknown, late)), Decision::Same),
            (file(1, at(300, 0)), Some(object(1, Mtime::Unknown, late)), Decision::Move),
            (object(1, Mtime::NotAsked, late), Some(file(1, at(200, 0))), Decision::Same),
            (object(1, Mtime::NotAsked, late), Some(file(1, own)), Decision::AskTime),
            (object(1, Mtime::Known(own), late), Some(file(1, own)), Decision::Same),
            (object(1, Mtime::Unknown, late), Some(file(1, own)), Decision::Move),
            (object(1, Mtime::Unknown, late), Some(file(1, late)), Decision::Same),
            (object(1, Mtime::NotAsked, late), Some(object(1, Mtime::NotAsked, own)), Decision::Same),
        ] {
            assert_eq!(decide(&rules, &from, to.as_ref()), expected, "{from:?} {to:?}");
        }
    }

    #[test]
    fn rules_decide_first() {
        let (from, to) = (file(5, at(1, 0)), object(5, Mtime::NotAsked, at(2, 0)));
        let with = |change: fn(&mut Rules)| {
            let mut rules = Rules::default();
            change(&mut rules);
            (decide(&rules, &from, Some(&to)), decide(&rules, &from, None))
        };
        assert_eq!(with(|rules| rules.size_only = true), (Decision::Same, Decision::Move));
        assert_eq!(with(|rules| rules.checksum = true), (Decision::AskContent, Decision::Move));
        assert_eq!(with(|rules| rules.ignore_existing = true), (Decision::Leave, Decision::Move));
        assert_eq!(with(|rules| rules.existing = true), (Decision::AskTime, Decision::Leave));
        assert_eq!(with(|rules| rules.max_size = Some(4)), (Decision::Leave, Decision::Leave));
        assert_eq!(with(|rules| rules.min_size = Some(6)), (Decision::Leave, Decision::Leave));
    }

    #[test]
    fn two_objects_of_other_tags_by_when_they_were_stored() {
        let (old, new) = (at(1, 0), at(2, 0));
        let tagged =
            |tag: &str, stored| Facts { etag: Some(tag.to_owned()), ..object(1, Mtime::NotAsked, stored) };
        let decided = |from, to| decide(&Rules::default(), &from, Some(&to));
        assert_eq!(decided(tagged("a", new), tagged("b", old)), Decision::Move);
        assert_eq!(decided(tagged("a", old), tagged("b", new)), Decision::Same);
        assert_eq!(decided(tagged("a", new), tagged("a", old)), Decision::Same);
    }
}
