//! Builds of weir for far hosts: this program, its static build, and its builds for other machines, as they
//! lie beside it or as the user names them. Each is known by its head, its version and its digest before it
//! is sent.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use memchr::memmem::Finder;
use weir_codec::hex;

use super::{machine, manifest};
use crate::error::CopyError;

/// A build that a far host is to have.
#[derive(Debug)]
pub(super) struct Build {
    pub(super) file: File,
    /// Of its BLAKE3 the first 16 hexadecimal digits: what the far cache calls it.
    pub(super) name: String,
    /// Bytes.
    pub(super) size: u64,
    /// System and machine that it is for, as `uname -sm` says them.
    pub(super) words: String,
}

/// This program's digest as the far cache is called by it: of its BLAKE3 the first 16 hexadecimal digits.
pub fn own_digest() -> io::Result<String> {
    digest_of(&mut File::open("/proc/self/exe")?).map(|(digest, _)| digest)
}

fn digest_of(file: &mut File) -> io::Result<(String, u64)> {
    let mut digest = blake3::Hasher::new();
    let size = each_piece(file, |piece| {
        digest.update(piece);
    })?;
    Ok((hex::encode(&digest.finalize().as_bytes()[..8]), size))
}

/// What stands in a build of weir so that another one knows it: its version (`1.0.0 (commit)`) and its
/// target. Only what is put together at run time is looked for, so that who looks does not find its own
/// words.
pub fn mark(version: &str, machine: &str) -> String {
    format!("weir-build {version} {machine}-")
}

/// `uname -sm` of this host.
pub(super) fn own_words() -> String {
    let own = rustix::system::uname();
    format!("{} {}", own.sysname().to_string_lossy(), own.machine().to_string_lossy())
}

/// Folders in which builds lie: this program's own, and `../lib/weir` as packages have it.
fn folders() -> Vec<PathBuf> {
    let own = std::env::current_exe().ok();
    let folder = own.as_deref().and_then(Path::parent);
    let library = folder.and_then(Path::parent).map(|above| above.join("lib/weir"));
    folder.map(Path::to_owned).into_iter().chain(library).collect()
}

impl Build {
    /// What this host's likes get: a build that the user names, the static one where there is one, else this
    /// program's file.
    pub(super) fn own(version: &str, named: &[PathBuf]) -> Result<Build, CopyError> {
        let cannot = |source| CopyError::Ssh { program: "weir".into(), source };
        let words = own_words();
        if let Some(machine) = machine::of_words(&words) {
            if let Some(path) = named_for(machine, named)? {
                return Build::read(path, machine, version)
                    .map_err(|why| CopyError::FarBinary { path: path.to_owned(), why });
            }
            let names = ["weir-static".to_owned(), format!("weir-{machine}")];
            match found(&names, machine, version) {
                Ok(Some(build)) => return Ok(build),
                Ok(None) => {}
                Err(why) => tracing::info!("{why}; this program is copied instead"),
            }
        } else {
            named_for("", named)?;
        }
        let mut file = File::open("/proc/self/exe").map_err(cannot)?;
        let (name, size) = digest_of(&mut file).map_err(cannot)?;
        Ok(Build { file, name, size, words })
    }

    /// The build for a far host that is another machine; the error says why there is none, and what helps.
    pub(super) fn other(far: &str, version: &str, named: &[PathBuf]) -> Result<Build, String> {
        let own = own_words();
        let missing = format!("it has no weir {version}, and this one is for {own} while it is {far}");
        let Some(machine) = machine::of_words(far) else {
            return Err(format!("{missing}; install weir there, or name it by --far-program"));
        };
        let not_used = |why: String| format!("{missing}; {why}");
        let found = match named_for(machine, named) {
            Ok(Some(path)) => Build::read(path, machine, version)
                .map(Some)
                .map_err(|why| not_used(format!("{} is not used: {why}", path.display()))),
            _ => found(&[format!("weir-{machine}")], machine, version).map_err(not_used),
        };
        let mut build = found?.ok_or_else(|| {
            let folders: Vec<String> = folders().iter().map(|folder| folder.display().to_string()).collect();
            let folders = folders.join(" or ");
            format!(
                "{missing}; put weir-{machine} of this version into {folders}, name it by --far-binary, or install \
                 weir there"
            )
        })?;
        far.clone_into(&mut build.words);
        Ok(build)
    }

