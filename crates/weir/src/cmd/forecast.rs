//! What `weir plan` foretold of a copy, kept until `weir cp` makes it, so that both stand side by side at its
//! end.
//!
//! A file of a few lines in the cache folder, under the digest of host and paths: it says nothing to others.
//! A copy without a plan is foretold from its own first moments (weir-model's `forecast`).

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use weir_codec::digest::Algorithm;
use weir_cp::ssh::Host;
use weir_report::survey::PredictedRecord;
use weir_units::Bytes;

use crate::cache;

/// A plan that is older foretells another day's path.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// It has a few hundred bytes.
const LONGEST: Bytes = Bytes(64_000);

/// What was foretold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Seconds since 1970.
    made: u64,
    /// Bytes of payload per second.
    pub rate: f64,
    /// What holds it.
    pub limit: String,
    /// The codec.
    pub codec: String,
    /// Seconds from the command to its end; none in a plan of an older weir.
    #[serde(default)]
    pub total: Option<f64>,
}

impl Forecast {
    /// As a plan has it.
    pub fn of(predicted: &PredictedRecord) -> Forecast {
        let PredictedRecord { rate, limit, codec, total, .. } = predicted.clone();
        Forecast { made: now(), rate, limit, codec, total: Some(total) }
    }

    /// How old it is.
    pub fn age(&self) -> Duration {
        Duration::from_secs(now().saturating_sub(self.made))
    }
}

/// Keeps it. Whoever has no cache folder plans all the same.
pub fn keep(host: &Host, sources: &[Vec<u8>], target: &[u8], forecast: &Forecast) {
    let kept = path_of(host, sources, target).map(|path| cache::keep(&path, &serde_json::to_vec(forecast)?));
    if let Some(Err(error)) = kept {
        tracing::debug!("the plan is not kept: {error}");
    }
}

/// The one for this copy, if it is of late.
pub fn find(host: &Host, sources: &[Vec<u8>], target: &[u8]) -> Option<Forecast> {
    let text = weir_units::read_file(&path_of(host, sources, target)?, LONGEST).ok()?;
    let forecast: Forecast = serde_json::from_slice(&text).ok()?;
    let is_sound = |forecast: &Forecast| {
        forecast.rate.is_finite()
            && forecast.rate >= 0.0
            && forecast.total.is_none_or(|seconds| seconds.is_finite() && seconds > 0.0)
    };
    (forecast.age() < FRESH && is_sound(&forecast)).then_some(forecast)
}

/// Where it is kept: a place for each host, sources and target, paths of this machine made absolute.
fn path_of(host: &Host, sources: &[Vec<u8>], target: &[u8]) -> Option<PathBuf> {
    let cache = cache::folder()?;
    let whole = |path: &[u8]| {
        let path = std::ffi::OsString::from_vec(path.to_vec());
        // One that is relative on the far host is made absolute here: wrong, but the same each time.
        std::path::absolute(&path).map_or(path, PathBuf::into_os_string)
    };
    let mut key = host.shown().as_bytes().to_vec();
    for path in sources.iter().map(Vec::as_slice).chain([target]) {
        key.push(0);
        key.extend_from_slice(whole(path).as_bytes());
    }
    let name = weir_codec::hex::encode(&Algorithm::BLAKE3.of(&key));
    Some(cache.join("plans").join(&name[..32]))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
