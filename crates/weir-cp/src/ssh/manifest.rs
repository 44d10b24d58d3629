//! The digests of a release that lie beside a build (`SHA256SUMS`), and their signature by minisign.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use minisign_verify::{PublicKey, Signature};

/// The output of `sha256sum` for all builds in its folder.
pub(super) const SUMS: &str = "SHA256SUMS";

/// Of it, by minisign.
const SIGNATURE: &str = "SHA256SUMS.minisig";

/// A public key of minisign, as text or as the path of its file; it stands before the one of this build.
const KEY: &str = "WEIR_RELEASE_KEY";

/// The longest file that is read: thousands of lines, and a signature has four.
const LONGEST: u64 = 1 << 20;

/// Digests by name.
#[derive(Debug, PartialEq, Eq)]
pub struct Manifest {
    entries: Vec<(String, String)>,
}

impl Manifest {
    /// Lines of 64 hexadecimal digits, a blank, a blank or `*`, and a name; anything else is no manifest.
    pub fn parse(text: &str) -> Option<Manifest> {
        let entry = |line: &str| {
            let (digest, name) = line.split_at_checked(64)?;
            let name = name.strip_prefix("  ").or_else(|| name.strip_prefix(" *"))?;
            let is_digest = digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            let name = name.strip_prefix("./").unwrap_or(name);
            (is_digest && !name.is_empty()).then(|| (name.to_owned(), digest.to_ascii_lowercase()))
        };
        let entries: Option<Vec<_>> = text.lines().map(entry).collect();
        entries.map(|entries| Manifest { entries })
    }

    /// The SHA-256 of the file of that name, in lower case. `None` where it is not listed, or with two
    /// digests.
    pub fn digest(&self, name: &str) -> Option<&str> {
        let mut found =
            self.entries.iter().filter(|(listed, _)| listed == name).map(|(_, digest)| digest.as_str());
        let first = found.next()?;
        found.all(|other| other == first).then_some(first)
    }

    /// It is one of weir's releases: it lists a build of weir.
    fn is_of_weir(&self) -> bool {
        self.entries.iter().any(|(name, _)| name == "weir" || name.starts_with("weir-"))
    }
}

/// Checks a build called `name` in `folder` against the manifest there. `digest` computes its SHA-256.
/// Without a manifest of weir's nothing is checked. The error is cause and way out.
pub(super) fn check(
    folder: &Path,
    name: &str,
    digest: impl FnOnce() -> io::Result<String>,
) -> Result<(), String> {
    check_by(folder, name, digest, key)
}

fn check_by(
    folder: &Path,
    name: &str,
    digest: impl FnOnce() -> io::Result<String>,
    key: impl FnOnce() -> Result<Option<PublicKey>, String>,
) -> Result<(), String> {
    let path = folder.join(SUMS);
    let Some(text) = read(&path)? else { return Ok(()) };
    let shown = path.display();
    let Some(manifest) = Manifest::parse(&text).filter(Manifest::is_of_weir) else {
        tracing::debug!("{shown} lists no build of weir, so {name} is not checked by it");
        return Ok(());
    };
    signed(folder, &text, key)?;
    let way_out = "fetch the release again, or reinstall the package";
    let Some(expected) = manifest.digest(name) else {
        return Err(format!("{shown} does not list {name}; {way_out}"));
    };
    match digest() {
        Ok(found) if found == expected => Ok(()),
        Ok(_) => Err(format!("its SHA-256 is not the one in {shown}; {way_out}")),
        Err(error) => Err(weir_units::plain(&error)),
    }
}

/// The signature of the manifest, where one lies beside it and a key is known.
fn signed(
    folder: &Path,
    manifest: &str,
    key: impl FnOnce() -> Result<Option<PublicKey>, String>,
) -> Result<(), String> {
    let path = folder.join(SIGNATURE);
    let shown = path.display();
    let Some(text) = read(&path)? else {
        tracing::debug!("there is no {shown}: digests are checked, and nobody vouches for them");
        return Ok(());
    };
    let Some(key) = key()? else {
        tracing::info!("{shown} is not checked: this build has no release key; {KEY} names one");
        return Ok(());
    };
    let way_out = format!("fetch the release again, or name its public key by {KEY}");
    let signature =
        Signature::decode(&text).map_err(|_| format!("{shown} is not a signature of minisign; {way_out}"))?;
    key.verify(manifest.as_bytes(), &signature, false)
        .map_err(|_| format!("{shown} is not the release key's signature of {SUMS}; {way_out}"))
}

/// The release key: the user's, else that of this build.
fn key() -> Result<Option<PublicKey>, String> {
    let named = std::env::var(KEY).ok().filter(|text| !text.is_empty());
    let Some(text) = named.or_else(|| option_env!("WEIR_RELEASE_KEY").map(str::to_owned)) else {
        return Ok(None);
    };
    let of_file = |path: &str| read(Path::new(path)).ok().flatten();
    let text = if text.starts_with("RW") { text } else { of_file(&text).unwrap_or_default() };
    // Its file has a comment first.
    let line = text.lines().map(str::trim).find(|line| line.starts_with("RW")).unwrap_or_default();
    let key = PublicKey::from_base64(line);
    key.map(Some).map_err(|_| format!("{KEY} is neither a public key of minisign nor the path of one"))
}

