//! What `weir bench cipher` adds to a record: a table of ciphers, and what ssh makes of its own.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use weir_units::Rate;

use crate::codecs::SpeedRecord;
use crate::escape::escape;
use crate::figures::binary;

/// The member `ciphers` of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CiphersRecord {
    /// The table.
    pub rows: Vec<CipherRow>,
    /// ssh's own ciphers, through an sshd on this machine.
    pub ssh: Vec<SshRow>,
    /// Which of them ssh takes unless it is told another; `null` where that is not known.
    pub ssh_usual: Option<String>,
    /// Why ssh's are missing, or not all there; `null` where they are.
    pub ssh_missing: Option<String>,
}

/// One cipher at one record size, on one core.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CipherRow {
    /// `aes-128-gcm`.
    pub cipher: String,
    /// Bytes of a record.
    pub record: usize,
    /// Sealing.
    pub seal: SpeedRecord,
    /// Opening.
    pub open: SpeedRecord,
}

/// One of ssh's ciphers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SshRow {
    /// As `ssh -c` takes it.
    pub cipher: String,
    /// From ssh's stdin to the far command's, one core on each side.
    pub speed: SpeedRecord,
}

/// The tables for people.
pub fn render_table(ciphers: &CiphersRecord, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:<30} {:>9}  {:>15}  {:>15}", "cipher, one core", "record", "seal", "open")?;
    for row in &ciphers.rows {
        let record = binary(row.record as u64);
        writeln!(out, "{:<30} {record:>9}  {}  {}", row.cipher, speed(row.seal), speed(row.open))?;
    }
    if !ciphers.ssh.is_empty() {
        writeln!(out, "\n{:<30} {:>9}  {:>15}", "ssh over loopback, two cores", "", "through sshd")?;
    }
    for row in &ciphers.ssh {
        let usual = if ciphers.ssh_usual.as_ref() == Some(&row.cipher) { "  by itself" } else { "" };
        writeln!(out, "{:<30} {:>9}  {}{usual}", escape(&row.cipher), "", speed(row.speed))?;
    }
    if let Some(why) = &ciphers.ssh_missing {
        writeln!(out, "ssh: not measured: {}", escape(why))?;
    }
    Ok(())
}

fn speed(speed: SpeedRecord) -> String {
    format!("{:>9} ±{:>2.0} %", Rate(speed.rate).to_string(), speed.spread * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_for_people() {
        let speed = |rate: f64| SpeedRecord { rate, spread: 0.02, passes: 10 };
        let record = CiphersRecord {
            rows: vec![CipherRow {
                cipher: "aes-128-gcm".into(),
                record: 16384,
                seal: speed(6.1e9),
                open: speed(6.2e9),
            }],
            ssh: vec![SshRow { cipher: "aes128-ctr".into(), speed: speed(4e8) }],
            ssh_usual: Some("aes128-ctr".into()),
            ssh_missing: Some("sshd is not installed".into()),
        };
        let mut out = Vec::new();
        render_table(&record, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }
}
