//! The lanes' congestion control: what the policy says of each window, done to their sockets.
//!
//! Linux lets every user choose BBR once the kernel has it (TCP_CONG_NON_RESTRICTED in net/ipv4/tcp_bbr.c). Where it has not,
//! lanes stay what they are, and the tuner adds to them.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;

use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use weir_model::congestion::{self, Advice, Policy, Sight, is_bbr};
use weir_model::evidence::{Evidence, Window};
use weir_model::rule::Context;
use weir_model::verdict::judge_window;
use weir_units::Rate;

const BBR: &str = "bbr";

/// Windows that the judge gets beside the one it judges: three seconds, in which a window that a loss has cut grows again.
const MEMORY: usize = 30;

/// A lane's number and socket, where it has one.
type Socket = (u32, Option<Arc<TcpStream>>);

/// What the lanes send by.
#[derive(Debug, Default)]
pub(super) struct Congestion {
    policy: Policy,
    /// The sender's last windows, oldest first.
    seen: Evidence,
    /// They are to go by BBR.
    bbr: bool,
    /// What those that do went by before.
    before: BTreeMap<u32, String>,
}

impl Congestion {
    /// Takes in a window of this end, in which so many bytes a second were acknowledged.
    pub(super) fn observe(&mut self, window: &Window, acked: f64, sockets: &[Socket]) {
        let limit = judge_window(window, &Context::live(&self.seen)).limit;
        let sight = Sight::of(window, limit, acked);
        if self.seen.windows.len() == MEMORY {
            self.seen.windows.remove(0);
        }
        self.seen.windows.push(window.clone());
        // Where the system's own is BBR there is nothing to try.
        if !self.bbr && congestion::of(window).is_some_and(is_bbr) {
            return;
        }
        match self.policy.observe(sight) {
            Advice::Hold => {}
            Advice::Bbr(rate) => {
                tracing::info!("the path loses segments at {}: trying BBR on the lanes", Rate(rate));
                self.bbr = true;
            }
            Advice::Back(before, after) => {
                tracing::info!("BBR brought {} after {}: back", Rate(after), Rate(before));
                self.bbr = false;
                self.go_back(sockets);
            }
        }
        if self.bbr {
            self.go_by_bbr(sockets);
        }
    }

    /// Also those that were made since.
    fn go_by_bbr(&mut self, sockets: &[Socket]) {
        for (id, stream) in sockets {
            let Some(stream) = stream.as_ref().filter(|_| !self.before.contains_key(id)) else { continue };
            // What cannot be read cannot be put back.
            let Ok(before) = tcp_congestion(stream) else { continue };
            if !is_bbr(&before)
                && let Err(why) = set_tcp_congestion(stream, BBR)
            {
                tracing::info!("lane {id} stays with {before}: BBR cannot be set ({why})");
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