/// A short text file; `None` where there is none.
fn read(path: &Path) -> Result<Option<String>, String> {
    let failed = |error: io::Error| format!("cannot read {}: {}", path.display(), weir_units::plain(&error));
    let file = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(failed)?;
    match text.len() as u64 <= LONGEST {
        true => Ok(Some(text)),
        false => Err(format!("{} is longer than 1 MiB, so it is no list of digests", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

    #[test]
    fn lines_are_those_of_sha256sum() {
        let text = format!("{HELLO}  weir-aarch64\n{} *./weir.deb\n", HELLO.to_uppercase());
        let manifest = Manifest::parse(&text).unwrap();
        assert_eq!(manifest.digest("weir-aarch64"), Some(HELLO));
        assert_eq!(manifest.digest("weir.deb"), Some(HELLO));
        assert_eq!(manifest.digest("weir"), None);
        let twice = format!("{HELLO}  a\n{}  a\n", HELLO.replace('5', "6"));
        assert_eq!(Manifest::parse(&twice).unwrap().digest("a"), None, "two digests are none");
        for text in ["words", &HELLO[1..], &format!("{HELLO} a"), &format!("{HELLO}  "), &"é".repeat(40)] {
            assert_eq!(Manifest::parse(text), None, "{text}");
        }
    }

    /// A folder with a build and what else is written there; what its check says.
    fn checked(files: &[(&str, &str)], key: Result<Option<&str>, &str>) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let key = || match key {
            Ok(key) => Ok(key.map(|text| PublicKey::from_base64(text).unwrap())),
            Err(why) => Err(why.to_owned()),
        };
        let said = check_by(folder.path(), "weir-aarch64", || Ok(HELLO.to_owned()), key);
        said.map_err(|why| why.replace(&format!("{}/", folder.path().display()), ""))
    }

    #[test]
    fn a_build_is_what_its_manifest_says() {
        let listed = format!("{HELLO}  weir-aarch64\n");
        let other = format!("{}  weir-aarch64\n", HELLO.replace('5', "6"));
        let missing = format!("{HELLO}  weir-x86_64\n");
        let foreign = format!("{HELLO}  something.iso\n");
        let check = |text: &str| checked(&[(SUMS, text)], Ok(None));
        assert_eq!(checked(&[], Err("no key is asked for")), Ok(()));
        assert_eq!(check(&listed), Ok(()));
        assert_eq!(check(&foreign), Ok(()), "of another program");
        assert_eq!(check("a page of a proxy"), Ok(()));
        let said = check(&other).unwrap_err();
        assert_eq!(
            said,
            "its SHA-256 is not the one in SHA256SUMS; fetch the release again, or reinstall the package"
        );
        assert!(check(&missing).unwrap_err().starts_with("SHA256SUMS does not list weir-aarch64; "));
    }

    /// Made by minisign 0.11.
    const PUBLIC: &str = "RWQ2XfU5jvX2wiJZWRIoR7UBsbexsjCeDi0XURLnFkbwSoceTj20GHAi";
    const SIGNED: &str = "\
        untrusted comment: signature of a test\n\
        RUQ2XfU5jvX2woqrz4JJ46nckpkt7nQr0eCaN7z51JRVPPG3r2Ox/nbdcF+mrS9/Js0KL1rWCLj1jkqlCHCY0R2dltDvDc7XJQ0=\n\
        trusted comment: a test\n\
        ya479FxoGNE4V83+5l8A+sqgjZI/vAaT85YPhIJYD/39gqSH4PZgQBpIvXUWWMYFCh2M28MAODe2Qgd8TLDVAQ==";

    #[test]
    fn a_manifest_is_what_its_signature_says() {
        let listed = format!("{HELLO}  weir-aarch64\n");
        let signed = [(SUMS, listed.as_str()), (SIGNATURE, SIGNED)];
        assert_eq!(checked(&signed, Ok(Some(PUBLIC))), Ok(()));
        assert_eq!(checked(&signed, Ok(None)), Ok(()), "nobody knows a key");
        assert_eq!(checked(&signed[..1], Err("no key is asked for")), Ok(()));
        assert_eq!(checked(&signed, Err("a bad key")), Err("a bad key".to_owned()));
        let changed = format!("{listed}{HELLO}  weir-x86_64\n");
        let said = checked(&[(SUMS, &changed), (SIGNATURE, SIGNED)], Ok(Some(PUBLIC))).unwrap_err();
        assert!(
            said.starts_with("SHA256SUMS.minisig is not the release key's signature of SHA256SUMS; "),
            "{said}"
        );
        let said = checked(&[(SUMS, &listed), (SIGNATURE, "words")], Ok(Some(PUBLIC))).unwrap_err();
        assert!(said.starts_with("SHA256SUMS.minisig is not a signature of minisign; "), "{said}");
    }
}
