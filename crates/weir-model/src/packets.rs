//! What limited packets per second? The judge of a run whose two ends are both known.
//!
//! Packets are handed over as fast as a thread can, so unlike a TCP connection nothing slows the sender down
//! but itself and its device: whatever comes after it and is slower shows as loss, and where the loss was
//! counted says who.

use std::collections::BTreeMap;

use crate::advice::Advice;
use crate::evidence::Reading;
use crate::limit::Limit;
use crate::verdict::{MainLimit, Verdict};

/// Less loss than this is no limit: a full buffer at the very start costs as much.
const LOSS: f64 = 0.001;

/// A rate this near to the one asked for is that one.
const REACHED: f64 = 0.98;

/// A thread that ran, or waited for a processor, for so much of the time is what a core can do.
const FULL: f64 = 0.85;

/// One thread's time as shares of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ThreadShare {
    /// On a processor.
    pub run: f64,
    /// Ready to run, but waiting for one.
    pub wait: f64,
}

impl ThreadShare {
    fn is_full(self) -> bool {
        self.run + self.wait >= FULL
    }

    fn words(self) -> String {
        let run = format!("ran {:.0} % of the time", self.run * 100.0);
        if self.wait < 0.05 {
            run
        } else {
            format!("{run} and waited {:.0} % for a processor", self.wait * 100.0)
        }
    }
}

/// What both ends know of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct PacketRun {
    /// Packets a second that were asked for; `None`: as many as go.
    pub asked: Option<f64>,
    /// Packets a second that were handed to the kernel.
    pub sent_rate: f64,
    /// Packets handed to the kernel.
    pub sent: u64,
    /// Packets that came, each once.
    pub received: u64,
    /// Lost at the receiver's full socket buffer.
    pub buffer_drops: u64,
    /// Lost at a full backlog of the receiving host's processor, any program's.
    pub backlog_drops: Reading<u64>,
    /// Times that the sender's device had no room.
    pub device_full: u64,
    /// The busiest sending thread.
    pub sender: ThreadShare,
    /// The busiest receiving thread.
    pub receiver: ThreadShare,
    /// Both ends are this machine, and share its processors.
    pub same_host: bool,
    /// The kernel cuts and joins packets (GSO, GRO).
    pub joined: bool,
}

/// What convicts, and the words for it.
struct Finding {
    limit: Limit,
    confidence: f64,
    evidence: Vec<String>,
    advice: Option<&'static str>,
}

/// Names what limited the packets that came.
pub fn judge(run: &PacketRun) -> Verdict {
    let lost = run.sent.saturating_sub(run.received);
    let loss = lost as f64 / run.sent.max(1) as f64;
    if run.sent == 0 {
        return verdict(None, Vec::new(), vec!["no packet was sent".to_owned()]);
    }
    let finding = if loss <= LOSS { sender_side(run) } else { receiver_side(run, lost, loss) };
    let mut innocent = Vec::new();
    if loss <= LOSS {
        innocent.push(format!("path-loss: {lost} of {} packets lost", run.sent));
    }
    if finding.limit != Limit::CpuCore {
        innocent.push(format!(
            "cpu-core: the busiest sending thread {}, the busiest receiving one {}",
            run.sender.words(),
            run.receiver.words()
        ));
    }
    let missing = run.backlog_drops.missing().map(str::to_owned).into_iter().collect();
    verdict(Some(finding), innocent, missing)
}

fn verdict(finding: Option<Finding>, innocent: Vec<String>, missing: Vec<String>) -> Verdict {
    let limit = finding.as_ref().map(|finding| finding.limit);
    Verdict {
        limit: limit.map(MainLimit::One),
        confidence: finding.as_ref().map_or(0.0, |finding| finding.confidence),
        shares: limit.map(|limit| (limit, 1.0)).into_iter().collect::<BTreeMap<_, _>>(),
        phases: Vec::new(),
        advice: (finding.as_ref().and_then(|finding| finding.advice))
            .map(|action| Advice { action: action.to_owned(), predicted_rate: None })
            .into_iter()
            .collect(),
        evidence: finding.map(|finding| finding.evidence).unwrap_or_default(),
        innocent,
        not_visible: Vec::new(),
        missing,
        intervals: Vec::new(),
        grounds: None,
    }
}

/// All came, so the sender set the pace. Conditions, in order: 1. it sent what it was asked for; 2. its
/// thread filled a core;
/// 3. else it waited, and all that a UDP sender waits for is its device.
fn sender_side(run: &PacketRun) -> Finding {
    let (limit, confidence, said, advice) = match run.asked {
        Some(asked) if run.sent_rate >= asked * REACHED => (
            Limit::RateLimit,
            0.95,
            format!("{asked:.0} packets/s were asked for, sent, and came: more may be possible"),
            None,
        ),
        _ if run.sender.is_full() => (
            Limit::CpuCore,
            0.9,
            format!("the busiest sending thread {}, and all that it sent came", run.sender.words()),
            Some(match (run.same_host, run.joined) {
                (_, false) => {
                    "let the kernel cut packets (--method gso), or send from more threads (--threads)"
                }
                (true, _) => "measure between two hosts: here both ends share this machine's processors",
                (false, _) => "send from more threads (--threads)",
            }),
        ),
        _ => (
            Limit::PathBandwidth,
            0.6,
            format!(
                "the busiest sending thread {} and was held the rest of it: its device took no more ({} times it said so)",
                run.sender.words(),
                run.device_full
            ),
            None,
        ),
    };
    Finding { limit, confidence, evidence: vec![said], advice }
}

