//! `weir bench cipher`: what one core seals and opens, and what ssh makes of its own ciphers.

use std::time::Instant;

use weir_bench::cipher::{self, RECORDS};
use weir_bench::repeat::Limits;
use weir_bench::ssh::{Bed, Unavailable};
use weir_codec::cipher::Cipher;
use weir_report::ciphers::{self, CipherRow, CiphersRecord, SshRow};
use weir_report::schema::Record;

use super::{Progress, WRONG_DATA, outcome_of, speed, tell};
use crate::args::BenchCipher;
use crate::interrupt::INTERRUPTED;
use crate::voice;

/// Measures and reports. Returns the exit code.
pub fn run(bench: &BenchCipher) -> anyhow::Result<u8> {
    voice::start_log(bench.voice.quiet, bench.voice.verbose);
    let start = Instant::now();
    let progress = Progress::new(&bench.voice)?;
    let measured = {
        let limits = Limits::within(bench.span);
        measure(&limits, (!bench.no_ssh).then_some(&limits), &progress)
    };
    drop(progress);
    let (member, interrupted) = match measured {
        Ok(measured) => measured,
        Err(error) => {
            voice::fatal(&error.into());
            return Ok(WRONG_DATA);
        }
    };
    let code = if interrupted { INTERRUPTED } else { 0 };
    print(bench, &member, code, start.elapsed().as_secs_f64())?;
    Ok(code)
}

/// Measures alone, ssh's ciphers with limits of their own or not at all. Returns also whether it was
/// interrupted; the error is of a cipher that gave back other data.
pub(super) fn measure(
    limits: &Limits,
    ssh: Option<&Limits>,
    progress: &Progress,
) -> Result<(CiphersRecord, bool), cipher::CipherBenchError> {
    let mut member = CiphersRecord::default();
    let lines: Vec<_> = Cipher::all().flat_map(|cipher| RECORDS.map(|record| (cipher, record))).collect();
    for (index, (cipher, record)) in lines.iter().enumerate() {
        if !progress.next(cipher.name(), index, lines.len()) {
            return Ok((member, true));
        }
        let Some(row) = cipher::measure(*cipher, *record, limits, &|| progress.goes_on())? else {
            return Ok((member, true));
        };
        member.rows.push(cipher_row(&row));
    }
    member.ssh_missing = match ssh {
        None => Some("not asked for".to_owned()),
        Some(limits) => measure_ssh(&mut member, limits, progress).err().map(|why| why.to_string()),
    };
    let interrupted = !progress.next("", 0, 0);
    Ok((member, interrupted))
}

fn measure_ssh(member: &mut CiphersRecord, limits: &Limits, progress: &Progress) -> Result<(), Unavailable> {
    let bed = Bed::new()?;
    let names = bed.ciphers()?;
    member.ssh_usual = bed.usual_cipher(&names).map(str::to_owned);
    for (index, name) in names.iter().enumerate() {
        if !progress.next(&format!("ssh {name}"), index, names.len()) {
            break;
        }
        let Some(row) = bed.measure(name, limits, &|| progress.goes_on())? else { break };
        member.ssh.push(SshRow { cipher: row.cipher, speed: speed(row.speed) });
    }
    Ok(())
}

fn cipher_row(row: &cipher::Row) -> CipherRow {
    CipherRow {
        cipher: row.cipher.name().to_owned(),
        record: row.record,
        seal: speed(row.seal),
        open: speed(row.open),
    }
}

fn print(bench: &BenchCipher, member: &CiphersRecord, code: u8, seconds: f64) -> anyhow::Result<()> {
    let mut record = Record::new("bench", outcome_of(code), 0, seconds);
    record.extra.insert("ciphers".to_owned(), serde_json::to_value(member)?);
    tell(&bench.voice, &record, "the table", |out| ciphers::render_table(member, out))
}
