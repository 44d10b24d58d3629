//! `weir bench cipher`: what one core seals and opens, and what ssh makes of its own ciphers.

use std::time::Instant;

use weir_codec::cipher::Cipher;
use weir_measure::cipher_table::{self, RECORDS};
use weir_measure::repeat::Limits;
use weir_measure::ssh::{Bed, Unavailable};
use weir_report::ciphers::{self, CipherRow, CiphersRecord, SshRow};
use weir_report::schema::{Outcome, Record};

use super::{INTERRUPTED, Progress, WRONG_DATA, speed, tell};
use crate::args::BenchCipher;
use crate::voice;

/// Measures and reports. Returns the exit code.
pub fn run(bench: &BenchCipher) -> anyhow::Result<u8> {
    voice::start_log(bench.voice.quiet, bench.voice.verbose);
    let start = Instant::now();
    let limits = Limits::within(bench.span);
    let progress = Progress::new(&bench.voice)?;
    let mut member = CiphersRecord::default();
    let lines: Vec<_> = Cipher::all().flat_map(|cipher| RECORDS.map(|record| (cipher, record))).collect();
    for (index, (cipher, record)) in lines.iter().enumerate() {
        if !progress.next(cipher.name(), index, lines.len()) {
            return Ok(INTERRUPTED);
        }
        match cipher_table::measure(*cipher, *record, &limits) {
            Ok(row) => member.rows.push(cipher_row(&row)),
            Err(error) => {
                voice::fatal(&error.into());
                return Ok(WRONG_DATA);
            }
        }
    }
    if bench.no_ssh {
        member.ssh_missing = Some("not asked for".to_owned());
    } else if let Err(why) = measure_ssh(&mut member, &limits, &progress) {
        member.ssh_missing = Some(why.to_string());
    }
    if !progress.next("", 0, 0) {
        return Ok(INTERRUPTED);
    }
    drop(progress);
    print(bench, &member, start.elapsed().as_secs_f64())?;
    Ok(0)
}

fn measure_ssh(member: &mut CiphersRecord, limits: &Limits, progress: &Progress) -> Result<(), Unavailable> {
    let bed = Bed::new()?;
    let names = bed.ciphers()?;
    for (index, name) in names.iter().enumerate() {
        if !progress.next(&format!("ssh {name}"), index, names.len()) {
            break;
        }
        let row = bed.measure(name, limits)?;
        member.ssh.push(SshRow { cipher: row.cipher, speed: speed(row.speed) });
    }
    Ok(())
}

fn cipher_row(row: &cipher_table::Row) -> CipherRow {
    CipherRow {
        cipher: row.cipher.name().to_owned(),
        record: row.record,
        seal: speed(row.seal),
        open: speed(row.open),
    }
}

fn print(bench: &BenchCipher, member: &CiphersRecord, seconds: f64) -> anyhow::Result<()> {
    let mut record = Record::new("bench", Outcome::Complete, 0, seconds);
    record.extra.insert("ciphers".to_owned(), serde_json::to_value(member)?);
    tell(&bench.voice, &record, "the table", |out| ciphers::render_table(member, out))
}
