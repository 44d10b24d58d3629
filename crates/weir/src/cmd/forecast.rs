//! What `weir plan` foretold of a copy, kept until `weir cp` makes it, so that both stand side by side at its
//! end.
//!
//! A file of a few lines in the cache folder, under the digest of what both ends of the copy are told
//! ([`ForecastKey`]): it says nothing to others.
//! A copy without a plan is foretold from its own first moments (weir-model's `forecast`).

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use weir_codec::digest::Algorithm;
use weir_cp::lane::way::LaneOptions;
use weir_cp::list::List;
use weir_cp::ssh::Host;
use weir_cp::wire::message::{Options, Role};
use weir_cp::wire::selection::Selection;
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
    /// Seconds from the command to its end; none where a plan did not see all of the data,
    /// and in one of an older weir.
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

/// The copy that a forecast is of. Another choice, or other connections, are another copy.
#[derive(Debug, Clone, Copy)]
pub struct ForecastKey<'a> {
    /// The other machine.
    pub host: &'a Host,
    /// What this machine does in it.
    pub role: Role,
    /// The paths of the sources.
    pub sources: &'a [Vec<u8>],
    /// The path of the target.
    pub target: &'a [u8],
    /// How it is to be copied.
    pub options: &'a Options,
    /// What of the source, where a list says that.
    pub list: Option<&'a List>,
    /// How lanes are to be made.
    pub lanes: &'a LaneOptions,
}

/// Keeps it. Whoever has no cache folder plans all the same.
pub fn keep(key: &ForecastKey<'_>, forecast: &Forecast) {
    let kept = key.path().map(|path| cache::keep(&path, &serde_json::to_vec(forecast)?));
    if let Some(Err(error)) = kept {
        tracing::debug!("the plan is not kept: {error}");
    }
}

/// The one for this copy, if it is of late.
pub fn find(key: &ForecastKey<'_>) -> Option<Forecast> {
    let text = weir_units::read_file(&key.path()?, LONGEST).ok()?;
    let forecast: Forecast = serde_json::from_slice(&text).ok()?;
    let is_sound = |forecast: &Forecast| {
        forecast.rate.is_finite()
            && forecast.rate >= 0.0
            && forecast.total.is_none_or(|seconds| seconds.is_finite() && seconds > 0.0)
    };
    (forecast.age() < FRESH && is_sound(&forecast)).then_some(forecast)
}

impl ForecastKey<'_> {
    /// Where it is kept; `None` without a cache folder, and for a list that comes through a pipe, which the
    /// copy reads another one of.
    fn path(&self) -> Option<PathBuf> {
        let cache = cache::folder()?;
        let list = match self.list {
            Some(list) => Some(whole(list.path()?.as_os_str().as_bytes())),
            None => None,
        };
        let paths: Vec<Vec<u8>> =
            self.sources.iter().map(Vec::as_slice).chain([self.target]).map(whole).collect();
        let LaneOptions { transport, ports, through_here, plain, count } = self.lanes;
        let key = serde_json::to_vec(&(
            (self.host.shown(), &self.host.ssh, self.role),
            (paths, list, foreseen(self.options)),
            (transport, ports, through_here, plain, count),
        ));
        let name = weir_codec::hex::encode(&Algorithm::BLAKE3.of(&key.ok()?));
        Some(cache.join("plans").join(&name[..32]))
    }
}

/// A path of this machine made absolute. One that is relative on the far host becomes so here: wrong, but the
/// same each time.
fn whole(path: &[u8]) -> Vec<u8> {
    let path = OsString::from_vec(path.to_vec());
    std::path::absolute(&path).map_or(path, PathBuf::into_os_string).into_vec()
}

/// The options without what is said of the copy alone, and changes no forecast.
fn foreseen(options: &Options) -> Options {
    let Options { dry_run, rate_cap, codec, sync, whole_or_nothing, command, .. } = Options::default();
    let Selection { itemize, silence, modes, .. } = Selection::default();
    let selection = Selection { itemize, silence, modes, ..options.selection.clone() };
    Options { dry_run, rate_cap, codec, sync, whole_or_nothing, command, selection, ..options.clone() }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
