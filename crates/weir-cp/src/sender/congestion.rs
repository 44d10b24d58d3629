//! The lanes' congestion control: what the policy says of each interval, done to their sockets.
//!
//! Linux lets every user choose BBR once the kernel has it (TCP_CONG_NON_RESTRICTED in net/ipv4/tcp_bbr.c).
//! Where it has not, lanes stay what they are, and the tuner adds to them.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;

use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use weir_model::congestion::{self, Policy, Sight, is_bbr};
use weir_model::decision::{ControlChange, Decision, Event};
use weir_model::evidence::{Evidence, Interval};
use weir_model::rule::Context;
use weir_model::verdict::judge_interval;
use weir_units::plain;

const BBR: &str = "bbr";

/// Intervals that the judge gets beside the one it judges: three seconds, in which a window that a loss has
/// cut grows again.
const MEMORY: usize = 30;

/// A lane's number and socket, where it has one.
type Socket = (u32, Option<Arc<TcpStream>>);

/// What the lanes send by.
#[derive(Debug)]
pub(super) struct Congestion {
    /// The kernel's name of it.
    bbr_name: &'static str,
    policy: Policy,
    /// The sender's last intervals, oldest first.
    seen: Evidence,
    /// They are to go by BBR.
    bbr: bool,
    /// What those that do went by before.
    before: BTreeMap<u32, String>,
}

impl Default for Congestion {
    fn default() -> Congestion {
        Congestion {
            bbr_name: BBR,
            policy: Policy::default(),
            seen: Evidence::default(),
            bbr: false,
            before: BTreeMap::new(),
        }
    }
}

impl Congestion {
    /// Takes in an interval of this end, in which so many bytes a second were acknowledged.
    pub(super) fn observe(&mut self, interval: &Interval, acked: f64, sockets: &[Socket]) {
        let limit = judge_interval(interval, &Context::live(&self.seen)).limit;
        let sight = Sight::of(interval, limit, acked);
        if self.seen.intervals.len() == MEMORY {
            self.seen.intervals.remove(0);
        }
        self.seen.intervals.push(interval.clone());
        // Where the system's own is BBR there is nothing to try.
        if !self.bbr && congestion::of(interval).is_some_and(is_bbr) {
            return;
        }
        if let Some(change) = self.policy.observe(sight) {
            match &change {
                ControlChange::Try(_) => self.bbr = true,
                ControlChange::Back(..) => {
                    self.bbr = false;
                    self.go_back(sockets);
                }
                _ => {}
            }
            self.tell(change);
        }
        if self.bbr {
            self.go_by_bbr(sockets);
        }
    }

    fn tell(&self, change: ControlChange) {
        tracing::info!("{}", Event { at: self.policy.now(), decision: Decision::Congestion(change) });
    }

    /// Also those that were made since.
    fn go_by_bbr(&mut self, sockets: &[Socket]) {
        for (id, stream) in sockets {
            let Some(stream) = stream.as_ref().filter(|_| !self.before.contains_key(id)) else { continue };
            // What cannot be read cannot be put back.
            let Ok(before) = tcp_congestion(stream) else { continue };
            if !is_bbr(&before)
                && let Err(why) = set_tcp_congestion(stream, self.bbr_name)
            {
                let (control, why) = (before.clone(), plain(&why.into()));
                self.tell(ControlChange::Unavailable { lane: *id, control, why });
                if self.before.is_empty() {
                    self.policy.refused();
                    self.bbr = false;
                    return;
                }
            }
            self.before.insert(*id, before);
        }
    }

    fn go_back(&mut self, sockets: &[Socket]) {
        for (id, before) in std::mem::take(&mut self.before) {
            let lane = sockets.iter().find(|(other, _)| *other == id).and_then(|(_, stream)| stream.as_ref());
            // One that broke meanwhile needs none.
            if let Some(Err(why)) = lane.map(|stream| set_tcp_congestion(stream, &before)) {
                tracing::debug!("lane {id} stays with BBR: {why}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Lanes of this machine, with what keeps them open; by a congestion control that every kernel has.
    fn lanes(count: u32) -> (Vec<Socket>, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let lane = |id| {
            let stream = TcpStream::connect(at).unwrap();
            set_tcp_congestion(&stream, "reno").unwrap();
            (id, Some(Arc::new(stream)))
        };
        ((1..=count).map(lane).collect(), listener)
    }

    fn by(lanes: &[Socket]) -> Vec<String> {
        lanes.iter().map(|(_, stream)| tcp_congestion(stream.as_ref().unwrap()).unwrap()).collect()
    }

    #[test]
    fn lanes_go_over_and_back_also_one_that_came_later() {
        let (lanes, _listener) = lanes(3);
        if set_tcp_congestion(lanes[2].1.as_ref().unwrap(), BBR).is_err() {
            assert!(std::env::var_os("CI").is_none(), "skipped: this kernel has no BBR (modprobe tcp_bbr)");
            return eprintln!("skipped: this kernel has no BBR (modprobe tcp_bbr)");
        }
        let mut congestion = Congestion { bbr: true, ..Congestion::default() };
        congestion.go_by_bbr(&lanes[..1]);
        assert_eq!(by(&lanes), [BBR, "reno", BBR]);
        // A lane inside ssh has no socket.
        congestion.go_by_bbr(&[&lanes[..], &[(0, None)]].concat());
        assert_eq!(by(&lanes), [BBR, BBR, BBR]);
        // One that broke has no socket any more, and one that went by BBR from the start is left as it was.
        congestion.go_back(&lanes[1..]);
        assert_eq!(by(&lanes), [BBR, "reno", BBR]);
    }

    #[test]
    fn where_it_cannot_be_had_it_is_asked_for_once() {
        let (lanes, _listener) = lanes(2);
        let mut congestion = Congestion { bbr_name: "no-such", bbr: true, ..Congestion::default() };
        congestion.go_by_bbr(&lanes);
        assert!(!congestion.bbr && congestion.before.is_empty());
        assert_eq!(by(&lanes), ["reno", "reno"]);
    }
}
