//! Sources and target: what is copied, where to, and what it is called there.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use weir_tree::Name;
use weir_tree::target::{self, Keep, Target};
use weir_tree::walk::{Identity, Root as WalkRoot};

use crate::wire::message::{Failure, FailureKind, Options, Root};

/// A path as it was written on a command line: `~/` is the user's home, as scp has it.
pub fn expand(path: &[u8]) -> PathBuf {
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    let rest = if path == b"~" { Some(&b""[..]) } else { path.strip_prefix(b"~/") };
    match rest.and_then(|rest| Some(home()?.join(OsStr::from_bytes(rest)))) {
        Some(path) => path,
        None if path.is_empty() => PathBuf::from("."),
        None => PathBuf::from(OsStr::from_bytes(path)),
    }
}

/// What a source is called where it is copied to: its last component, or the root where its content is meant.
pub fn name_of(path: &[u8]) -> Result<Name, Failure> {
    let path = expand(path);
    let root = WalkRoot::from_argument(&path).map_err(Failure::local)?;
    Ok(root.name)
}

/// The sources as this machine has them.
pub fn look(paths: &[Vec<u8>]) -> Result<(Vec<WalkRoot>, Vec<Root>), Failure> {
    let mut walks = Vec::new();
    let mut roots = Vec::new();
    for path in paths {
        let path = expand(path);
        let failed = |error: std::io::Error| {
            let why = weir_transfer::error::reason(&error);
            Failure::local(format_args!("cannot read {}: {why}", path.display()))
        };
        let there = fs::metadata(&path).map_err(failed)?;
        let walk = WalkRoot::from_argument(&path).map_err(Failure::local)?;
        let identity = Identity { device: there.dev(), inode: there.ino() };
        roots.push(Root { name: walk.name.clone(), directory: there.is_dir(), identity });
        walks.push(WalkRoot { follow: true, ..walk });
    }
    Ok((walks, roots))
}

/// Where the sources go.
#[derive(Debug)]
pub struct Placement {
    /// The folder.
    pub target: Target,
    /// What each is called in it.
    pub names: Vec<Name>,
}

/// Decides it, as cp and scp do: into a folder that is there (or written with `/` at its end, or for several sources), else
/// under the target's own name.
pub fn place(to: &[u8], roots: &[Root], same_machine: bool, options: &Options) -> Result<Placement, Failure> {
    let path = expand(to);
    let there = fs::metadata(&path).ok();
    let is_folder = there.as_ref().is_some_and(fs::Metadata::is_dir);
    let [only] = roots else {
        return into(&path, roots, same_machine, options, is_folder || to.ends_with(b"/"));
    };
    if is_folder || to.ends_with(b"/") || only.name.is_root() {
        if there.is_some() && !is_folder {
            return Err(refused(format!("{} is a file, and a folder is to be copied there", path.display())));
        }
        return into(&path, roots, same_machine, options, true);
    }
    if only.directory && there.is_some() {
        return Err(refused(format!("{} is a file, and a folder is to be copied there", path.display())));
    }
    let last = path.file_name().ok_or_else(|| refused(format!("{} names no file", path.display())))?;
    let name = Name::new(last.as_bytes()).map_err(Failure::local)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let target = open(&folder, false, options)?;
    finish(Placement { target, names: vec![name] }, roots, same_machine)
}

fn into(
    folder: &Path,
    roots: &[Root],
    same_machine: bool,
    options: &Options,
    is_folder: bool,
) -> Result<Placement, Failure> {
    if !is_folder {
        return Err(refused(format!(
            "{} is no folder, and {} sources are to go there",
            folder.display(),
            roots.len()
        )));
    }
    let target = open(folder, true, options)?;
    finish(
        Placement { target, names: roots.iter().map(|root| root.name.clone()).collect() },
        roots,
        same_machine,
    )
}

fn open(folder: &Path, create: bool, options: &Options) -> Result<Target, Failure> {
    let keep = Keep { owners: options.archive, xattrs: options.archive, ..target::Options::default().keep };
    Target::open(folder, target::Options { keep, create: create && !options.dry_run }).map_err(Failure::local)
}

/// What must not be: two sources of one name, a source onto itself.
fn finish(placement: Placement, roots: &[Root], same_machine: bool) -> Result<Placement, Failure> {
    let mut taken: HashMap<&Name, usize> = HashMap::new();
    for (index, name) in placement.names.iter().enumerate() {
        if !name.is_root() && taken.insert(name, index).is_some() {
            return Err(refused(format!(
                "two sources would both become {name}; copy them into different folders"
            )));
        }
    }
    if same_machine {
        for (root, name) in roots.iter().zip(&placement.names) {
            not_itself(&placement.target, root, name)?;
        }
    }
    Ok(placement)
}

fn not_itself(target: &Target, root: &Root, name: &Name) -> Result<(), Failure> {
    let same = if name.is_root() {
        target.identity() == root.identity
    } else {
        let there = target.open_existing(name).ok().and_then(|file| file.metadata().ok());
        there.is_some_and(|there| (there.dev(), there.ino()) == (root.identity.device, root.identity.inode))
    };
    if same { Err(refused(format!("{name}: source and target are the same"))) } else { Ok(()) }
}

fn refused(words: String) -> Failure {
    Failure::new(FailureKind::Local, words)
}
