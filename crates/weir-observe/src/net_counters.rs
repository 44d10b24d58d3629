//! How many connections of a network namespace failed, or were dropped at a full listener?
//!
//! `/proc/PID/net/snmp` and `netstat` are pairs of lines, names above numbers (net/ipv4/proc.c), and show the
//! namespace of the process. Both count for everybody in it.

use crate::error::{Malformed, ObserveError};
use crate::proc_file::{ProcFile, number};
use crate::process::Pid;

/// The counters since the namespace was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetCounters {
    /// Attempts to connect that failed before a connection was there (`Tcp: AttemptFails`).
    pub failed_attempts: u64,
    /// Times that a listener's queue was full when a connection came (`TcpExt: ListenOverflows`).
    pub listen_overflows: u64,
}

/// Both files, kept open. They show the namespace in which the process lived when they were opened.
#[derive(Debug)]
pub struct NetCountersReader {
    snmp: ProcFile,
    netstat: ProcFile,
}

impl NetCountersReader {
    /// Opens the counters of the process's namespace.
    pub fn open(pid: Pid) -> Result<NetCountersReader, ObserveError> {
        let snmp = ProcFile::open(format!("/proc/{pid}/net/snmp"))?;
        Ok(NetCountersReader { snmp, netstat: ProcFile::open(format!("/proc/{pid}/net/netstat"))? })
    }

    /// The counters now. Costs some 30 us.
    pub fn read(&mut self) -> Result<NetCounters, ObserveError> {
        Ok(NetCounters {
            failed_attempts: self.snmp.read(|text| parse(text, "Tcp:", "AttemptFails"))?,
            listen_overflows: self.netstat.read(|text| parse(text, "TcpExt:", "ListenOverflows"))?,
        })
    }
}

/// The number under `name` in the pair of lines that begin with `group`.
pub fn parse(text: &str, group: &str, name: &str) -> Result<u64, Malformed> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else {
        return Err(Malformed(format!("no lines {group}")));
    };
    let place = names.split_ascii_whitespace().position(|word| word == name);
    let place = place.ok_or_else(|| Malformed(format!("no {name}")))?;
    number(name, numbers.split_ascii_whitespace().nth(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = include_str!("../tests/data/6.18/snmp");
    const NETSTAT: &str = include_str!("../tests/data/6.18/netstat");

    #[test]
    fn captured_counters_are_found_by_name() {
        assert!(parse(SNMP, "Tcp:", "AttemptFails").unwrap() > 0);
        assert!(parse(NETSTAT, "TcpExt:", "ListenOverflows").unwrap() > 0);
        assert_eq!(parse(SNMP, "Tcp:", "NoSuch"), Err(Malformed("no NoSuch".to_owned())));
        for length in 0..SNMP.len() {
            let _ = parse(&SNMP[..length], "Tcp:", "AttemptFails");
        }
    }

    #[test]
    fn this_namespace_has_both() {
        NetCountersReader::open(Pid(std::process::id())).unwrap().read().unwrap();
    }
}
