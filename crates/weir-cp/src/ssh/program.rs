//! This very program on a far host: found there by its digest, or copied there over ssh's streams.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::process::{Command, Stdio};

use weir_codec::hex;

use super::{Far, Greeting, Host};
use crate::error::CopyError;

/// What helps where no folder there is of use. In the far shell's words: no quotes.
const WAY_OUT: &str = "set XDG_CACHE_HOME there to a folder of your own where programs run, or install weir there and name it by --far-program";

/// Folders that the script tries: it asks for the program at most so often.
const PLACES: u32 = 4;

/// This program, as a far host is to have it.
#[derive(Debug)]
pub(super) struct Program {
    file: File,
    /// Of its BLAKE3 the first 16 hexadecimal digits: what the far cache calls it.
    name: String,
    /// Bytes.
    size: u64,
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

/// The static build of this version that lies beside this program (`weir-static`), or in `../lib/weir` as packages have it: it runs
/// where this one's libraries are not.
fn static_build(version: &str) -> Option<File> {
    let own = std::env::current_exe().ok()?;
    let folder = own.parent()?;
    let paths = [folder.join("weir-static"), folder.parent()?.join("lib/weir/weir-static")];
    let path = paths.into_iter().find(|path| path.is_file())?;
    let said = Command::new(&path).arg("--version").stdin(Stdio::null()).output().ok()?;
    let same = said.stdout == format!("weir {version}\n").as_bytes();
    File::open(path).ok().filter(|_| same)
}

impl Program {
    /// What is copied to a far host: the static build where there is one, else this program's file.
    pub(super) fn own(version: &str) -> io::Result<Program> {
        let mut file = match static_build(version) {
            Some(file) => file,
            None => File::open("/proc/self/exe")?,
        };
        let (name, size) = digest_of(&mut file)?;
        Ok(Program { file, name, size })
    }

    /// Waits until it runs there; sends it as often as the far shell has another folder for it.
    pub(super) fn settle(&mut self, far: &mut Far, version: &str, host: &Host) -> Result<(), CopyError> {
        let mut sent = Ok(());
        for _ in 0..=PLACES {
            match far.greeting(host)? {
                Greeting::Ready => return sent.map_err(|error| host.unreachable(weir_units::plain(&error))),
                Greeting::Absent(machine) => sent = self.send(far, (version, &machine), host)?,
            }
        }
        Err(host.unreachable("weir could not be copied there".into()))
    }

    /// By the digest that every host has a program for. Three to ten times slower than BLAKE3, so only where it is needed.
    fn sha256(&mut self) -> io::Result<String> {
        let mut digest = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
        self.file.rewind()?;
        each_piece(&mut self.file, |piece| digest.update(piece))?;
        Ok(hex::encode(digest.finish().as_ref()))
    }