/// Some were lost. Conditions, in order, half of the loss being enough for each: 1. at the receiver's
/// socket buffer: its thread is full, or its buffer too small for bursts; 2. at the receiving
/// processor's backlog; 3. elsewhere: between the hosts. It can be wrong where a device drops what it
/// counts nowhere: that loss is taken for the path's.
fn receiver_side(run: &PacketRun, lost: u64, loss: f64) -> Finding {
    let backlog = run.backlog_drops.value().copied().unwrap_or_default();
    let most = |part: u64| part.saturating_mul(2) >= lost;
    let head = format!("{lost} of {} packets lost ({:.2} %)", run.sent, loss * 100.0);
    let (limit, confidence, said, advice) = if most(run.buffer_drops) && run.receiver.is_full() {
        (
            Limit::CpuCore,
            0.9,
            format!(
                "{} of them at the receiver's full buffer, whose busiest thread {}",
                run.buffer_drops,
                run.receiver.words()
            ),
            Some(if run.joined {
                "receive on more threads (--threads)"
            } else {
                "let the kernel join packets (--method gso), or receive on more threads (--threads)"
            }),
        )
    } else if most(run.buffer_drops) {
        (
            Limit::Reader,
            0.8,
            format!(
                "{} of them at the receiver's full buffer, though its busiest thread {}: bursts, or a processor that others use too",
                run.buffer_drops,
                run.receiver.words()
            ),
            Some("a larger receive buffer (--receive-buffer, within the far end's net.core.rmem_max)"),
        )
    } else if most(backlog) {
        (
            Limit::CpuCore,
            0.7,
            format!(
                "{backlog} of them, or of others' packets, at the receiving processor's backlog (softnet_stat)"
            ),
            Some(
                "spread the packets over processors there (more --threads, RPS), or raise net.core.netdev_max_backlog",
            ),
        )
    } else {
        let limit = if run.asked.is_some() { Limit::PathLoss } else { Limit::PathBandwidth };
        (
            limit,
            0.6,
            format!(
                "{} of them at the receiver's buffer, {backlog} at its backlog: the rest between the hosts",
                run.buffer_drops
            ),
            None,
        )
    };
    Finding { limit, confidence, evidence: vec![head, said], advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> PacketRun {
        PacketRun {
            asked: None,
            sent_rate: 1e6,
            sent: 1_000_000,
            received: 1_000_000,
            buffer_drops: 0,
            backlog_drops: Reading::Value(0),
            device_full: 0,
            sender: ThreadShare { run: 0.97, wait: 0.0 },
            receiver: ThreadShare { run: 0.5, wait: 0.0 },
            same_host: false,
            joined: true,
        }
    }

    fn limit(run: &PacketRun) -> &'static str {
        match judge(run).limit {
            Some(MainLimit::One(limit)) => limit.name(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_culprit_by_its_evidence() {
        let full = ThreadShare { run: 0.6, wait: 0.38 };
        let idle = ThreadShare { run: 0.3, wait: 0.0 };
        assert_eq!(limit(&run()), "cpu-core");
        assert_eq!(limit(&PacketRun { asked: Some(1e6), ..run() }), "rate-limit");
        assert_eq!(limit(&PacketRun { asked: Some(2e6), ..run() }), "cpu-core");
        assert_eq!(limit(&PacketRun { sender: idle, ..run() }), "path-bandwidth");
        let lossy = PacketRun { received: 700_000, ..run() };
        assert_eq!(limit(&lossy), "path-bandwidth");
        assert_eq!(limit(&PacketRun { asked: Some(1e6), ..lossy.clone() }), "path-loss");
        assert_eq!(limit(&PacketRun { buffer_drops: 290_000, ..lossy.clone() }), "reader");
        assert_eq!(limit(&PacketRun { buffer_drops: 290_000, receiver: full, ..lossy.clone() }), "cpu-core");
        assert_eq!(limit(&PacketRun { backlog_drops: Reading::Value(200_000), ..lossy }), "cpu-core");
    }

    #[test]
    fn evidence_names_numbers_and_what_is_missing() {
        let verdict = judge(&PacketRun {
            received: 500_000,
            buffer_drops: 500_000,
            backlog_drops: Reading::Missing("no softnet_stat".into()),
            ..run()
        });
        assert_eq!(verdict.evidence[0], "500000 of 1000000 packets lost (50.00 %)");
        assert!(verdict.evidence[1].contains("ran 50 % of the time"), "{:?}", verdict.evidence);
        assert_eq!(verdict.missing, ["no softnet_stat"]);
        assert_eq!(judge(&PacketRun { sent: 0, received: 0, ..run() }).limit, None);
    }
}
