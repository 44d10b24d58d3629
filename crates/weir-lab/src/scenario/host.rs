//! A host as a scenario writes it: what makes it slow.

use std::collections::BTreeMap;

use serde::Deserialize;
use weir_units::{Bytes, Rate};

use super::text::{CongestionControl, Text};
use crate::path::Share;
use crate::slow_core::SlowCoreConfig;
use crate::slow_disk::SlowDiskConfig;

/// Holds the file that a scenario writes, and what ext4 keeps for itself; sparse.
const DISK_SIZE: Bytes = Bytes(1 << 30);

/// One end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Host {
    /// Values of `net.*` in its namespace.
    pub sysctl: BTreeMap<String, String>,
    /// Of its sockets.
    pub congestion_control: Option<String>,
    /// What `net.core.wmem_max` is there. The kernel has one for all namespaces, so programs of the lab ask
    /// for no more than this instead, which is what the kernel would grant them.
    pub wmem_max: Option<Bytes>,
    /// Where the client writes; the machine's own temporary folder without it.
    pub disk: Option<SlowDiskConfig>,
    /// On which the client runs.
    pub core: Option<SlowCoreConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(super) struct HostText {
    sysctl: BTreeMap<String, String>,
    congestion_control: Option<Text<CongestionControl>>,
    wmem_max: Option<Text<Bytes>>,
    disk: Option<DiskText>,
    core: Option<CoreText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DiskText {
    rate: Text<Rate>,
    dirty: Option<Text<Bytes>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
enum CoreText {
    /// A share of one core.
    Quota(Text<Share>),
    /// Shared with a busy thread.
    Neighbour {},
}

impl HostText {
    pub(super) fn host(self) -> Host {
        Host {
            sysctl: self.sysctl,
            congestion_control: self.congestion_control.map(|Text(CongestionControl(name))| name),
            wmem_max: self.wmem_max.map(|Text(bytes)| bytes),
            disk: self.disk.map(|disk| SlowDiskConfig {
                rate: disk.rate.0,
                dirty: disk.dirty.map(|Text(bytes)| bytes),
                size: DISK_SIZE,
            }),
            core: self.core.map(|core| match core {
                CoreText::Quota(Text(Share(share))) => SlowCoreConfig::Quota(share),
                CoreText::Neighbour {} => SlowCoreConfig::Neighbour,
            }),
        }
    }
}
