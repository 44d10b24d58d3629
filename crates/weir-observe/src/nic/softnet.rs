//! How many packets did the kernel drop, or leave for later, because a processor had no time for them?

use crate::error::{Malformed, ObserveError};
use crate::proc_file::ProcFile;

/// Of all processors, since the machine started. Each processor's counters wrap at 2^32.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Softnet {
    /// Packets dropped because a processor's queue (`net.core.netdev_max_backlog`) was full.
    pub dropped: u64,
    /// Times that the work was broken off at its limit (`net.core.netdev_budget`) with packets left.
    pub squeezed: u64,
}

/// Reads `/proc/net/softnet_stat`: a line a processor, hexadecimal: processed, dropped, squeezed
/// (softnet_seq_show in net/core/net-procfs.c).
pub fn parse(text: &str) -> Result<Softnet, Malformed> {
    let mut sum = Softnet::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace().skip(1);
        let mut field = |name: &str| {
            let word = words.next().ok_or_else(|| Malformed(format!("no {name}")))?;
            let wrong = |_| Malformed(format!("{name} is '{word}', not a hexadecimal number"));
            u32::from_str_radix(word, 16).map(u64::from).map_err(wrong)
        };
        sum.dropped += field("count of dropped packets")?;
        sum.squeezed += field("count of squeezed rounds")?;
    }
    Ok(sum)
}

/// `/proc/net/softnet_stat`, kept open.
#[derive(Debug)]
pub struct SoftnetReader(ProcFile);

impl SoftnetReader {
    /// Fails where `/proc` is not mounted.
    pub fn open() -> Result<SoftnetReader, ObserveError> {
        ProcFile::open("/proc/net/softnet_stat").map(SoftnetReader)
    }

    /// The counts up to now.
    pub fn read(&mut self) -> Result<Softnet, ObserveError> {
        self.0.read(parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_add_up() {
        let text = "020ce6e5 00000002 00000006 00000000\n02088866 00000000 0000000a 00000000\n";
        assert_eq!(parse(text), Ok(Softnet { dropped: 2, squeezed: 16 }));
        assert_eq!(parse(""), Ok(Softnet::default()));
        assert_eq!(parse("1 2\n"), Err(Malformed("no count of squeezed rounds".into())));
        assert!(parse("1 x 3\n").is_err());
        SoftnetReader::open().unwrap().read().unwrap();
    }
}
