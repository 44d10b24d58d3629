//! Can the limits be read at which writers are paced to the disk?

use std::path::Path;

use weir_model::ability::Finding;
use weir_units::Bytes;

use crate::dirty::{DeviceLimit, VmstatReader};
use crate::disk;

pub(super) fn limits() -> Finding {
    let whole = match VmstatReader::open().and_then(|mut vmstat| vmstat.read()) {
        Ok(vmstat) => format!("the machine's limit is {}", Bytes(vmstat.threshold)),
        Err(why) => return Finding::missing(why.to_string(), "/proc/vmstat"),
    };
    let device = disk::device_number(Path::new(".")).and_then(|device| {
        let limit = DeviceLimit::open(device)?.read()?;
        Ok((device, limit))
    });
    let origin = "/proc/vmstat and /sys/class/bdi";
    match device {
        Ok((device, Some(limit))) => {
            Finding::ok(format!("{whole}, that of device {device} {}", Bytes(limit)), origin)
        }
        Ok((device, None)) => Finding::ok(format!("{whole}, device {device} has none of its own"), origin),
        Err(why) => Finding::limited(format!("{whole}; {why}"), origin),
    }
}
