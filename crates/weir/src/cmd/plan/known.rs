//! What a plan need not assume or measure, because this host was calibrated. Each figure that is used is
//! noted, with its date.

use std::fs::File;
use std::io::IoSliceMut;
use std::path::Path;

use rustix::io::{Errno, ReadWriteFlags, preadv2};
use weir_bench::quick;
use weir_model::pipeline::SSH_CIPHER;
use weir_model::plan::Means;
use weir_report::calibration::DiskFigures;
use weir_units::Rate;

use crate::calibration::{disk_of, of_this_host, origin};

/// Places of a file that are looked at: of one that is half in memory, here and there, one is found but once
/// in 2^32 times.
const PLACES: u64 = 32;

/// A file that is shorter is read with fewer requests than there are places: its disk's rate is not what it
/// waits for.
const LEAST: u64 = 4 << 20;

/// What ssh encrypts, by its own choice of a cipher; assumed without a calibration. `wanted` where the plan
/// has ssh in it.
pub(super) fn ssh(wanted: bool, notes: &mut Vec<String>) -> Rate {
    let known = of_this_host().and_then(|calibration| Some((calibration, calibration.ssh.as_ref()?)));
    if !wanted {
        return known.map_or(SSH_CIPHER, |(_, ssh)| Rate(ssh.rate));
    }
    let Some((calibration, ssh)) = known else {
        notes.push(format!("ssh is assumed to encrypt {SSH_CIPHER}; --ssh-rate overrides it"));
        return SSH_CIPHER;
    };
    let rate = Rate(ssh.rate);
    notes.push(format!("ssh encrypts {rate} by {}: {}", ssh.name, origin(&calibration.date())));
    // What anyone would want to know who is held by it.
    let better = calibration.ssh_fastest.as_ref().filter(|fastest| fastest.rate > 1.2 * ssh.rate);
    notes.extend(better.map(|fastest| {
        format!("ssh -c {} would encrypt {} (--ssh-rate plans with that)", fastest.name, Rate(fastest.rate))
    }));
    rate
}

/// What one of weir's threads encrypts, by the fastest of its ciphers; measured without a calibration.
pub(super) fn cipher(means: &[Means], notes: &mut Vec<String>) -> Rate {
    let known = of_this_host().and_then(|calibration| Some((calibration, calibration.fastest_cipher()?)));
    let Some((calibration, fastest)) = known else { return quick::cipher() };
    let rate = Rate(fastest.rate);
    if means.contains(&Means::Weir) {
        let origin = origin(&calibration.date());
        notes.push(format!("one of weir's threads encrypts {rate} by {}: {origin}", fastest.name));
    }
    rate
}

/// The disk that `file` lies on, where it was measured and the file has to be read from it.
pub(super) fn cold(file: &Path) -> Option<&'static DiskFigures> {
    let disk = disk_of(file).filter(|disk| disk.read.is_some())?;
    is_cold(file).then_some(disk)
}

/// What that disk gives.
pub(super) fn source(disk: &DiskFigures, notes: &mut Vec<String>) -> Option<Rate> {
    let rate = Rate(disk.read?);
    notes.push(format!(
        "{} gives {rate} of data that are not in memory, as these: {}; --source overrides it",
        disk.device,
        origin(&disk.date())
    ));
    Some(rate)
}

/// None of the places that are looked at is in memory. A file of which a part is would be read faster than
/// its disk gives, and the plan be worse than without the disk.
fn is_cold(path: &Path) -> bool {
    // Asked first: a pipe would be waited for.
    let Ok(metadata) = path.metadata() else { return false };
    let size = metadata.len();
    if !metadata.is_file() || size < LEAST {
        return false;
    }
    let Ok(file) = File::open(path) else { return false };
    let mut byte = [0];
    // A read that must not wait says so where it would (preadv2(2), RWF_NOWAIT).
    let mut away = |place: u64| {
        let read = preadv2(&file, &mut [IoSliceMut::new(&mut byte)], place, ReadWriteFlags::NOWAIT);
        read == Err(Errno::AGAIN)
    };
    // In the middle of as many parts: heads of files are what others have looked at.
    (0..PLACES).all(|look| away((2 * look + 1) * (size / (2 * PLACES))))
}
