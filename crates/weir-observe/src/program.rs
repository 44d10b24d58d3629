//! Which stage of a copy does a program do? Told by its name and arguments, for the programs that people
//! build pipes of.

use weir_model::limit::Limit;

use crate::process::Pid;

/// Programs that compress unless they are told to do the opposite.
const PACKERS: [&str; 18] = [
    "gzip", "pigz", "bzip2", "pbzip2", "lbzip2", "xz", "pxz", "zstd", "zstdmt", "pzstd", "lz4", "lzop",
    "brotli", "qpress", "snzip", "lzip", "plzip", "compress",
];

/// Programs whose work on a stream is its cipher.
const CIPHERS: [&str; 6] = ["ssh", "sshd", "sshd-session", "stunnel", "gpg", "age"];

/// What this process does all the time when it works on a stream; `None` where its name says nothing.
pub fn stage_of(pid: Pid, name: &str) -> Option<Limit> {
    if !PACKERS.contains(&name) && !CIPHERS.contains(&name) {
        return None;
    }
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<&str> =
        line.split(|byte| *byte == 0).filter_map(|word| str::from_utf8(word).ok()).collect();
    stage_by(name, words.get(1..).unwrap_or_default())
}

/// The same, of a program's name (as `/proc/PID/comm` has it) and its arguments.
pub(crate) fn stage_by(name: &str, arguments: &[&str]) -> Option<Limit> {
    if PACKERS.contains(&name) {
        return (!arguments.iter().any(|word| unpacks(word))).then_some(Limit::Compress);
    }
    if !CIPHERS.contains(&name) {
        return None;
    }
    // zlib is ten times slower than any of ssh's ciphers on processors with AES instructions.
    let packs = ssh_options(arguments).any(ssh_packs);
    Some(if packs { Limit::Compress } else { Limit::Encrypt })
}

/// `-d` alone or among other letters, or in words.
fn unpacks(word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => ["decompress", "uncompress", "decode", "test", "list"].contains(&long),
        None => word.strip_prefix('-').is_some_and(|letters| letters.contains(['d', 't', 'l'])),
    }
}

/// Those of ssh's arguments that come before the host: what follows is the far command's.
fn ssh_options<'a>(arguments: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let mut is_value = false;
    arguments.iter().copied().take_while(move |word| {
        let goes_on = is_value || word.starts_with('-') && *word != "--";
        // An option with a value (ssh(1)), which is the next word where the option's letter is the last of
        // this one.
        let option = word.find(|letter| "BbcDEeFIiJLlmOoPpQRSWw".contains(letter));
        is_value = !is_value && word.starts_with('-') && option == Some(word.len() - 1);
        goes_on
    })
}

/// `-C`, alone or among other letters without a value, or the option by its name.
fn ssh_packs(word: &str) -> bool {
    let option = word.trim_start_matches("-o").trim().to_ascii_lowercase().replace(' ', "=");
    let letters = |letters: &str| {
        !letters.is_empty() && letters.chars().all(|letter| "1246AaCfGgKkMNnqsTtVvXxYy".contains(letter))
    };
    option == "compression=yes"
        || word.strip_prefix('-').is_some_and(|word| word.contains('C') && letters(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_name_and_arguments() {
        for (name, arguments, stage) in [
            ("gzip", &["-c", "file"][..], Some(Limit::Compress)),
            ("gzip", &["-9"], Some(Limit::Compress)),
            ("gzip", &["-dc"], None),
            ("zstd", &["--decompress"], None),
            ("ssh", &["-x", "far", "scp -t"], Some(Limit::Encrypt)),
            ("ssh", &["-x", "-oForwardAgent=no", "-C", "far"], Some(Limit::Compress)),
            ("ssh", &["-oCompression=yes", "far"], Some(Limit::Compress)),
            ("ssh", &["-qC", "far"], Some(Limit::Compress)),
            (
                "ssh",
                &["-vp", "22", "-oForwardAgent=no", "-o", "Compression yes", "far", "true"],
                Some(Limit::Compress),
            ),
            ("ssh", &["-i", "key", "far", "tar", "-C", "/to", "-xf", "-"], Some(Limit::Encrypt)),
            ("ssh", &["-oControlPath=C", "far"], Some(Limit::Encrypt)),
            ("sshd", &[], Some(Limit::Encrypt)),
            ("wget", &["-C"], None),
        ] {
            assert_eq!(stage_by(name, arguments), stage, "{name} {arguments:?}");
        }
    }
}
