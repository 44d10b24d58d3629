//! What fingers that know rsync type for `weir cp` and `weir plan` where ssh's flags, as scp has them, go by
//! the same letters.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Flags whose next word may look like a flag: `-f -hidden`, `--exclude -avh`.
const TAKES_A_PATTERN: [&str; 6] =
    ["--exclude", "--include", "--exclude-from", "--include-from", "--filter", "-f"];

/// Letters of `weir cp` that have no value, and those of rsync that stand among them.
const LETTERS: &str = "avrutpzqnHXACLKbxDhFlgoWP";

/// What rsync's `-F` stands for, once and again (rsync(1)).
const FILTERS: [&str; 2] = ["--filter=: /.rsync-filter", "--filter=- .rsync-filter"];

/// The same words with weir's own in the place of rsync's, up to a `--`.
pub(super) fn words(given: Vec<OsString>) -> Vec<OsString> {
    let mut words = Vec::with_capacity(given.len());
    let (mut is_value, mut filters) = (false, FILTERS.iter());
    let mut rest = given.into_iter().peekable();
    while let Some(word) = rest.next() {
        if word == "--" {
            words.push(word);
            words.extend(rest);
            break;
        }
        if std::mem::take(&mut is_value) {
            words.push(word);
            continue;
        }
        is_value = word.to_str().is_some_and(|word| TAKES_A_PATTERN.contains(&word));
        match of_letters(&word, rest.peek().map(OsString::as_os_str)) {
            Some((letters, count)) => {
                words.extend(letters.map(OsString::from));
                words.extend(filters.by_ref().take(count).map(OsString::from));
            }
            None => words.push(word),
        }
    }
    words
}

/// Of letters behind one `-` what is left of them, and how often rsync's `-F` is among them; `None` of
/// another word.
fn of_letters(word: &OsStr, next: Option<&OsStr>) -> Option<(Option<String>, usize)> {
    let letters = word.to_str()?.strip_prefix('-')?;
    if letters.is_empty() || !letters.chars().all(|letter| LETTERS.contains(letter)) {
        return None;
    }
    if is_sshs(letters, next) {
        return None;
    }
    let filters = match letters.split_once('F') {
        Some((_, "")) if !is_rsyncs(next) => return None,
        Some((_, file)) if !file.is_empty() && Path::new(file).is_file() => return None,
        _ => letters.matches('F').count(),
    };
    // Figures are for people anyway (rsync's -avh); alone `-h` asks for help.
    let left: String = letters.chars().filter(|letter| !"FlWP".contains(*letter)).collect();
    // Owner and group are part of -a.
    let left = if left.contains(['g', 'o']) { left.replace(['g', 'o', 'a'], "") + "a" } else { left };
    let left = if left == "h" { left } else { left.replace('h', "") };
    Some(((!left.is_empty()).then(|| format!("-{left}")), filters))
}

/// Whether letters are ssh's and scp's: `-P` and `-l` with the number that they take there, `-o` with its
/// option. An owner without a group, or the other way round, is more than weir can keep alone.
fn is_sshs(letters: &str, next: Option<&OsStr>) -> bool {
    let next = next.and_then(OsStr::to_str).unwrap_or_default();
    let is_number = !next.is_empty() && next.bytes().all(|byte| byte.is_ascii_digit());
    let has = |letter| letters.contains(letter);
    letters.ends_with(['P', 'l']) && is_number
        || letters.ends_with('o') && (letters.len() == 1 || next.contains('='))
        || (has('g') || has('o')) && !has('a') && !(has('g') && has('o'))
}

/// Whether what is behind a `-F` is no configuration of ssh's, which it takes here: nothing, a flag, a
/// folder, or what is on a host.
fn is_rsyncs(next: Option<&OsStr>) -> bool {
    let Some(next) = next else { return true };
    let text = next.to_string_lossy();
    let is_far = text.split('/').next().is_some_and(|first| first.contains(':'));
    text.starts_with('-') || is_far || Path::new(next).is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_rsyncs_where_ssh_has_no_use_for_them() {
        for (given, expected) in [
            ("cp -avh a b", "cp -av a b"),
            ("cp -h", "cp -h"),
            ("cp --exclude -avh a b", "cp --exclude -avh a b"),
            ("cp -aF / b", "cp -a --filter=:_/.rsync-filter / b"),
            ("cp -FF -a x b", "cp --filter=:_/.rsync-filter --filter=-_.rsync-filter -a x b"),
            ("cp -F -F host:x b", "cp --filter=:_/.rsync-filter --filter=-_.rsync-filter host:x b"),
            ("cp -aFv x b", "cp -av --filter=:_/.rsync-filter x b"),
            ("cp -F ssh_config host:x b", "cp -F ssh_config host:x b"),
            ("cp -F none host:x b", "cp -F none host:x b"),
            ("cp -Fmy_config host:x b", "cp -Fmy_config host:x b"),
            ("cp -- -F -avh", "cp -- -F -avh"),
            ("cp -rlptgoD a b", "cp -rptDa a b"),
            ("cp -avog a b", "cp -va a b"),
            ("cp -avP a b", "cp -av a b"),
            ("cp -P a b", "cp a b"),
            ("cp a b -avP", "cp a b -av"),
            ("cp -P 2222 a b", "cp -P 2222 a b"),
            ("cp -rP 2222 a b", "cp -rP 2222 a b"),
            ("cp -rl a b", "cp -r a b"),
            ("cp -l 800 a b", "cp -l 800 a b"),
            ("cp -W a b", "cp a b"),
            ("cp -g a b", "cp -g a b"),
            ("cp -ro a b", "cp -ro a b"),
            ("cp -ao BatchMode=yes a b", "cp -ao BatchMode=yes a b"),
        ] {
            let given = given.split(' ').map(OsString::from).collect();
            let said: Vec<String> =
                words(given).iter().map(|word| word.to_str().unwrap().replace(' ', "_")).collect();
            assert_eq!(said.join(" "), expected);
        }
    }
}
