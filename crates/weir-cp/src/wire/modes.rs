//! Changes of modes on the way (rsync's `--chmod`).

use serde::{Deserialize, Serialize};

/// All bits that chmod(2) sets.
const ALL: u32 = 0o7777;

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeChange {
    /// Of folders alone, or of all else alone.
    only: Option<Only>,
    /// Bits that stay.
    keep: u32,
    /// Bits that come.
    add: u32,
    /// Permission to run comes only to folders, and to what somebody may run (`X`).
    run_where_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Only {
    Directories,
    Others,
}

impl ModeChange {
    /// Changes nothing: that modes were asked for is all it says.
    pub const NONE: ModeChange = ModeChange { only: None, keep: ALL, add: 0, run_where_run: false };
}

/// The mode after all changes.
pub fn changed(changes: &[ModeChange], mode: u32, is_directory: bool) -> u32 {
    let may_run = is_directory || mode & 0o111 != 0;
    changes.iter().fold(mode, |mode, change| {
        let concerns = match change.only {
            Some(Only::Directories) => is_directory,
            Some(Only::Others) => !is_directory,
            None => true,
        };
        let add = if change.run_where_run && !may_run { change.add & !0o111 } else { change.add };
        if concerns { (mode & change.keep | add) & ALL } else { mode }
    })
}

/// Parses changes as rsync writes them (rsync(1), --chmod): parts with commas between, each perhaps with `D`
/// or `F` in front, then an octal mode or `[ugoa][+-=][rwxXst]`. Without a letter for whom, `umask` holds
/// bits back.
pub fn parse(text: &str, umask: u32) -> Result<Vec<ModeChange>, String> {
    let bad = || format!("invalid --chmod '{text}': expected such as D755,F644, u+rwX or go-w");
    text.split(',').map(|part| parse_part(part, umask).ok_or_else(bad)).collect()
}

fn parse_part(part: &str, umask: u32) -> Option<ModeChange> {
    let (only, rest) = match part.as_bytes().first()? {
        b'D' => (Some(Only::Directories), &part[1..]),
        b'F' => (Some(Only::Others), &part[1..]),
        _ => (None, part),
    };
    if rest.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
        let add = u32::from_str_radix(rest, 8).ok().filter(|mode| *mode <= ALL)?;
        return Some(ModeChange { only, keep: 0, add, run_where_run: false });
    }
    let sign = rest.find(['+', '-', '='])?;
    let (whom, sign, what) = (&rest[..sign], rest.as_bytes()[sign], &rest[sign + 1..]);
    let mut places = 0;
    for letter in whom.bytes() {
        places |= match letter {
            b'u' => 0o100,
            b'g' => 0o010,
            b'o' => 0o001,
            b'a' => 0o111,
            _ => return None,
        };
    }
    let (mut bits, mut special, mut run_where_run) = (0, 0, false);
    for letter in what.bytes() {
        match letter {
            b'r' => bits |= 4,
            b'w' => bits |= 2,
            b'x' => bits |= 1,
            b'X' => (bits, run_where_run) = (bits | 1, true),
            b's' if whom.is_empty() || places == 0o111 => special |= 0o6000,
            b's' => special |= (places & 0o100) << 5 | (places & 0o010) << 7,
            b't' => special |= 0o1000,
            _ => return None,
        }
    }
    let (places, held_back) = if whom.is_empty() { (0o111, umask & 0o777) } else { (places, 0) };
    let bits = (places * bits) & !held_back | special;
    let (keep, add) = match sign {
        b'+' => (ALL, bits),
        b'-' => (ALL & !bits, 0),
        _ => (ALL & !(places * 7) & !special, bits),
    };
    Some(ModeChange { only, keep, add, run_where_run: run_where_run && sign != b'-' })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_chmod_has_it() {
        for (text, mode, is_directory, expected) in [
            ("D755,F644", 0o700, true, 0o755),
            ("D755,F644", 0o700, false, 0o644),
            ("u+rwX", 0o400, false, 0o600),
            ("u+rwX", 0o410, false, 0o710),
            ("go-w", 0o666, false, 0o644),
            ("a=r", 0o777, true, 0o444),
            ("+w", 0o444, false, 0o644),
            ("ug=rwx,o=", 0o007, false, 0o770),
            ("u+s", 0o755, false, 0o4755),
            ("g+s", 0o755, true, 0o2755),
            ("+t", 0o755, true, 0o1755),
            ("Dg+s,Fo-rwx", 0o755, false, 0o750),
            ("a-X", 0o755, false, 0o644),
        ] {
            assert_eq!(changed(&parse(text, 0o022).unwrap(), mode, is_directory), expected, "{text}");
        }
        assert_eq!(changed(&[ModeChange::NONE], 0o4751, false), 0o4751);
        for bad in ["", "D", "9", "u", "u?r", "z+r", "u+q", "77777", "u+r,,"] {
            assert!(parse(bad, 0o022).is_err(), "{bad}");
        }
    }
}
