//! Sources and target: what is copied, where to, and what it is called there.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use weir_tree::Name;
use weir_tree::compare::Keep;
use weir_tree::destination::{self, NewFolders, Target};
use weir_tree::source::Identity;
use weir_tree::walk::Root as WalkRoot;

use crate::subtrees::Digest;
use crate::wire::message::{Failure, FailureKind, Options, Problem, Root};

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

/// A digest of sources and the machine that has them, of this machine where it is none: the same command has
/// the same.
pub fn digest_of(host: Option<&str>, paths: &[Vec<u8>]) -> Digest {
    let own = rustix::system::uname();
    let mut hasher = blake3::Hasher::new();
    let mut add = |part: &[u8]| {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    };
    add(&[u8::from(host.is_some())]);
    add(host.map_or(own.nodename().to_bytes(), str::as_bytes));
    for path in paths {
        let here = host.is_none().then(|| std::path::absolute(expand(path)).ok()).flatten();
        add(here.as_ref().map_or(path, |here| here.as_os_str().as_bytes()));
    }
    *hasher.finalize().as_bytes()
}

/// The sources as this machine has them.
#[derive(Debug)]
pub struct Sources {
    /// Those that are there, each once.
    pub walks: Vec<WalkRoot>,
    /// What each is, in the order in which they were named; none for one that is not there, or that was named
    /// before.
    pub roots: Vec<Option<Root>>,
    /// Those that are not there.
    pub missing: Vec<Problem>,
}

