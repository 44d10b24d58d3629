//! This very version on a far host: found there by its digest, or copied there over ssh's streams. Which
//! build that is says [`super::builds`].

use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;

use super::builds::{self, Build};
use super::{Far, Greeting, Host};
use crate::error::CopyError;
use crate::idle_timeout::{Ended, IDLE_TIMEOUT};

/// What helps where no folder there is of use. In the far shell's words: no quotes.
const WAY_OUT: &str = "set XDG_CACHE_HOME there to a folder of your own where programs run, or install weir there and name it by --far-program";

/// Folders that the script tries: it asks for the program at most so often.
const PLACES: u32 = 4;

/// What a far host is to have, and what it is chosen from.
#[derive(Debug)]
pub(super) struct Program<'a> {
    build: Build,
    version: &'a str,
    /// Builds that the user names.
    named: &'a [PathBuf],
    /// Why there is none for the far machine.
    missing: Option<String>,
}

impl<'a> Program<'a> {
    /// The build for hosts like this one, until the far host says that it is another machine.
    pub(super) fn own(version: &'a str, named: &'a [PathBuf]) -> Result<Program<'a>, CopyError> {
        Ok(Program { build: Build::own(version, named)?, version, named, missing: None })
    }

    /// Waits until it runs there; sends it as often as the far shell has another folder for it.
    pub(super) fn settle(&mut self, far: &mut Far, host: &Host) -> Result<(), CopyError> {
        let mut sent = Ok(());
        for _ in 0..=PLACES {
            match far.greeting(host)? {
                Greeting::Ready => return sent.map_err(|error| host.unreachable(weir_units::plain(&error))),
                Greeting::Machine(machine) => self.choose(far, &machine, host)?,
                Greeting::Absent(machine) => sent = self.send(far, &machine, host)?,
            }
        }
        Err(host.unreachable("weir could not be copied there".into()))
    }

    /// Takes the build for that machine and tells the far shell what it is; where there is none the shell may
    /// still find an installed weir.
    fn choose(&mut self, far: &mut Far, machine: &str, host: &Host) -> Result<(), CopyError> {
        let line = match Build::other(machine, self.version, self.named) {
            Ok(build) => {
                self.build = build;
                format!("build {} {}\n", self.build.name, self.build.size)
            }
            Err(why) => {
                self.missing = Some(why);
                "build none 0\n".to_owned()
            }
        };
        let input = far.input.as_mut().ok_or_else(|| host.unreachable("ssh closed its input".into()))?;
        // Where this breaks off the far side says why.
        match input.write_all(line.as_bytes()).and_then(|()| input.flush()) {
            Err(error) if crate::idle_timeout::ended(&error).is_some() => Err(CopyError::Interrupted),
            _ => Ok(()),
        }
    }

    /// Copies the build there. Where that breaks off the far side says why.
    fn send(&mut self, far: &mut Far, machine: &str, host: &Host) -> Result<io::Result<()>, CopyError> {
        if let Some(why) = self.missing.take() {
            return Err(host.unreachable(why));
        }
        let Build { words, size, .. } = &self.build;
        if words != machine {
            let version = self.version;
            return Err(host.unreachable(format!(
                "it has no weir {version}, and this one is for {words} while it is {machine}; install weir there, or name \
                 it by --far-program"
            )));
        }
        let (size, for_it) = (*size, if *words == builds::own_words() { "" } else { words.as_str() });
        tracing::info!(
            "copying weir{}{for_it} to {}",
            if for_it.is_empty() { "" } else { " for " },
            host.shown()
        );
        // What it prints from here on is our script's, which may wait for a slow path to bring all of this.
        (far.heard, far.told) = (false, false);
        let input = far.input.as_mut().ok_or_else(|| host.unreachable("ssh closed its input".into()))?;
        input.limit = Some(IDLE_TIMEOUT);
        let sent = self.build.sha256().and_then(|digest| {
            input.write_all(format!("send {digest}\n").as_bytes())?;
            self.build.file.rewind()?;
            io::copy(&mut (&self.build.file).take(size), input)?;
            input.flush()
        });
        match sent.as_ref().err().and_then(crate::idle_timeout::ended) {
            None => Ok(sent),
            Some(Ended::Interrupted) => Err(CopyError::Interrupted),
            Some(hangs) => Err(host.unreachable(format!("weir was being copied there, and {hangs}"))),
        }
    }
}

