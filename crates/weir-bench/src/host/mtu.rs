//! What is the largest packet that gets through?
//!
//! Echoes that must not be fragmented (RFC 1191, RFC 8201): an answer proves that a packet of that size
//! passes, and its answer too. One that is too large is refused here, or by a router that names what it can
//! carry, or vanishes without a word: a black hole, which the [`Search`] corners by halving, as RFC 4821 does
//! with TCP's own packets. UDP datagrams tell the same without any privilege: the host's word that nobody
//! listens proves that one has passed.

mod echo;
mod error_queue;
mod udp;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Sent so often before a size counts as swallowed: three losses in a row at 1 % loss are one in a million.
const TRIES: u32 = 3;

/// The largest IPv4 packet; the loopback's MTU of 65536 is larger than any packet.
const LARGEST: u32 = 65_535;

/// How a probe of some size ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It came back.
    Passed,
    /// Someone said that it is too large, and perhaps what is not.
    TooBig(Option<u32>),
    /// Nothing came back, and nobody said why.
    Silent,
}

/// The search for the largest size that passes, all sizes in bytes of the IP packet. Pure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// Known to pass.
    low: u32,
    /// Larger ones are known not to pass, or cannot be sent.
    high: u32,
    hint: Option<u32>,
    vanished: bool,
}

impl Search {
    /// `low` is known to pass, `high` is the first hop's MTU.
    pub fn new(low: u32, high: u32) -> Search {
        let high = high.max(low);
        Search { low, high, hint: Some(high), vanished: false }
    }

    /// What to send next; `None` when the size is found.
    pub fn next(&self) -> Option<u32> {
        if self.low >= self.high {
            return None;
        }
        let middle = self.low + (self.high - self.low).div_ceil(2);
        Some(self.hint.filter(|hint| *hint > self.low && *hint <= self.high).unwrap_or(middle))
    }

    /// What came of `size`.
    pub fn book(&mut self, size: u32, answer: Answer) {
        self.hint = None;
        match answer {
            Answer::Passed => self.low = self.low.max(size.min(self.high)),
            Answer::TooBig(said) => {
                // A router that names what is too large itself, or less than what passed, is not believed.
                // Another one is: the kernel believes it too and sends nothing larger.
                self.hint = said.filter(|mtu| *mtu > self.low && *mtu < size);
                let most = self.hint.unwrap_or(size.saturating_sub(1));
                self.high = self.high.min(most).max(self.low);
            }
            Answer::Silent => {
                self.vanished = true;
                self.high = self.high.min(size.saturating_sub(1)).max(self.low);
            }
        }
    }

    /// The largest size that passed.
    pub fn found(&self) -> u32 {
        self.low
    }
}

/// What the search came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The path's MTU: bytes of the largest IP packet that came back.
    pub mtu: u32,
    /// The first hop's: what this machine's interface (or a route's setting) carries.
    pub first_hop: u32,
    /// Larger packets vanished and nobody said that they were too large.
    pub black_hole: bool,
    /// Sizes that were tried.
    pub probes: u32,
    /// The router that said of larger ones that they are, where it was asked who.
    pub limited_by: Option<IpAddr>,
}

/// Searches with echoes; `rtt` is the path's, so that silence is told from slowness. The error is the reason
/// in words.
pub fn run(peer: IpAddr, rtt: Duration, stop: &AtomicBool) -> Result<Found, String> {
    let mut prober = echo::Prober::open(peer, rtt)?;
    let low = prober.smallest();
    match prober.probe(low, stop)? {
        Answer::Passed => {}
        _ => return Err("the host answers no ICMP echo".to_owned()),
    }
    let first_hop = prober.known_mtu().map_err(|error| weir_units::plain(&error))?;
    let search = Search::new(low, first_hop.min(LARGEST));
    let (search, probes) = walk(search, &mut prober, stop)?;
    let black_hole = search.vanished;
    Ok(Found { mtu: search.found(), first_hop, black_hole, probes, limited_by: None })
}

