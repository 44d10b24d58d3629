//! One source to many hosts: a copy to each from here (a star), or a chain in which each host passes on what
//! comes to it.
//!
//! ```text
//! star  = one copy over link / hosts
//! chain = one copy over link / fanout + (hosts of the longest chain - 1) x fill
//! fill  = round trip + connections x block / rate of a hop
//! ```
//!
//! A host passes a block on once it has all of it, and a hop has a block on each of its connections at a
//! time: each comes that much later to every host behind.

use std::time::Duration;

use weir_units::{Bytes, Rate};

use super::{Inputs, Means, Plan};

/// Where it is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManyHosts {
    /// How many hosts, 1 or more.
    pub hosts: u32,
    /// How many chains begin here, 1 or more.
    pub fanout: u32,
    /// What a host has to have before it passes it on.
    pub block: Bytes,
    /// Connections of a hop, where the inputs do not say.
    pub lanes: u32,
}

/// How long it takes, until the last host has all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostsTimes {
    /// A copy to one host.
    pub one: Duration,
    /// A copy to each, all at once: they share this machine's link and processors.
    pub star: Duration,
    /// Through chains.
    pub chain: Duration,
    /// How many chains those are: no more than hosts.
    pub fanout: u32,
    /// Hosts of the longest chain.
    pub depth: u32,
    /// What each further host of a chain adds.
    pub fill: Duration,
}

impl ManyHosts {
    /// Over this link, which is that of every host and of this machine.
    pub fn over(&self, inputs: &Inputs, link: Rate) -> HostsTimes {
        let hosts = self.hosts.max(1);
        let fanout = self.fanout.clamp(1, hosts);
        let lanes = inputs.lanes.unwrap_or(self.lanes);
        let shared_by = |copies: u32, lanes: Option<u32>| {
            let share = f64::from(copies);
            let mut inputs = Inputs {
                links: vec![Rate(link.0 / share)],
                means: vec![Means::Weir],
                lanes,
                ..inputs.clone()
            };
            inputs.path.cores /= share;
            copy(&inputs)
        };
        let (one, _) = shared_by(1, inputs.lanes);
        let (star, _) = shared_by(hosts, inputs.lanes);
        let (first, _) = shared_by(fanout, Some(lanes));
        let (_, rate) = shared_by(1, Some(lanes));
        let depth = hosts.div_ceil(fanout);
        let content = inputs.size.0.min(u64::from(lanes).saturating_mul(self.block.0));
        let rtt = inputs.path.rtt.unwrap_or_default();
        let fill = rtt.saturating_add(span(content as f64 / rate.0));
        let chain = first.saturating_add(fill.saturating_mul(depth - 1));
        HostsTimes { one, star, chain, fanout, depth, fill }
    }
}

/// How long one copy takes, and what it carries once it is under way.
fn copy(inputs: &Inputs) -> (Duration, Rate) {
    let plan = Plan::of(inputs);
    let column = &plan.columns[0];
    let cell = &column.cells[column.best];
    (cell.whole.time, cell.steady.rate)
}

/// Seconds; of more than there are, the most that can be said.
fn span(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pipeline::{Path, SSH_CIPHER};

    fn inputs(link: f64, size: u64, rtt: u64) -> Inputs {
        let rtt = (rtt > 0).then(|| Duration::from_millis(rtt));
        Inputs {
            figures: Vec::new(),
            path: Path { rtt, ..Path::of(Rate(link)) },
            links: vec![Rate(link)],
            means: vec![Means::Tcp],
            ssh: SSH_CIPHER,
            cipher: None,
            lanes: None,
            size: Bytes(size),
        }
    }

    fn times(inputs: &Inputs, hosts: u32, fanout: u32) -> HostsTimes {
        let many = ManyHosts { hosts, fanout, block: Bytes(1 << 20), lanes: 2 };
        many.over(inputs, inputs.path.link)
    }

    /// Measured: 200 MB to one host over 100 Mbit/s in 17.2 s, to eight in 18.5 to 21 s.
    #[test]
    fn eight_hosts_take_little_more_than_one() {
        let times = times(&inputs(12.5e6, 200_000_000, 0), 8, 1);
        let [one, star, chain] = [times.one, times.star, times.chain].map(|time| time.as_secs_f64());
        assert!((15.9..17.3).contains(&one) && (chain - one - 7.0 * 0.168).abs() < 0.01, "{times:?}");
        assert!((17.0..21.0).contains(&chain) && (star / one - 8.0).abs() < 0.1, "{times:?}");
    }

    #[test]
    fn chains_of_their_own_share_the_link() {
        let times = times(&inputs(12.5e6, 200_000_000, 0), 8, 2);
        assert_eq!(times.depth, 4);
        assert!(times.chain > times.one * 2 && times.chain < times.star, "{times:?}");
    }

    proptest! {
        #[test]
        fn the_law_of_many_hosts(
            (hosts, fanout) in (1u32..2000, 1u32..64),
            (link, size, rtt) in (1e4..1e10, 1u64..1 << 42, 0u64..400),
        ) {
            // As many connections to one as in a chain: two begin with twice the window of one.
            let inputs = Inputs { lanes: Some(2), ..inputs(link, size, rtt) };
            let found = times(&inputs, hosts, fanout);
            prop_assert!(found.chain >= found.one.mul_f64(0.999) && found.star >= found.one.mul_f64(0.999));
            prop_assert_eq!(found.fanout, fanout.min(hosts));
            prop_assert_eq!(found.depth, hosts.div_ceil(found.fanout));
            // One host more never makes it faster, either way.
            let more = times(&inputs, hosts + 1, fanout);
            prop_assert!(more.star >= found.star.mul_f64(0.999));
            if fanout <= hosts {
                prop_assert!(more.chain >= found.chain.mul_f64(0.999));
            }
            if hosts == 1 {
                prop_assert_eq!(found.chain, times(&inputs, 1, fanout + 1).chain);
            }
        }
    }
}