/// Looks at the sources. One that is missing costs only itself; it is an error where all are. A link is taken
/// for what it leads to, as scp has it, but with `-a` for itself, as rsync has it.
pub fn look(paths: &[Vec<u8>], options: &Options) -> Result<Sources, Failure> {
    let mut sources = Sources { walks: Vec::new(), roots: Vec::new(), missing: Vec::new() };
    let mut named = HashSet::new();
    for path in paths {
        let path = expand(path);
        let mut walk = WalkRoot::from_argument(&path).map_err(Failure::local)?;
        walk.follow |= !options.keeps_named_links();
        let there = if walk.follow { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
        let root = match there {
            Ok(there) => {
                let (name, own) = (walk.name.clone(), Identity::of_metadata(&there));
                let is_new = named.insert((name.clone(), own));
                // A link in the place of what it leads to would be all that is left of both.
                let behind = there.is_symlink().then(|| fs::metadata(&path).ok()).flatten();
                let identity = behind.map_or(own, |behind| Identity::of_metadata(&behind));
                is_new.then(|| Root { name, directory: there.is_dir(), identity })
            }
            Err(error) => {
                let failure = cannot_read(&path, &error);
                sources.missing.push(Problem { name: walk.name.clone(), failure, harmless: false });
                None
            }
        };
        if root.is_some() {
            sources.walks.push(walk);
        }
        sources.roots.push(root);
    }
    match sources.walks.is_empty() {
        true => Err(none_of(&sources.missing)),
        false => Ok(sources),
    }
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Failure {
    let why = weir_units::plain(error);
    let is_pattern = path.as_os_str().as_bytes().iter().any(|byte| b"*?[{".contains(byte));
    let is_missing = error.kind() == std::io::ErrorKind::NotFound;
    let why = match fs::read_link(path) {
        Ok(target) if is_missing => {
            format!("it is a symbolic link to {}, which is not there", target.display())
        }
        _ => why,
    };
    // What a shell here expands never comes as a pattern.
    let way_out = if path.as_os_str() == "-" && is_missing {
        "; 'weir put - URL' sends a stream to a store, 'cat > FILE' keeps one here"
    } else if is_pattern && is_missing {
        "; patterns are not expanded: name the folder, and what of it by --include and --exclude"
    } else {
        ""
    };
    Failure::local(format_args!("cannot read {}: {why}{way_out}", path.display()))
}

/// Of a copy without sources: what became of them.
fn none_of(missing: &[Problem]) -> Failure {
    let Some((first, others)) = missing.split_first() else {
        return Failure::local("there are no sources");
    };
    match others.len() {
        0 => first.failure.clone(),
        more => Failure::local(format_args!("{}; nor any of the {more} other sources", first.failure)),
    }
}

/// Where the sources go.
#[derive(Debug)]
pub struct Placement {
    /// The folder.
    pub target: Target,
    /// What each is called in it.
    pub names: Vec<Name>,
    /// Its folder is made by this copy, under this name.
    pub begun: Option<Name>,
    /// The same command had begun it.
    pub goes_on: bool,
    /// The target's own path.
    pub folder: PathBuf,
    /// What was made for it: it goes again where the copy is refused.
    pub made: NewFolders,
    /// The folder, where it is in a source of which only a part is copied: the walk is not to go into it.
    pub inside: Option<Identity>,
}

/// Decides it, as cp and scp do: into a folder that is there (or written with `/` at its end, or for several
/// sources), else under the target's own name; also under that where the same command had made the folder and
/// did not come to its end. `several` were named, though all but one may be missing.
pub fn place(
    to: &[u8],
    roots: &[Root],
    several: bool,
    same_machine: bool,
    options: &Options,
) -> Result<Placement, Failure> {
    let path = expand(to);
    // Without a slash at its end: with one the system finds no file.
    let there = fs::metadata(path.components().as_path()).ok();
    let is_folder = there.as_ref().is_some_and(fs::Metadata::is_dir);
    let ([only], false) = (roots, several) else {
        let will_be = is_folder || to.ends_with(b"/") || options.selection.mkpath && there.is_none();
        return into(&path, roots, same_machine, options, will_be);
    };
    let is_begun = is_folder && only.directory && !to.ends_with(b"/") && is_begun(&path, options);
    if !is_begun && (is_folder || to.ends_with(b"/") || only.name.is_root()) {
        if there.is_some() && !is_folder {
            let what =
                if only.directory { "a folder is to be copied there" } else { "it was named as a folder" };
            return Err(refused(format!("{} is a file, and {what}", path.display())));
        }
        return into(&path, roots, same_machine, options, true);
    }
    if only.directory && there.is_some() && !is_folder {
        return Err(refused(format!("{} is a file, and a folder is to be copied there", path.display())));
    }
    let last = path.file_name().ok_or_else(|| refused(format!("{} names no file", path.display())))?;
    let name = Name::new(last.as_bytes()).map_err(Failure::local)?;
    let folder = around_of(&path);
    let begun = only.directory.then(|| name.clone());
    let names = vec![name];
    if check(&names, &folder, roots, same_machine, options)? {
        // One that is yet to be made cannot be told from others.
        return Err(inside_source(&folder));
    }
    // Where links are kept one that is there may be an earlier copy of the source, as for `not_itself`.
    if !only.directory && !options.keeps_named_links() {
        destination::check_link(&path)
            .map_err(|error| Failure::local(format_args!("{error}; 'cat' prints a file")))?;
    }
    let (target, made) = make(&folder, false, options)?;
    Ok(prepare(Placement { target, names, begun, goes_on: is_begun, folder, made, inside: None }, options))
}

/// Whether this command had made the folder at `path` and not filled it.
fn is_begun(path: &Path, options: &Options) -> bool {
    beside(path, options).is_some_and(|(around, name)| around.is_begun(&name, &options.command))
}

/// The folder that `path` is in, and what it is called there; `None` where that cannot be told.
fn beside(path: &Path, options: &Options) -> Option<(Target, Name)> {
    let name = Name::new(path.file_name()?.as_bytes()).ok()?;
    Some((open(&around_of(path), false, options).ok()?, name))
}

/// Who fills a folder as one that is there has it, whatever a copy to its name had begun.
fn forget_begun(folder: &Path, options: &Options) {
    if let Some((around, name)) = beside(folder, options) {
        // One that stays means no more than it did.
        let _ = around.end_folder(&name);
    }
}

fn into(
    folder: &Path,
    roots: &[Root],
    same_machine: bool,
    options: &Options,
    is_folder: bool,
) -> Result<Placement, Failure> {
    if !is_folder {
        // Of those that were named others may be missing.
        let sources = match roots.len() {
            0 | 1 => "several".to_owned(),
            count => count.to_string(),
        };
        return Err(refused(format!(
            "{} is no folder, and {sources} sources are to go there",
            folder.display()
        )));
    }
    let names: Vec<Name> = roots.iter().map(|root| root.name.clone()).collect();
    let is_inside = check(&names, folder, roots, same_machine, options)?;
    let (target, made) = make(folder, true, options)?;
    let inside = is_inside.then(|| target.identity());
    let (begun, goes_on) = (None, false);
    let placement = Placement { target, names, begun, goes_on, folder: folder.to_owned(), made, inside };
    let placement = prepare(placement, options);
    if !options.dry_run && placement.names.iter().any(Name::is_root) {
        forget_begun(folder, options);
    }
    Ok(placement)
}

/// Opens the target, with what is made for it.
fn make(folder: &Path, may_create: bool, options: &Options) -> Result<(Target, NewFolders), Failure> {
    let made = if options.dry_run { NewFolders::default() } else { NewFolders::of(folder) };
    let target = open(folder, may_create, options).inspect_err(|_| made.undo())?;
    Ok((target, made))
}

fn open(folder: &Path, may_create: bool, options: &Options) -> Result<Target, Failure> {
    let keep = kept(options);
    let keep_dirlinks = options.selection.keep_dirlinks;
    let create = may_create && !options.dry_run;
    let named_groups = !options.selection.owners.groups.is_empty();
    let (sync, anew) = (options.sync, options.selection.remove_source_files);
    let of_target = destination::Options { keep, create, sync, keep_dirlinks, named_groups, anew };
    let mkpath = options.selection.mkpath && is_missing(folder);
    if mkpath && !options.dry_run {
        let failed =
            |source| weir_tree::TreeError::Path { action: "create", path: folder.to_owned(), source };
        // The target makes the last of them itself, if it may, and knows then that it is new.
        let way = if may_create { around_of(folder) } else { folder.to_owned() };
        fs::create_dir_all(way).map_err(failed).map_err(Failure::local)?;
    }
    // A link that leads nowhere is not made into a folder.
    let would_be_made = options.dry_run
        && (may_create && !is_missing(&around_of(folder)) || mkpath)
        && is_missing(folder)
        && !folder.components().as_path().is_symlink();
    // Where a copy could not make it either, a dry run says so in the copy's words.
    let would_fail =
        options.dry_run && may_create && !would_be_made && !folder.components().as_path().is_symlink();
    if would_fail && let Err(error) = fs::metadata(folder) {
        let why = weir_units::plain(&error);
        let way_out = way_out(folder, may_create);
        return Err(Failure::local(format_args!("cannot create {}: {why}{way_out}", folder.display())));
    }
    if would_be_made {
        return Ok(Target::to_be(of_target));
    }
    let opened = Target::open(folder, of_target);
    opened.map_err(|error| Failure::local(format_args!("{error}{}", way_out(folder, may_create))))
}

/// What helps where a folder on the way is missing.
fn way_out(folder: &Path, may_create: bool) -> &'static str {
    // The last of them is made anyway where it may be.
    let missing = if may_create { around_of(folder) } else { folder.to_owned() };
    let is_dangling = folder.components().as_path().is_symlink() || missing.is_symlink();
    if is_missing(&missing) && !is_dangling { "; --mkpath creates the missing folders" } else { "" }
}

/// What entries get of their sources' attributes.
pub fn kept(options: &Options) -> Keep {
    let (users, groups) = (options.keeps_users(), options.keeps_groups());
    Keep { users, groups, xattrs: options.archive, ..destination::Options::default().keep }
}

fn is_missing(path: &Path) -> bool {
    fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// The folder that a path is in.
pub(crate) fn around_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// What must not be: two sources of one name, a source onto itself, sources that delete what others bring.
/// To be asked before anything is made: of what is refused nothing is to stay. Returns whether the folder is
/// in a source of which only a part is copied.
fn check(
    names: &[Name],
    folder: &Path,
    roots: &[Root],
    same_machine: bool,
    options: &Options,
) -> Result<bool, Failure> {
    let mut taken = HashSet::new();
    for name in names {
        if !name.is_root() && !taken.insert(name) {
            return Err(refused(format!(
                "two sources would both become {name}; copy them into different folders"
            )));
        }
    }
    // Each source tells what is to stay in its folders; with several in one folder none of them tells all.
    if options.delete && roots.len() > 1 && names.iter().any(Name::is_root) {
        return Err(refused(
            "several sources go into one folder, and --delete would remove what the others bring: copy DIR/ by itself, or \
             name the folders without / at their ends"
                .to_owned(),
        ));
    }
    if !same_machine {
        return Ok(false);
    }
    let above = around(folder);
    for (root, name) in roots.iter().zip(names) {
        not_itself(&folder.join(name.as_path()), root, options)?;
    }
    let contains = roots.iter().any(|root| root.directory && above.contains(&root.identity));
    let is_part = options.listed || options.selection.one_file_system || !options.filter.is_empty();
    // A source that is the target itself would be left out whole.
    let there = fs::metadata(folder).ok().map(|there| Identity::of_metadata(&there));
    let is_source = roots.iter().any(|root| root.directory && there == Some(root.identity));
    match contains && (is_source || !is_part) {
        true => Err(inside_source(folder)),
        false => Ok(contains),
    }
}

fn inside_source(folder: &Path) -> Failure {
    refused(format!("{} is in the folder that is to be copied there", folder.display()))
}

/// Readies the target for what comes.
fn prepare(placement: Placement, options: &Options) -> Placement {
    // What the same command had begun is its own.
    if !options.changes_folders() && !placement.goes_on {
        placement.target.spare_directories();
    }
    if !options.dry_run {
        placement.target.learn_names();
    }
    placement
}

/// A folder and those that it is in, up to the root; of one that is yet to be made those that are there.
fn around(folder: &Path) -> Vec<Identity> {
    let here = |path: &Path| if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.to_owned() };
    let path = folder.ancestors().find_map(|path| here(path).canonicalize().ok());
    let path = path.unwrap_or_else(|| folder.to_owned());
    path.ancestors().filter_map(|path| Some(Identity::of_metadata(&fs::metadata(path).ok()?))).collect()
}

/// What is at `path` is not the source: neither by its name nor by another, be that a hard or a symbolic
/// link. Where links are kept one that is there may be an earlier copy of the source: it is replaced, and not
/// what it leads to; but a source that goes then may be that link itself.
fn not_itself(path: &Path, root: &Root, options: &Options) -> Result<(), Failure> {
    let replaces_links = options.keeps_named_links() && !options.selection.remove_source_files;
    if replaces_links && !root.directory && path.is_symlink() {
        return Ok(());
    }
    let there = [fs::metadata(path), fs::symlink_metadata(path)];
    let is_root = |there: &fs::Metadata| Identity::of_metadata(there) == root.identity;
    match there.iter().flatten().any(is_root) {
        true => Err(refused(format!("{}: source and target are the same", path.display()))),
        false => Ok(()),
    }
}

fn refused(words: String) -> Failure {
    Failure::new(FailureKind::Local, words)
}