/// Searches with UDP datagrams to a port that nobody listens on; needs no privilege, and the host need not
/// answer echoes.
pub fn run_udp(peer: IpAddr, rtt: Duration, stop: &AtomicBool) -> Result<Found, String> {
    let mut prober = udp::Prober::open(peer, rtt)?;
    let low = prober.smallest();
    match prober.probe(low, stop)? {
        Answer::Passed => {}
        _ if stop.load(Relaxed) => return Err("interrupted".to_owned()),
        _ => {
            return Err(
                "the host does not say that a UDP port is closed: it may drop such datagrams".to_owned()
            );
        }
    }
    // The first, which no interface but loopback carries, is answered by this end's own kernel with the first
    // hop's MTU.
    let (search, probes) = walk(Search::new(low, LARGEST), &mut prober, stop)?;
    Ok(Found {
        mtu: search.found(),
        first_hop: prober.first_hop().unwrap_or(LARGEST),
        black_hole: search.vanished,
        probes,
        limited_by: prober.limited_by(),
    })
}

/// What can send a packet of some size and tell what became of it.
trait Probe {
    /// Sends one of `size` bytes, headers included, as often as it takes.
    fn probe(&mut self, size: u32, stop: &AtomicBool) -> Result<Answer, String>;
}

/// To the end, with the number of sizes that were tried.
fn walk(mut search: Search, prober: &mut impl Probe, stop: &AtomicBool) -> Result<(Search, u32), String> {
    let mut probes = 0;
    while let Some(size) = search.next() {
        let answer = prober.probe(size, stop)?;
        if stop.load(Relaxed) {
            return Err("interrupted".to_owned());
        }
        search.book(size, answer);
        probes += 1;
    }
    Ok((search, probes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A path that carries `mtu`; `honest` routers say so.
    fn imagine(mtu: u32, first_hop: u32, honest: bool) -> (Search, u32) {
        let mut search = Search::new(36, first_hop);
        let mut probes = 0;
        while let Some(size) = search.next() {
            let answer = match (size <= mtu, honest) {
                (true, _) => Answer::Passed,
                (false, true) => Answer::TooBig(Some(mtu)),
                (false, false) => Answer::Silent,
            };
            search.book(size, answer);
            probes += 1;
            assert!(probes < 64, "{search:?}");
        }
        (search, probes)
    }

    #[test]
    fn an_open_path_takes_one_probe_and_an_honest_router_one_more() {
        let (search, probes) = imagine(1500, 1500, true);
        assert_eq!((search.found(), search.vanished, probes), (1500, false, 1));
        let (search, probes) = imagine(1400, 1500, true);
        assert_eq!((search.found(), search.vanished, probes), (1400, false, 2));
    }

    #[test]
    fn loopback_carries_the_largest_packet() {
        match run([127, 0, 0, 1].into(), Duration::ZERO, &AtomicBool::new(false)) {
            Ok(found) => assert_eq!((found.mtu, found.black_hole), (found.first_hop.min(LARGEST), false)),
            Err(why) => assert!(why.contains("CAP_NET_RAW"), "{why}"),
        }
    }

    #[test]
    fn so_do_datagrams_find_and_need_no_privilege() {
        for address in [IpAddr::from([127, 0, 0, 1]), IpAddr::from(std::net::Ipv6Addr::LOCALHOST)] {
            let found = run_udp(address, Duration::ZERO, &AtomicBool::new(false)).unwrap();
            assert_eq!((found.mtu, found.black_hole, found.limited_by), (LARGEST, false, None));
        }
    }

    proptest! {
        #[test]
        fn the_mtu_is_found_whatever_the_routers_say(mtu in 68_u32..9000, first_hop in 68_u32..66_000, honest: bool) {
            let (search, probes) = imagine(mtu, first_hop, honest);
            prop_assert_eq!(search.found(), mtu.min(first_hop));
            prop_assert!(probes <= 18, "{}", probes);
        }

        #[test]
        fn lies_end_too(said in proptest::collection::vec((any::<u32>(), 0_u8..3), 0..40)) {
            let mut search = Search::new(36, 9000);
            let mut answers = said.into_iter();
            let mut probes = 0;
            while let Some(size) = search.next() {
                prop_assert!((37..=9000).contains(&size));
                let answer = match answers.next() {
                    Some((mtu, 0)) => Answer::TooBig(Some(mtu)),
                    Some((_, 1)) => Answer::Passed,
                    _ => Answer::Silent,
                };
                search.book(size, answer);
                probes += 1;
                prop_assert!(probes < 9000);
            }
        }
    }
}