    /// Copies this program there. Where that breaks off the far side says why.
    fn send(
        &mut self,
        far: &mut Far,
        (version, machine): (&str, &str),
        host: &Host,
    ) -> Result<io::Result<()>, CopyError> {
        let own = rustix::system::uname();
        let own = format!("{} {}", own.sysname().to_string_lossy(), own.machine().to_string_lossy());
        if own != machine {
            return Err(host.unreachable(format!(
                "it has no weir {version}, and this one is for {own} while it is {machine}; install weir there, or name it by \
                 --far-program"
            )));
        }
        tracing::info!("copying weir to {}", host.shown());
        // What it prints from here on is our script's, which may wait for a slow path to bring all of this.
        (far.heard, far.told) = (false, false);
        let input = far.input.as_mut().ok_or_else(|| host.unreachable("ssh closed its input".into()))?;
        let sent = self.sha256().and_then(|digest| {
            input.write_all(format!("send {digest}\n").as_bytes())?;
            self.file.rewind()?;
            io::copy(&mut (&self.file).take(self.size), input)?;
            input.flush()
        });
        if sent.as_ref().is_err_and(|error| crate::idle_timeout::ended(error).is_some()) {
            return Err(CopyError::Interrupted);
        }
        Ok(sent)
    }
}

/// The bytes of a file from where it stands to its end, and how many they are.
fn each_piece(file: &mut File, mut take: impl FnMut(&[u8])) -> io::Result<u64> {
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

/// What the far shell runs. No single quote, backslash before a quote, or exclamation mark may be in it, so that it is one word for
/// any login shell.
///
/// A program in a folder is started only if it, and every folder of ours on the way, is this user's and written by nobody else, and
/// if it says of itself that it has its digest: in a cache that others may write lies whatever they want. A group of the
/// user's own number is the user. Where the cache is of no use (foreign, read-only, full, without execution) a fresh folder is
/// made where temporary files go, and is gone again before its program runs.
pub(super) fn script(version: &str, program: &Program) -> String {
    let Program { name, size, .. } = program;
    let safe: String = version.chars().filter(|c| c.is_ascii_alphanumeric() || ".-".contains(*c)).collect();
    let script = format!(
        "set -f; u=$(id -u); b=${{XDG_CACHE_HOME:-$HOME/.cache}}; c=$b/weir/{safe}-{name}; w=$c/weir; y=; \
         say() {{ printf \"\\036weir-%s\\n\" \"$*\"; }}; \
         ok() {{ [ -h \"$1\" ] && return 1; set -- $(ls -ldn \"$1\" 2>/dev/null) - - - -; \
         case $1 in ????????w*) return 1;; ?????w*) [ \"$4\" = \"$u\" ] || return 1;; esac; [ \"$3\" = \"$u\" ]; }}; \
         way() {{ ok \"$b\" && ok \"$b/weir\" && ok \"$c\"; }}; \
         runs() {{ e=$(\"$w\" peer --is {name} 2>&1 </dev/null); }}; \
         way && ok \"$w\" && runs && exec \"$w\" peer; \
         [ \"$(weir --version 2>/dev/null </dev/null)\" = \"weir {version}\" ] && exec weir peer; \
         m=$(umask); umask 077; \
         for p in \"$b\" /dev/shm \"${{TMPDIR:-/tmp}}\" /var/tmp; do \
         case $p in \"$b\") e=$(mkdir -p \"$c\" 2>&1) || {{ y=\"$y $e;\"; continue; }}; \
         way || {{ y=\"$y others may write $b;\"; continue; }};; \
         *) c=$(mktemp -d \"$p/weir.XXXXXX\" 2>/dev/null) || continue;; esac; \
         w=$c/weir; t=$c/weir.$$; \
         say \"absent $(uname -sm)\"; read -r go d && [ \"$go\" = send ] \
         || {{ rmdir \"$c\" \"${{c%/*}}\" 2>/dev/null; exit 0; }}; \
         if e=$({{ head -c {size} | {{ cat >\"$t\" || {{ cat >/dev/null; false; }}; }}; }} 2>&1) \
         && case $(sha256sum <\"$t\") in \"$d \"*) ;; *) e=\"$c: the copy does not have its digest\"; false;; esac \
         && e=$({{ chmod 700 \"$t\" && mv -f \"$t\" \"$w\"; }} 2>&1) && runs; then umask \"$m\"; say stored; \
         case $p in \"$b\") exec \"$w\" peer;; *) exec 9<\"$w\"; rm -rf \"$c\"; exec /proc/self/fd/9 peer;; esac; fi; \
         y=\"$y $e;\"; rm -f \"$t\" \"$w\"; case $p in \"$b\") ;; *) rm -rf \"$c\";; esac; \
         done; say failed no folder there serves for weir: $y {WAY_OUT}; exit 1"
    );
    format!("exec sh -c '{script}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_word_for_any_shell() {
        let file = tempfile::tempfile().unwrap();
        let program = Program { file, name: "0123456789abcdef".into(), size: 7 };
        let script = script("0.1.0 (abc)", &program);
        let inner = script.strip_prefix("exec sh -c '").and_then(|rest| rest.strip_suffix('\'')).unwrap();
        assert!(!inner.contains(['\'', '\n', '!']) && !inner.contains("\\\\") && !inner.contains("\\\""));
        assert!(inner.contains("weir/0.1.0abc-0123456789abcdef;"));
        let parsed = Command::new("sh").args(["-n", "-c", inner]).status().unwrap();
        assert!(parsed.success());
    }
}
