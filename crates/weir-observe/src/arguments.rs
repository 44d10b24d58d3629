//! Which words of this process's command line can everybody read (/proc/PID/cmdline, ps)? Those that hold a
//! secret are overwritten where they lie, as curl does it.
//!
//! The kernel shows the memory that execve(2) filled, so that is where to write; `/proc/self/stat` says where
//! it is, whichever C library passes argc and argv on, or does not (musl's static start-up). `/proc/self/mem`
//! writes it without a pointer.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::error::Malformed;

/// The most memory that the kernel hands to a program as its words: a quarter of the stack's limit, at most 6
/// MiB (execve(2), Limits on size of arguments and environment).
const MOST: u64 = 6 << 20;

/// Overwrites the bytes that `secret` finds in each word with `*`. Its length remains visible, as with curl.
///
/// Copies made before, such as a parsed command line, stay as they are.
pub fn blank(secret: impl Fn(&[u8]) -> Vec<Range<usize>>) -> io::Result<()> {
    let unexpected = |found: Malformed| io::Error::new(io::ErrorKind::InvalidData, found.0);
    let place = parse_place(&std::fs::read_to_string("/proc/self/stat")?).map_err(unexpected)?;
    let memory = OpenOptions::new().read(true).write(true).open("/proc/self/mem")?;
    let mut words = vec![0; usize::try_from(place.end - place.start).unwrap_or_default()];
    memory.read_exact_at(&mut words, place.start)?;
    let mut at = 0;
    for word in words.split(|byte| *byte == 0) {
        for range in secret(word) {
            overwrite(&memory, place.start + (at + range.start) as u64, range.len())?;
        }
        at += word.len() + 1;
    }
    Ok(())
}

fn overwrite(memory: &File, at: u64, length: usize) -> io::Result<()> {
    memory.write_all_at(&vec![b'*'; length], at)
}

/// Fields 48 and 49 of proc_pid_stat(5), `arg_start` and `arg_end`.
fn parse_place(stat: &str) -> Result<Range<u64>, Malformed> {
    // The second field is the program's name, which may hold blanks and parentheses.
    let rest = stat.rsplit_once(") ").ok_or_else(|| Malformed("no name in it".to_owned()))?.1;
    let mut fields = rest.split_ascii_whitespace().skip(48 - 3);
    let mut next = || fields.next().and_then(|field| field.parse::<u64>().ok());
    match (next(), next()) {
        (Some(start), Some(end)) if start > 0 && start <= end && end - start <= MOST => Ok(start..end),
        _ => Err(Malformed("no arg_start and arg_end in it".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_found_behind_any_name() {
        let numbers: Vec<String> = (4..=52).map(|field| (field * 100).to_string()).collect();
        let stat = |name: &str| format!("17 ({name}) S {}\n", numbers.join(" "));
        for name in ["weir", "a) S 1 2 3", "a b"] {
            assert_eq!(parse_place(&stat(name)), Ok(4800..4900), "{name}");
        }
        for broken in ["", "17 (weir) S 1 2", "17 weir"] {
            assert!(parse_place(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn what_the_kernel_shows_is_overwritten() {
        let before = std::fs::read("/proc/self/cmdline").unwrap();
        let program = before.split(|byte| *byte == 0).next().unwrap();
        // None of this test's own words is needed any more, so the first letter of the program's may go.
        blank(|word| std::iter::repeat_n(0..1, usize::from(word == program)).collect()).unwrap();
        let after = std::fs::read("/proc/self/cmdline").unwrap();
        assert_eq!(after[0], b'*');
        assert_eq!(after[1..], before[1..]);
    }
}
