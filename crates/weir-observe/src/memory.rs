//! What is the most memory that this process ever held?

use crate::error::{Error, Malformed};
use crate::proc_file::{number, read_once};

/// Picks `VmHWM`, the peak of the resident set, out of `/proc/PID/status`; bytes.
pub fn parse(text: &str) -> Result<u64, Malformed> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    // "kB" here means 1024 bytes (fs/proc/task_mmu.c, SEQ_PUT_DEC).
    let value = line.map(|line| line.trim().trim_end_matches(" kB"));
    number("VmHWM", value).map(|kib| kib.saturating_mul(1024))
}

/// This process's peak resident set, bytes; pages of mapped files count while they are resident. The kernel counts in
/// batches, so it may be off by some hundred KiB.
pub fn peak_rss() -> Result<u64, Error> {
    read_once("/proc/self/status", parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_status() {
        let text = include_str!("../tests/data/6.18/status");
        let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        let kib: u64 = line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
        assert_eq!(parse(text), Ok(kib * 1024));
    }

    #[test]
    fn truncated_or_odd_status_is_an_error() {
        assert_eq!(parse("Name:\tkthreadd\nState:\tS\n"), Err(Malformed("no VmHWM".into())));
        assert!(parse("VmHWM:\t").is_err());
        assert!(parse("VmHWM:\t  lots kB\n").is_err());
    }

    #[test]
    fn this_process_holds_some_memory() {
        assert!(peak_rss().unwrap() > 100_000);
    }
}
