//! The same path in the words of tc, for a real host whose kernel has netem.

use weir_units::Rate;

use super::{Direction, Discipline, Loss, Path, QueueLimit};

/// The device that carries the traffic; the user puts in their own.
const DEVICE: &str = "$DEV";

impl Path {
    /// Lines that set up about the same on a real host: run the first ones at the far end (they act on what
    /// it sends, which is `down`), the others at the near end. `$DEV` is the interface in use. What tc cannot
    /// do is a comment.
    pub fn tc_commands(&self) -> Vec<String> {
        let mut lines = vec!["# at the far end (what the near end downloads)".to_owned()];
        lines.extend(self.down.tc_commands());
        lines.push("# at the near end (requests and acknowledgements)".to_owned());
        lines.extend(self.up.tc_commands());
        lines
    }
}

impl Direction {
    fn tc_commands(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.trace.is_some() {
            lines.push("# a delivery trace has no equivalent in tc: use mahimahi's mm-link".to_owned());
        }
        if let Some(policer) = self.policer {
            lines.push(format!(
                "tc qdisc add dev {DEVICE} clsact && tc filter add dev {DEVICE} egress matchall action police rate {} burst {} conform-exceed drop",
                bits(policer.rate),
                policer.burst.0
            ));
        }
        let netem = self.netem();
        match (self.rate, netem.is_empty()) {
            (Some(rate), true) => lines.extend(self.tbf(rate, "root handle 1:")),
            (Some(rate), false) => {
                lines.push(format!("tc qdisc add dev {DEVICE} root handle 1: netem {netem}"));
                lines.extend(self.tbf(rate, "parent 1: handle 2:"));
            }
            (None, false) => lines.push(format!("tc qdisc add dev {DEVICE} root netem {netem}")),
            (None, true) if lines.is_empty() => lines.push("# nothing to set".to_owned()),
            (None, true) => {}
        }
        lines
    }

    /// netem's arguments, without its rate: tbf is exact where netem's rate stacks with its delay.
    fn netem(&self) -> String {
        let mut words = Vec::new();
        if !self.delay.is_zero() {
            words.push(format!("delay {}us", self.delay.as_micros()));
            if !self.jitter.is_zero() {
                words.push(format!("{}us", self.jitter.as_micros()));
            }
        }
        match self.loss {
            Loss::None => {}
            Loss::Random(share) => words.push(format!("loss random {share}")),
            Loss::Burst(model) => words.push(format!(
                "loss gemodel {} {} {} {}",
                model.enter, model.leave, model.bad_loss, model.good_loss
            )),
        }
        if let Some(reorder) = self.reorder {
            words.push(format!("reorder {}", reorder.share));
        }
        if self.duplicate.0 > 0.0 {
            words.push(format!("duplicate {}", self.duplicate));
        }
        if words.is_empty() {
            return String::new();
        }
        // netem's default of 1000 packets would become loss where rate times delay exceeds it.
        words.push(format!("limit {}", self.packets_in_flight()));
        words.join(" ")
    }

    fn packets_in_flight(&self) -> u64 {
        let rate = self.rate.map_or(1.25e9, |rate| rate.0);
        ((rate * (self.delay + self.jitter).as_secs_f64() / super::MTU as f64 * 2.0) as u64).max(1000)
    }

    fn tbf(&self, rate: Rate, place: &str) -> Vec<String> {
        // tbf needs the bytes of one timer tick (4 ms at HZ=250) where the timer is coarse, two packets
        // otherwise.
        let burst = ((rate.0 / 250.0) as u64).max(2 * super::MTU as u64);
        let limit = match self.queue.limit.resolve(self.rate, self.delay) {
            QueueLimit::Packets(packets) => u64::from(packets) * super::MTU as u64,
            QueueLimit::Bytes(bytes) => bytes.0,
            QueueLimit::Auto => unreachable!("resolved above"),
        };
        let mut lines = vec![format!(
            "tc qdisc add dev {DEVICE} {place} tbf rate {} burst {burst} limit {}",
            bits(rate),
            limit.max(burst)
        )];
        if let Discipline::CoDel { target, interval } = self.queue.discipline {
            lines.push(format!(
                "tc qdisc add dev {DEVICE} parent {}1 codel target {}us interval {}us",
                if place.starts_with("root") { "1:" } else { "2:" },
                target.as_micros(),
                interval.as_micros()
            ));
        }
        lines
    }
}

fn bits(rate: Rate) -> String {
    format!("{}bit", rate.bits().round() as u64)
}