    /// The error is cause and way out.
    fn read(path: &Path, machine: &'static str, version: &str) -> Result<Build, String> {
        let plain = |error: io::Error| weir_units::plain(&error);
        let mut file = File::open(path).map_err(plain)?;
        if machine_of(&file)? != machine {
            return Err(format!("it is not for {machine}; name the build for that machine"));
        }
        let (mut digest, mut search) = (blake3::Hasher::new(), Search::new(&mark(version, machine)));
        let size = each_piece(&mut file, |piece| {
            digest.update(piece);
            search.look(piece);
        });
        let size = size.map_err(plain)?;
        if !search.found {
            return Err(format!("it is not weir {version}; use the build of this version"));
        }
        let name = hex::encode(&digest.finalize().as_bytes()[..8]);
        let mut build = Build { file, name, size, words: format!("Linux {machine}") };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let called = path.file_name().unwrap_or_default().to_string_lossy();
        manifest::check(folder, &called, || build.sha256())?;
        tracing::debug!("{} is weir {version} for {machine}", path.display());
        Ok(build)
    }

    /// By the digest that every host has a program for. Three to ten times slower than BLAKE3, so only where
    /// it is needed.
    pub(super) fn sha256(&mut self) -> io::Result<String> {
        let mut digest = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
        each_piece(&mut self.file, |piece| digest.update(piece))?;
        Ok(hex::encode(digest.finish().as_ref()))
    }
}

/// The first of these names in one of the folders. An unsound one ends the search: what is meant to be used
/// and cannot be is said.
fn found(names: &[String], machine: &'static str, version: &str) -> Result<Option<Build>, String> {
    for path in folders().iter().flat_map(|folder| names.iter().map(|name| folder.join(name))) {
        let Ok(found) = path.metadata() else { continue };
        let said = |why: String| format!("{} is not used: {why}", path.display());
        // What others may have put there would run on the far host as its user.
        let (me, mode) = (rustix::process::geteuid().as_raw(), found.mode());
        if ![0, me].contains(&found.uid()) || mode & 0o002 != 0 {
            return Err(said("others may write it; own it, and chmod o-w".to_owned()));
        }
        return Build::read(&path, machine, version).map(Some).map_err(said);
    }
    Ok(None)
}

/// Of the builds that the user names the one for this machine; fails where one of them is none.
fn named_for<'a>(machine: &str, named: &'a [PathBuf]) -> Result<Option<&'a Path>, CopyError> {
    let mut found = None;
    for path in named {
        let of =
            File::open(path).map_err(|error| weir_units::plain(&error)).and_then(|file| machine_of(&file));
        let of = of.map_err(|why| CopyError::FarBinary { path: path.clone(), why })?;
        if of == machine {
            found.get_or_insert(path.as_path());
        }
    }
    Ok(found)
}

fn machine_of(file: &File) -> Result<&'static str, String> {
    let plain = |error: io::Error| weir_units::plain(&error);
    if !file.metadata().map_err(plain)?.is_file() {
        return Err("it is not a file; name a static build of weir".to_owned());
    }
    let mut head = [0; machine::HEAD];
    let known = match file.read_exact_at(&mut head, 0) {
        Ok(()) => machine::of_head(&head),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
        Err(error) => return Err(plain(error)),
    };
    known.ok_or_else(|| "it is no program for x86_64 or aarch64; name a static build of weir".to_owned())
}

/// Looks for words in what comes in pieces.
struct Search {
    finder: Finder<'static>,
    /// The end of what came before: shorter than the words.
    tail: Vec<u8>,
    found: bool,
}

impl Search {
    fn new(words: &str) -> Search {
        Search { finder: Finder::new(words).into_owned(), tail: Vec::new(), found: false }
    }

    fn look(&mut self, piece: &[u8]) {
        let before = self.finder.needle().len() - 1;
        self.tail.extend_from_slice(&piece[..piece.len().min(before)]);
        self.found |= self.finder.find(&self.tail).is_some() || self.finder.find(piece).is_some();
        match piece.len().checked_sub(before) {
            Some(at) => self.tail = piece[at..].to_vec(),
            None => drop(self.tail.drain(..self.tail.len().saturating_sub(before))),
        }
    }
}

