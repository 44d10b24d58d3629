//! Copying a tree the plain way, and what a tree looks like.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use weir_tree::{Entry, Filter, Kind, Source, Step, Target, Walk, destination, source, walk};

/// Says why a test did not test. In CI that is a failure: there the machine has to be able to.
pub(crate) fn skip(why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "skipped in CI: {why}");
    println!("skipped: {why}");
}

/// Everything that is looked at and kept.
pub(crate) fn all() -> (walk::Wanted, destination::Options) {
    let wanted = walk::Wanted { xattrs: true, hard_links: true, ..walk::Wanted::default() };
    (
        wanted,
        destination::Options {
            keep: weir_tree::compare::Keep::ALL,
            create: true,
            sync: false,
            keep_dirlinks: false,
            named_groups: false,
            anew: false,
        },
    )
}

/// Copies all that is in `from`; what went wrong comes back in words.
pub(crate) fn copy(from: &Path, to: &Path) -> Vec<String> {
    let (wanted, options) = all();
    let target = Target::open(to, options).unwrap();
    let mut wrong = Vec::new();
    for step in Walk::new(vec![walk::Root::content_of(from)], Filter::default(), wanted) {
        if let Err(error) = take(&target, step) {
            wrong.push(error.to_string());
        }
    }
    wrong.extend(target.words().iter().map(|word| format!("{word:?}")));
    wrong
}

/// Does with a step what a copy does.
pub(crate) fn take(target: &Target, step: Step) -> Result<(), Box<dyn std::error::Error>> {
    match step {
        Step::Failed(_, error) => return Err(error.into()),
        Step::Leave(directory) => target.finish_directory(&directory)?,
        Step::Found(entry, source) => match &entry.kind {
            Kind::Directory => target.directory(&entry.name)?,
            Kind::Symlink { .. } => target.symlink(&entry)?,
            Kind::HardLink { .. } => target.hard_link(&entry)?,
            Kind::Special(_) => {}
            Kind::File { sparse: true, .. } => pieces(target, &entry, &source)?,
            Kind::File { size, .. } if size % 3 == 0 => pieces(target, &entry, &source)?,
            Kind::File { .. } => {
                let mut content = Vec::new();
                source.open(&entry)?.read_to_end(&mut content)?;
                target.small(&entry, &content)?;
            }
        },
    }
    Ok(())
}

fn pieces(target: &Target, entry: &Entry, from: &Source) -> Result<(), weir_tree::TreeError> {
    let file = from.open(entry)?;
    let pending = target.create(entry)?;
    for range in source::data(&file, entry) {
        let range = range?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        file.read_exact_at(&mut bytes, range.start).unwrap();
        pending.write_at(range.start, &bytes)?;
    }
    assert!(source::unchanged(&file, entry)?);
    pending.finish(entry)
}

/// All that is to be equal of every entry, by name: type and mode, owner, time, links, content, attributes.
pub(crate) fn picture(root: &Path) -> BTreeMap<Vec<u8>, String> {
    let mut picture = BTreeMap::new();
    let mut inodes = HashMap::new();
    look(root, root, &mut picture, &mut inodes);
    picture
}

fn look(
    root: &Path,
    path: &Path,
    picture: &mut BTreeMap<Vec<u8>, String>,
    inodes: &mut HashMap<u64, Vec<u8>>,
) {
    let stat = fs::symlink_metadata(path).unwrap();
    let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
    let mut words =
        format!("{:o} {}:{} {}.{:09}", stat.mode(), stat.uid(), stat.gid(), stat.mtime(), stat.mtime_nsec());
    words.push_str(&content(path, &stat));
    words.push_str(&format!(" {:?}", attributes(path)));
    if !stat.is_dir() && stat.nlink() > 1 {
        let first = inodes.entry(stat.ino()).or_insert_with(|| name.clone());
        words.push_str(&format!(" = {:?}", String::from_utf8_lossy(first)));
    }
    picture.insert(name, words);
    if stat.is_dir() {
        let mut inside: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        inside.sort_unstable();
        inside.iter().for_each(|path| look(root, path, picture, inodes));
    }
}

fn content(path: &Path, stat: &Metadata) -> String {
    if stat.is_symlink() {
        return format!(" -> {:?}", fs::read_link(path).unwrap());
    }
    if !stat.is_file() {
        return String::new();
    }
    format!(" {} {}", stat.len(), blake3::hash(&fs::read(path).unwrap()))
}

/// As root all of them but the kernel's own views, otherwise those of users.
fn attributes(path: &Path) -> Vec<(String, String)> {
    let mut list = vec![0; 1 << 16];
    let Ok(length) = rustix::fs::llistxattr(path, &mut list[..]) else { return Vec::new() };
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut found: Vec<_> = names
        .filter(|name| !name.starts_with(b"system."))
        .map(|name| {
            let mut value = vec![0; 1 << 16];
            let length = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
            let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
            (text(name), text(&value[..length]))
        })
        .collect();
    found.sort_unstable();
    found
}
