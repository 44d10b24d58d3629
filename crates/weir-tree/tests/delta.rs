//! An old version and a recipe give the new version, whatever was changed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use proptest::collection::vec;
use proptest::prelude::*;
use weir_tree::Name;
use weir_tree::delta::{self, Op, Recipe, Signature};

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn random(seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(length).collect()
}

/// The way a copy goes, over the wire and back; the recipe, and the bytes of the signature on the wire.
fn exchange(old: &[u8], new: &[u8]) -> (Recipe, usize) {
    let name = Name::root();
    let signature = postcard::to_allocvec(&Signature::of(&file(old), &name, &|_| ()).unwrap()).unwrap();
    let received: Signature = postcard::from_bytes(&signature).unwrap();
    assert_eq!(received.size(), old.len() as u64);
    let recipe =
        postcard::to_allocvec(&delta::missing(&file(new), &name, &received, &|_| ()).unwrap()).unwrap();
    (postcard::from_bytes(&recipe).unwrap(), signature.len())
}

fn rebuild(old: &[u8], new: &[u8], recipe: &Recipe) -> Vec<u8> {
    assert!(recipe.fits(old.len() as u64));
    let (old, built) = (file(old), tempfile::tempfile().unwrap());
    let mut end = 0;
    for op in recipe.ops() {
        let (at, length) = match op {
            Op::Copy { at, from, length } => {
                let mut bytes = vec![0; length as usize];
                old.read_exact_at(&mut bytes, from).unwrap();
                built.write_all_at(&bytes, at).unwrap();
                (at, length)
            }
            Op::Literal { at, length } => {
                built.write_all_at(&new[at as usize..][..length as usize], at).unwrap();
                (at, length)
            }
        };
        assert_eq!(at, end);
        end += length;
    }
    assert_eq!(end, recipe.size());
    let mut bytes = vec![0; end as usize];
    built.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn an_insertion_at_the_front_and_scattered_changes_send_little() {
    // A tenth of the file that the issue asks for, with a tenth of its changes: 100 pieces of 10 KB in 100
    // MB.
    let old = random(7, 100_000_000);
    let mut new = [&random(8, 1000), &old[..]].concat();
    for change in 0..100 {
        let bytes = random(100 + change, 10_000);
        let at = fastrand::Rng::with_seed(change).usize(..new.len() - bytes.len());
        new[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    let (recipe, signature) = exchange(&old, &new);
    assert!(rebuild(&old, &new, &recipe) == new);
    let sent = recipe.literal() as usize + signature + postcard::to_allocvec(&recipe).unwrap().len();
    println!(
        "{} literal, {signature} of signature: {:.2} %",
        recipe.literal(),
        100.0 * sent as f64 / old.len() as f64
    );
    assert!(sent < old.len() * 3 / 100, "{sent}");
}

#[test]
fn an_equal_file_sends_nothing_and_an_empty_one_everything() {
    let bytes = random(1, 300_000);
    let (recipe, _) = exchange(&bytes, &bytes);
    assert_eq!((recipe.ops().count(), recipe.literal()), (1, 0));
    let (recipe, _) = exchange(&[], &bytes);
    assert_eq!(recipe.literal(), 300_000);
    let (recipe, _) = exchange(&bytes, &[]);
    assert_eq!((recipe.ops().count(), recipe.size()), (0, 0));
    // Nothing ever cuts zeros but the longest length.
    let zeros = vec![0; 1 << 20];
    let (recipe, _) = exchange(&zeros, &zeros);
    assert_eq!((recipe.ops().count(), recipe.literal()), (1, 0));
}

#[derive(Debug, Clone)]
struct Edit {
    at: prop::sample::Index,
    removed: usize,
    inserted: usize,
    seed: u64,
}

fn edit() -> impl Strategy<Value = Edit> {
    (any::<prop::sample::Index>(), 0..20_000usize, 0..20_000usize, any::<u64>())
        .prop_map(|(at, removed, inserted, seed)| Edit { at, removed, inserted, seed })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_edits_are_rebuilt(seed in any::<u64>(), length in 0..400_000usize, edits in vec(edit(), 0..6), repeat in any::<bool>()) {
        let mut old = random(seed, length);
        if repeat {
            old.extend_from_within(..length / 2);
        }
        let mut new = old.clone();
        for edit in &edits {
            let at = edit.at.index(new.len() + 1);
            let end = (at + edit.removed).min(new.len());
            new.splice(at..end, random(edit.seed, edit.inserted));
        }
        let (recipe, _) = exchange(&old, &new);
        prop_assert!(rebuild(&old, &new, &recipe) == new);
        // Each edit spoils what it inserts, at most two of the longest chunks, and what it takes to fall into
        // step.
        let bound: usize = edits.iter().map(|edit| edit.inserted + 6 * 16384).sum();
        prop_assert!(recipe.literal() as usize <= bound, "{} of {}", recipe.literal(), bound);
    }

    #[test]
    fn hostile_bytes_are_refused_or_keep_their_promises(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(recipe) = postcard::from_bytes::<Recipe>(&bytes) {
            let full = |op| matches!(op, Op::Copy { length, .. } | Op::Literal { length, .. } if length > 0);
            prop_assert!(recipe.ops().all(full));
            prop_assert!(recipe.literal() <= recipe.size() && recipe.size() <= i64::MAX as u64);
        }
        let _ = postcard::from_bytes::<Signature>(&bytes);
    }
}

/// A terabyte of nothing has chunks of one kind, which are read once; and they are those that the same zeros
/// have where they are written.
#[test]
fn holes_are_cut_as_zeros_are_and_not_read() {
    let name = Name::root();
    let holed = |size: u64, at: u64, bytes: &[u8]| {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        file.write_all_at(bytes, at).unwrap();
        file
    };
    let data = random(5, 300_000);
    let size = 24 << 20;
    let zeros = |at: usize| {
        let mut bytes = vec![0; size];
        bytes[at..at + data.len()].copy_from_slice(&data);
        bytes
    };
    let (old, new) = (holed(size as u64, 9_000_000, &data), holed(size as u64, 14_000_000, &data));
    let signature = Signature::of(&old, &name, &|_| ()).unwrap();
    for new in [&new, &file(&zeros(14_000_000))] {
        let recipe = delta::missing(new, &name, &signature, &|_| ()).unwrap();
        assert!(rebuild(&zeros(9_000_000), &zeros(14_000_000), &recipe) == zeros(14_000_000));
        let literal: u64 =
            recipe.ops().map(|op| if let Op::Literal { length, .. } = op { length } else { 0 }).sum();
        assert!(literal < 200_000, "{literal} bytes are to come");
    }
    let (old, new) = (holed(1 << 40, 1 << 39, &data), holed(1 << 40, (1 << 39) + 5_000_000, &data));
    let recipe = delta::missing(&new, &name, &Signature::of(&old, &name, &|_| ()).unwrap(), &|_| ()).unwrap();
    assert_eq!(recipe.size(), 1 << 40);
}
