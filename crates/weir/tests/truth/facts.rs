//! The facts of a run as numbers, of which the judge sees nothing: from the emulator's counters, the sockets'
//! raw readings and what the applications say of themselves. Kept beside the evidence.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::plan::Plan;
use crate::settled::Settled;
use crate::traffic::Account;

/// Shares are 0 to 1, of the settled part of the run where they come from looks, of its whole where from an
/// application.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Facts {
    /// Looks at a pair of sockets.
    pub(crate) looks: f64,
    /// The part of the link's (or policer's) rate that was carried.
    pub(crate) used: f64,
    /// The part of the whole run, its start included, in which the link carried all that it can.
    pub(crate) link_full: f64,
    /// Mean smoothed round trip of the sender, milliseconds.
    pub(crate) rtt_ms: f64,
    /// By how much the emulator was late, of a round trip on average, milliseconds.
    pub(crate) late_ms: f64,
    /// Packets dropped in the settled part.
    pub(crate) dropped: f64,
    /// Packets dropped since the bed was made.
    pub(crate) dropped_in_all: f64,
    /// Looks at which the send queue had left less than a third of the send buffer.
    pub(crate) send_buffer_full: f64,
    /// Of the bytes in the send buffer, the share that was not sent yet.
    pub(crate) unsent_share: f64,
    /// Looks at which the unacknowledged bytes filled the peer's window.
    pub(crate) window_full: f64,
    /// Looks at which a quarter of the receive buffer lay unread.
    pub(crate) unread: f64,
    /// The first sending thread on its processor, and in socket calls.
    pub(crate) sender_cpu: f64,
    pub(crate) sender_in_socket: f64,
    /// The first receiving thread on its processor (of weir get: its quota of one used up), and in writes to
    /// its disk.
    pub(crate) receiver_cpu: f64,
    pub(crate) receiver_in_disk: f64,
    /// Answers that the client read, and the seconds it asked for.
    pub(crate) answers: f64,
    pub(crate) asking: f64,
}

impl Facts {
    /// What the link and the sockets show, whoever the programs are.
    pub(crate) fn of(plan: &Plan, settled: &Settled) -> Facts {
        Facts {
            looks: f64::from(settled.looks),
            used: settled.rate() / plan.cell.rate().0,
            link_full: settled.link.share(),
            rtt_ms: 1000.0 * settled.rtt(),
            late_ms: 1000.0 * settled.late,
            dropped: (settled.lost + settled.policed + settled.overflowed) as f64,
            dropped_in_all: settled.dropped_in_all as f64,
            send_buffer_full: settled.share(settled.send_buffer_full),
            unsent_share: settled.unsent_share(),
            window_full: settled.share(settled.window_full),
            unread: settled.share(settled.unread),
            ..Facts::default()
        }
    }

    /// And what both applications say: of the first connection's threads, answers of all.
    pub(crate) fn told(mut self, accounts: &[Account]) -> Facts {
        let part = |span: Duration, of: Duration| span.as_secs_f64() / of.as_secs_f64().max(1e-9);
        for account in accounts.iter().rev() {
            let cpu = part(account.cpu, account.wall);
            if account.receives {
                self.receiver_cpu = cpu;
                self.receiver_in_disk = part(account.in_disk, account.wall);
                self.answers += f64::from(account.answers);
                self.asking = account.wall.as_secs_f64();
            } else {
                self.sender_cpu = cpu;
                self.sender_in_socket = part(account.in_socket, account.wall);
            }
        }
        self
    }

    /// By their names, to four digits.
    pub(crate) fn to_json(self) -> Value {
        let mut facts = self;
        let map: Map<String, Value> = facts
            .fields()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), json!((*value * 1e4).round() / 1e4)))
            .collect();
        Value::Object(map)
    }

    /// Back from there; `None` where one is missing that every run has.
    pub(crate) fn from_json(json: &Value) -> Option<Facts> {
        let mut facts = Facts::default();
        for (name, field) in facts.fields() {
            match json.get(name) {
                Some(value) => *field = value.as_f64()?,
                // Runs that were kept before it was looked at.
                None if matches!(name, "link_full" | "late_ms") => {}
                None => return None,
            }
        }
        Some(facts)
    }

    fn fields(&mut self) -> [(&'static str, &mut f64); 17] {
        [
            ("looks", &mut self.looks),
            ("used", &mut self.used),
            ("link_full", &mut self.link_full),
            ("rtt_ms", &mut self.rtt_ms),
            ("late_ms", &mut self.late_ms),
            ("dropped", &mut self.dropped),
            ("dropped_in_all", &mut self.dropped_in_all),
            ("send_buffer_full", &mut self.send_buffer_full),
            ("unsent_share", &mut self.unsent_share),
            ("window_full", &mut self.window_full),
            ("unread", &mut self.unread),
            ("sender_cpu", &mut self.sender_cpu),
            ("sender_in_socket", &mut self.sender_in_socket),
            ("receiver_cpu", &mut self.receiver_cpu),
            ("receiver_in_disk", &mut self.receiver_in_disk),
            ("answers", &mut self.answers),
            ("asking", &mut self.asking),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_survive_json() {
        let facts = Facts { used: 0.4125, answers: 7.0, ..Facts::default() };
        assert_eq!(Facts::from_json(&facts.to_json()), Some(facts));
        assert_eq!(Facts::from_json(&json!({"used": 1.0})), None);
    }
}
