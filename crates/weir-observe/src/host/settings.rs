//! TCP's settings: where buffers end, and which congestion controls may be chosen.

use std::time::Duration;

use rustix::thread::{CapabilitySet, capabilities};
use weir_model::ability::Finding;
use weir_model::plan::Needs;
use weir_units::Bytes;

use super::{listed, read};
use crate::sysctl;

/// Where Linux itself ends them on a machine with some memory (net/ipv4/tcp.c, tcp_init): 6 MB to receive, 4
/// MB to send. Below that somebody, or want of memory, has made them small.
const RECEIVE: u64 = 6_000_000;
const SEND: u64 = 4_000_000;

/// A long path, to say what the buffers carry there.
const FAR: Duration = Duration::from_millis(100);

/// Those that people compare, and that the lab's scenarios ask for.
const USUAL: [&str; 3] = ["reno", "cubic", "bbr"];

pub(super) fn socket_buffers() -> Finding {
    let origin = "net.ipv4.tcp_rmem and tcp_wmem";
    let (receive, send) = match (sysctl::tcp_rmem(), sysctl::tcp_wmem_max()) {
        (Ok(receive), Ok(send)) => (receive.max, send),
        (Err(why), _) | (_, Err(why)) => return Finding::missing(why.to_string(), origin),
    };
    let carried = Needs::rate_with(Bytes(receive.min(send)), FAR);
    let carried = carried.map(|rate| format!(": about {rate} a connection where a round trip takes 100 ms"));
    let reading = format!(
        "they end at {} to receive, {} to send{}",
        Bytes(receive),
        Bytes(send),
        carried.unwrap_or_default()
    );
    if receive >= RECEIVE && send >= SEND {
        Finding::ok(reading, origin)
    } else {
        Finding::limited(reading, origin)
    }
}

pub(super) fn congestion_controls() -> Finding {
    let origin = "net.ipv4.tcp_{congestion_control,available_congestion_control,allowed_congestion_control}";
    let default = match sysctl::congestion_control() {
        Ok(name) => name,
        Err(why) => return Finding::missing(why.to_string(), origin),
    };
    let available = read("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    // Not shown in other network namespaces than the first: then only a try would tell.
    let allowed = read("/proc/sys/net/ipv4/tcp_allowed_congestion_control").ok();
    // Who administers the network may choose any that is loaded.
    let all = capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::NET_ADMIN));
    let lacking = lacking(allowed.as_deref().filter(|_| !all).unwrap_or(&available));
    let allowed = allowed.unwrap_or_else(|| "not told in this namespace".to_owned());
    let reading =
        format!("{default} unless another is chosen; loaded: {available}; for everybody: {allowed}");
    match lacking.is_empty() {
        true => Finding::ok(reading, origin),
        false => Finding::limited(format!("{reading}; not to be chosen: {}", listed(&lacking)), origin),
    }
}

/// Of the usual ones, those that are not in the list.
fn lacking(list: &str) -> Vec<&'static str> {
    USUAL.into_iter().filter(|name| !list.split_ascii_whitespace().any(|other| other == *name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_chosen_is_named() {
        assert_eq!(lacking("reno bbr"), ["cubic"]);
        assert!(lacking("dctcp bbr cubic reno").is_empty());
        assert_eq!(lacking("").len(), 3);
    }
}
