//! Which caches does a processor say it has?
//!
//! `/sys/devices/system/cpu/cpuN/cache/indexM/{level,type,size}`
//! (Documentation/ABI/testing/sysfs-devices-system-cpu). Virtual machines may hide them or make them up.

use std::fs;

use crate::error::{Malformed, ObserveError};
use crate::proc_file::{number, read_once};

/// One cache that holds data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// 1 is nearest to the processor.
    pub level: u8,
    /// Bytes.
    pub size: u64,
}

/// `48K`, as the kernel prints sizes.
pub fn parse_size(text: &str) -> Result<u64, Malformed> {
    let text = text.trim();
    let (digits, factor) = match text.char_indices().next_back() {
        Some((end, 'K')) => (&text[..end], 1 << 10),
        Some((end, 'M')) => (&text[..end], 1 << 20),
        _ => (text, 1),
    };
    let count = number("size", Some(digits))?;
    count.checked_mul(factor).ok_or_else(|| Malformed(format!("size is '{text}'")))
}

/// The caches of a processor that hold data, nearest first.
pub fn caches(cpu: usize) -> Result<Vec<Cache>, ObserveError> {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
    let entries = fs::read_dir(&folder).map_err(|cause| ObserveError::unreadable(&folder, cause))?;
    let mut caches = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with("index")) else { continue };
        let path = |file: &str| format!("{folder}/{name}/{file}");
        if read_once(&path("type"), |text| Ok(text.trim() == "Instruction"))? {
            continue;
        }
        let level = read_once(&path("level"), |text| number("level", Some(text)))?;
        let size = read_once(&path("size"), parse_size)?;
        caches.push(Cache { level: u8::try_from(level).unwrap_or(u8::MAX), size });
    }
    caches.sort_unstable_by_key(|cache| cache.level);
    if caches.is_empty() { Err(ObserveError::Absent(format!("no caches in {folder}"))) } else { Ok(caches) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_the_kernel_prints_them() {
        assert_eq!(parse_size("48K\n"), Ok(48 << 10));
        assert_eq!(parse_size("32M"), Ok(32 << 20));
        assert_eq!(parse_size("512"), Ok(512));
        for odd in ["", "K", "lots", "-1K", "99999999999999999999K", "18446744073709551615K"] {
            assert!(parse_size(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn this_processor_has_caches_in_order_or_a_reason() {
        match caches(0) {
            Ok(caches) => {
                assert!(caches.windows(2).all(|two| two[0].level < two[1].level), "{caches:?}");
                assert!(caches.iter().all(|cache| cache.size >= 4096), "{caches:?}");
            }
            Err(why) => assert!(why.to_string().contains("/cache"), "{why}"),
        }
    }
}