/// The bytes of a file from its start to its end, and how many they are.
fn each_piece(file: &mut File, mut take: impl FnMut(&[u8])) -> io::Result<u64> {
    file.rewind()?;
    let mut buffer = vec![0; 1 << 20];
    let mut size = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(size),
            read => {
                take(&buffer[..read]);
                size += read as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_wherever_they_are_cut() {
        for text in
            ["..needle..", "needle", ".needleneedle", "nneedle", "need.le", "needl", "", "eneedlneedle"]
        {
            for length in 1..=text.len().max(1) {
                let mut search = Search::new("needle");
                text.as_bytes().chunks(length).for_each(|piece| search.look(piece));
                assert_eq!(search.found, text.contains("needle"), "{text} by {length}");
            }
        }
    }

    /// A program for that machine with these bytes behind its head.
    fn program(path: &Path, elf: u16, text: &str) {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        bytes.extend_from_slice(&2u16.to_le_bytes());
        bytes.extend_from_slice(&elf.to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
        std::fs::write(path, bytes).unwrap();
    }

    #[test]
    fn a_far_machine_gets_the_build_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (arm, intel, old) = (path("arm"), path("intel"), path("old"));
        program(&arm, 183, &mark("1.2.3 (abc)", "aarch64"));
        program(&intel, 62, &mark("1.2.3 (abc)", "x86_64"));
        program(&old, 183, &mark("1.2.2 (abc)", "aarch64"));
        let other = |far: &str, named: &[&PathBuf]| {
            let named: Vec<PathBuf> = named.iter().map(|path| (*path).clone()).collect();
            Build::other(far, "1.2.3 (abc)", &named).map(|build| (build.words, build.size))
        };
        let size = |path: &Path| std::fs::metadata(path).unwrap().len();
        assert_eq!(other("Linux aarch64", &[&intel, &arm]), Ok(("Linux aarch64".into(), size(&arm))));
        assert_eq!(other("Linux arm64", &[&arm, &intel]), Ok(("Linux arm64".into(), size(&arm))));
        assert_eq!(other("Linux amd64", &[&arm, &intel]), Ok(("Linux amd64".into(), size(&intel))));
        let own = own_words();
        let why = other("Linux aarch64", &[&old]).unwrap_err();
        assert_eq!(
            why,
            format!(
                "it has no weir 1.2.3 (abc), and this one is for {own} while it is Linux aarch64; {} is not used: it is \
                 not weir 1.2.3 (abc); use the build of this version",
                old.display()
            )
        );
        // None lies beside the program that runs this.
        let why = other("Linux x86_64", &[&arm]).unwrap_err();
        let folder = std::env::current_exe().unwrap().parent().unwrap().display().to_string();
        for words in ["put weir-x86_64 of this version into", &folder, "lib/weir, name it by --far-binary"] {
            assert!(why.contains(words), "{why}");
        }
        let why = other("Plan9 vax", &[&arm]).unwrap_err();
        assert!(
            why.ends_with("while it is Plan9 vax; install weir there, or name it by --far-program"),
            "{why}"
        );
    }

    #[test]
    fn a_file_that_is_no_build_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        let said = |path: &Path| Build::own("1", &[path.to_owned()]).unwrap_err().to_string();
        let none = "it is no program for x86_64 or aarch64; name a static build of weir";
        assert_eq!(said(&script), format!("cannot use {} as --far-binary: {none}", script.display()));
        assert!(said(folder.path()).ends_with("it is not a file; name a static build of weir"));
        assert!(said(&folder.path().join("none")).ends_with("no such file or directory"));
    }

    #[test]
    fn a_build_whose_digest_is_not_the_manifest_s_is_not_sent() {
        let folder = tempfile::tempdir().unwrap();
        let arm = folder.path().join("weir-aarch64");
        program(&arm, 183, &mark("1", "aarch64"));
        let digest = Build::read(&arm, "aarch64", "1").unwrap().sha256().unwrap();
        let list = |digest: &str| {
            std::fs::write(folder.path().join(manifest::SUMS), format!("{digest}  weir-aarch64\n")).unwrap();
            Build::read(&arm, "aarch64", "1").map(drop)
        };
        assert_eq!(list(&digest), Ok(()));
        let why = list(&"0".repeat(64)).unwrap_err();
        assert!(why.starts_with("its SHA-256 is not the one in "), "{why}");
    }
}
