//! The machine itself: /sys, clock, frequency, pressure, pages.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::fs::statfs;
use weir_model::ability::Finding;

use super::{listed, read};

/// `SYSFS_MAGIC` (include/uapi/linux/magic.h).
const SYSFS: u64 = 0x6265_6572;

/// What a look at the clock takes at most where it needs no system call (20 to 80 ns), and less than what one
/// does take through a slow clock source (500 ns and more for hpet and acpi_pm).
const QUICK: Duration = Duration::from_nanos(250);

/// Looks at the clock of a round, and rounds: the quickest counts, since a thread may lose its processor in
/// any.
const READINGS: u32 = 200;
const ROUNDS: usize = 20;

pub(super) fn sys() -> Finding {
    match statfs("/sys") {
        Ok(stat) if stat.f_type as u64 == SYSFS => Finding::ok("mounted", "/sys"),
        Ok(_) => Finding::missing("something else lies there, or nothing", "/sys"),
        Err(cause) => Finding::missing(weir_units::plain(&cause.into()), "/sys"),
    }
}

pub(super) fn clock() -> Finding {
    let source = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let round = || {
        let start = Instant::now();
        for _ in 0..READINGS {
            black_box(Instant::now());
        }
        start.elapsed() / READINGS
    };
    let cost = (0..ROUNDS).map(|_| round()).min().unwrap_or_default();
    let source = source.unwrap_or_else(|_| "a source that is not told".to_owned());
    let reading = format!("{source}, {} ns a look", cost.as_nanos());
    let origin = "clock_gettime(CLOCK_MONOTONIC) and /sys/devices/system/clocksource";
    if cost < QUICK { Finding::ok(reading, origin) } else { Finding::limited(reading, origin) }
}

pub(super) fn frequency() -> Finding {
    let origin = "/sys/devices/system/cpu/cpu0/cpufreq";
    match read(&format!("{origin}/scaling_governor")) {
        Ok(governor) if governor == "performance" => Finding::ok("governor performance", origin),
        Ok(governor) => {
            Finding::limited(format!("governor {governor}: the frequency follows the work"), origin)
                .with_way_out("while measuring, as root: cpupower frequency-set -g performance")
        }
        Err(why) => Finding::missing(why, origin),
    }
}

pub(super) fn pressure() -> Finding {
    let origin = "/proc/pressure/{cpu,io,memory}";
    let (seen, hidden): (Vec<_>, Vec<_>) =
        ["cpu", "io", "memory"].into_iter().partition(|name| read(&format!("/proc/pressure/{name}")).is_ok());
    match (seen.is_empty(), hidden.is_empty()) {
        (_, true) => Finding::ok("of processors, disks and memory", origin),
        (true, _) => Finding::missing("cannot be read", origin),
        _ => Finding::limited(format!("of {}, not of {}", listed(&seen), listed(&hidden)), origin),
    }
}

pub(super) fn huge_pages() -> Finding {
    let origin = "/sys/kernel/mm/transparent_hugepage/enabled and /proc/meminfo";
    let transparent = read("/sys/kernel/mm/transparent_hugepage/enabled").ok();
    let transparent = transparent.as_deref().and_then(chosen).map(str::to_owned);
    let reserved = read("/proc/meminfo").ok().and_then(|text| {
        text.lines().find_map(|line| line.strip_prefix("HugePages_Total:")?.trim().parse::<u64>().ok())
    });
    let told = transparent.as_deref().unwrap_or("not told");
    let reading = format!("transparent: {told}; reserved: {}", reserved.unwrap_or_default());
    let some = transparent.is_some_and(|word| word != "never") || reserved.is_some_and(|count| count > 0);
    if some { Finding::ok(reading, origin) } else { Finding::missing(reading, origin) }
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    text.split_once('[')?.1.split_once(']').map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_stands_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!((chosen("always"), chosen("[")), (None, None));
    }
}
