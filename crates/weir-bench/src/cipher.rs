//! How fast does one core seal and open records?

use std::time::{Duration, Instant};

use weir_codec::cipher::{Cipher, Key, NONCE_LEN, TAG_LEN};

use crate::repeat::{GoOn, Limits, Speed, repeat};

/// The record sizes worth comparing: TLS's largest, and a block as `weir cp` sends it.
pub const RECORDS: [usize; 2] = [16 << 10, 1 << 20];

/// Bytes of records that are worked on in turn: more than a core's own caches hold, as on a path where each
/// record is another one.
const POOL: usize = 8 << 20;

/// Records at most: tiny ones would take longer to make than to seal.
const MOST_RECORDS: usize = 4096;

/// One line of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The cipher.
    pub cipher: Cipher,
    /// Bytes of a record.
    pub record: usize,
    /// Sealing on one core.
    pub seal: Speed,
    /// Opening on one core.
    pub open: Speed,
}

/// A cipher that cannot be measured because it does not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cipher} does not open what it sealed")]
pub struct CipherBenchError {
    cipher: Cipher,
}

/// Measures one line; `None` when `go_on` says no.
pub fn measure(
    cipher: Cipher,
    record: usize,
    limits: &Limits,
    go_on: &GoOn<'_>,
) -> Result<Option<Row>, CipherBenchError> {
    let broken = || CipherBenchError { cipher };
    let key = cipher.key(&vec![7; cipher.key_len()]).map_err(|_| broken())?;
    let mut records = Records::new(record);
    let bytes = records.bytes();
    // What is sealed does not matter to the speed, so it may be sealed again and again.
    let seal = repeat(limits, go_on, || Ok(records.seal(&key)))?;
    let open = repeat(limits, go_on, || {
        records.seal(&key);
        records.open(&key).ok_or_else(broken)
    })?;
    let row =
        |(seal, open)| Row { cipher, record, seal: Speed::of(bytes, seal), open: Speed::of(bytes, open) };
    Ok(seal.zip(open).map(row))
}

struct Records {
    records: Vec<(Vec<u8>, [u8; TAG_LEN])>,
    /// Counted up for each sealing of all, as a sender would.
    round: u64,
}

impl Records {
    fn new(record: usize) -> Records {
        let record = record.max(1);
        Records {
            records: vec![(vec![1; record], [0; TAG_LEN]); (POOL / record).clamp(1, MOST_RECORDS)],
            round: 0,
        }
    }

    fn bytes(&self) -> u64 {
        self.records.iter().map(|(record, _)| record.len() as u64).sum()
    }

    fn seal(&mut self, key: &Key) -> Duration {
        self.round += 1;
        let start = Instant::now();
        for (index, (record, tag)) in self.records.iter_mut().enumerate() {
            *tag = key.seal(nonce(self.round, index), &[], record);
        }
        start.elapsed()
    }

    fn open(&mut self, key: &Key) -> Option<Duration> {
        let start = Instant::now();
        for (index, (record, tag)) in self.records.iter_mut().enumerate() {
            key.open(nonce(self.round, index), &[], record, tag).ok()?;
        }
        Some(start.elapsed())
    }
}

fn nonce(round: u64, index: usize) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[..8].copy_from_slice(&round.to_le_bytes());
    nonce[8..].copy_from_slice(&(index as u32).to_le_bytes());
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cipher_can_be_measured() {
        for cipher in Cipher::all() {
            for record in [1, RECORDS[1]] {
                let limits = Limits::within(Duration::from_millis(5));
                assert_eq!(measure(cipher, record, &limits, &|| false), Ok(None));
                let row = measure(cipher, record, &limits, &|| true).unwrap().unwrap();
                assert!(row.seal.rate.0 > 0.0 && row.open.rate.0 > 0.0, "{row:?}");
            }
        }
    }
}