/// What the far shell runs. No single quote, backslash before a quote, or exclamation mark may be in it, so
/// that it is one word for any login shell.
///
/// A program in a folder is started only if it, and every folder of ours on the way, is this user's and
/// written by nobody else, and if it says of itself that it has its digest: in a cache that others may write
/// lies whatever they want. A group of the user's own number is the user. Where the cache is of no use
/// (foreign, read-only, full, without execution) a fresh folder is made where temporary files go, and is gone
/// again before its program runs.
///
/// A host that is another machine than the build is for says so and waits for a line with the digest and size
/// of the build for it.
pub(super) fn script(program: &Program<'_>) -> String {
    let Program { build: Build { name, size, words, .. }, version, .. } = program;
    let safe: String = version.chars().filter(|c| c.is_ascii_alphanumeric() || ".-".contains(*c)).collect();
    let words: String = words.chars().filter(|c| c.is_ascii_alphanumeric() || "._- ".contains(*c)).collect();
    let script = format!(
        "set -f; u=$(id -u); say() {{ printf \"\\036weir-%s\\n\" \"$*\"; }}; \
         n={name}; s={size}; a=$(uname -sm); case $a in \"{words}\") ;; \
         *) say \"machine $a\"; read -r go n s && [ \"$go\" = build ] || exit 0;; esac; \
         b=${{XDG_CACHE_HOME:-$HOME/.cache}}; c=$b/weir/{safe}-$n; w=$c/weir; y=; \
         ok() {{ [ -h \"$1\" ] && return 1; set -- $(ls -ldn \"$1\" 2>/dev/null) - - - -; \
         case $1 in ????????w*) return 1;; ?????w*) [ \"$4\" = \"$u\" ] || return 1;; esac; [ \"$3\" = \"$u\" ]; }}; \
         way() {{ ok \"$b\" && ok \"$b/weir\" && ok \"$c\"; }}; \
         runs() {{ e=$(\"$w\" peer --is \"$n\" 2>&1 </dev/null); }}; \
         way && ok \"$w\" && runs && exec \"$w\" peer; \
         [ \"$(weir --version 2>/dev/null </dev/null)\" = \"weir {version}\" ] && exec weir peer; \
         m=$(umask); umask 077; \
         for p in \"$b\" /dev/shm \"${{TMPDIR:-/tmp}}\" /var/tmp; do \
         case $p in \"$b\") e=$(mkdir -p \"$c\" 2>&1) || {{ y=\"$y $e;\"; continue; }}; \
         way || {{ y=\"$y others may write $b;\"; continue; }};; \
         *) c=$(mktemp -d \"$p/weir.XXXXXX\" 2>/dev/null) || continue;; esac; \
         w=$c/weir; t=$c/weir.$$; \
         say \"absent $a\"; read -r go d && [ \"$go\" = send ] \
         || {{ rmdir \"$c\" \"${{c%/*}}\" 2>/dev/null; exit 0; }}; \
         if e=$({{ head -c \"$s\" | {{ cat >\"$t\" || {{ cat >/dev/null; false; }}; }}; }} 2>&1) \
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
        let build = Build { file, name: "0123456789abcdef".into(), size: 7, words: "Linux x86_64".into() };
        let script = script(&Program { build, version: "0.1.0 (abc)", named: &[], missing: None });
        let inner = script.strip_prefix("exec sh -c '").and_then(|rest| rest.strip_suffix('\'')).unwrap();
        assert!(!inner.contains(['\'', '\n', '!']) && !inner.contains("\\\\") && !inner.contains("\\\""));
        assert!(inner.contains("n=0123456789abcdef; s=7;") && inner.contains("weir/0.1.0abc-$n;"));
        let parsed = std::process::Command::new("sh").args(["-n", "-c", inner]).status().unwrap();
        assert!(parsed.success());
    }
}
