//! The rules: one file a limit, walked in the order of [`RULES`] for each interval.
//!
//! A rule convicts its limit, acquits it, or says what it would have to know. It reads one interval and, for
//! trends, the intervals around it; it never averages over the run, which [`crate::verdict`] does.
//!
//! A connection may be watched at its receiver, at its sender, or at both ends. The files of this folder
//! judge what the receiving end shows, those under [`sender`] what the sending end does: it sees congestion
//! window, unsent bytes and retransmissions, which from the receiver can only be inferred. A rule that infers
//! gives way where the other end is seen too ([`Rule::gives_way`]).

use crate::evidence::{Evidence, Facts, Interval, Trial};
use crate::limit::Limit;

pub mod application;
pub(crate) mod around;
pub mod connect;
pub mod cpu_core;
pub mod dirty_throttle;
pub mod disk;
pub mod dns;
pub(crate) mod end;
pub(crate) mod failing;
pub(crate) mod found;
pub(crate) mod judge;
pub mod latency;
pub mod memory;
pub mod nagle;
pub mod path_bandwidth;
pub mod path_loss;
pub mod path_mtu;
pub mod protocol_window;
pub mod rate_limit;
pub mod reader;
pub mod receive_window;
pub mod relay;
pub mod request_response;
pub mod sender;
pub mod sender_or_path;
pub(crate) mod silence;
pub(crate) mod spent;
pub(crate) mod stage;
pub(crate) mod stall;
pub(crate) mod steadiness;
pub mod think_time;
pub mod timeouts;
pub(crate) mod turns;
pub(crate) mod unanswered;
pub mod verify;
mod view;
pub(crate) mod waits;

pub(crate) use view::is_peers;
pub use view::{Side, View};

/// What judges one interval.
pub type Judge = fn(&Interval, &Context<'_>) -> Judgement;

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// What it can convict.
    pub limit: Limit,
    /// The end whose readings it judges.
    pub side: Side,
    /// It infers what the other end sees, so it does not speak where that end was watched as well.
    pub gives_way: bool,
    /// It judges the stages of a copy, weir's own or of a pipe of programs, and speaks of nothing else.
    pub staged: bool,
    /// It judges what a copy's source is written by, and speaks only where that was waited for.
    pub fed: bool,
    /// It judges what connections wait for, which is not read of our own lanes, and rules nothing out where
    /// it was not.
    pub waits: bool,
    /// It judges what stands around the connections, whichever end of them is seen, and speaks only where
    /// that was watched.
    pub around: bool,
    /// It judges how connections come about, which the clocks of our own lanes tell as well.
    pub steps: bool,
    /// The judgement of one interval.
    pub judge: Judge,
}

impl Rule {
    const fn receiver(limit: Limit, judge: Judge) -> Rule {
        Rule { side: Side::Receiver, ..Rule::sender(limit, judge) }
    }

    const fn sender(limit: Limit, judge: Judge) -> Rule {
        Rule {
            limit,
            side: Side::Sender,
            gives_way: false,
            staged: false,
            fed: false,
            waits: false,
            around: false,
            steps: false,
            judge,
        }
    }

    const fn inferring(self) -> Rule {
        Rule { gives_way: true, ..self }
    }

    const fn of_waits(self) -> Rule {
        Rule { waits: true, ..self }
    }

    const fn staged(self) -> Rule {
        Rule { staged: true, ..self }
    }

    const fn fed(self) -> Rule {
        Rule { fed: true, ..self }
    }

    const fn around(limit: Limit, judge: Judge) -> Rule {
        Rule { around: true, ..Rule::receiver(limit, judge) }
    }

    const fn of_steps(self) -> Rule {
        Rule { steps: true, ..self }
    }

    /// Whether it has a say where these ends are seen.
    pub fn speaks(&self, view: View) -> bool {
        if self.around {
            return view.around || self.steps && view.steps;
        }
        if self.fed {
            return view.fed;
        }
        if self.waits && !view.waits {
            return false;
        }
        if self.staged {
            return view.stages || (view.programs && view.sender && self.side == Side::Sender);
        }
        match self.side {
            Side::Receiver => view.receiver && !(self.gives_way && view.sender),
            Side::Sender => view.sender && !(self.gives_way && view.receiver),
        }
    }
}

/// Every rule but the fallback ([`sender_or_path`]). What someone set comes first, then what is seen directly
/// in a lane's own clocks or thread, then what is inferred from the connection: when two are about as strong,
/// the more direct wins. At most one row for a limit and a side.
pub const RULES: &[Rule] = &[
    Rule::receiver(Limit::RateLimit, rate_limit::judge),
    Rule::sender(Limit::RateLimit, sender::rate_limit::judge),
    Rule::around(Limit::Connect, connect::judge).of_steps(),
    Rule::around(Limit::Dns, dns::judge).of_steps(),
    Rule::receiver(Limit::PathMtu, path_mtu::judge).of_waits(),
    Rule::receiver(Limit::Timeouts, timeouts::judge).of_waits(),
    Rule::receiver(Limit::Nagle, nagle::judge).of_waits(),
    Rule::receiver(Limit::RequestResponse, request_response::judge).of_waits(),
    Rule::receiver(Limit::ProtocolWindow, protocol_window::judge).of_waits().inferring(),
    Rule::around(Limit::ThinkTime, think_time::judge),
    Rule::receiver(Limit::Application, application::judge),
    Rule::receiver(Limit::Latency, latency::judge),
    Rule::receiver(Limit::DirtyThrottle, dirty_throttle::judge),
    Rule::receiver(Limit::Disk, disk::judge),
    Rule::receiver(Limit::Memory, memory::judge),
    Rule::around(Limit::Upstream, relay::upstream),
    Rule::around(Limit::Downstream, relay::downstream),
    Rule::receiver(Limit::Reader, reader::judge),
    Rule::receiver(Limit::Verify, verify::judge),
    Rule::receiver(Limit::Decompress, stage::decompress).staged(),
    Rule::receiver(Limit::CpuCore, cpu_core::judge),
    Rule::sender(Limit::PathMtu, sender::path_mtu::judge).of_waits(),
    Rule::sender(Limit::Timeouts, sender::timeouts::judge).of_waits(),
    Rule::sender(Limit::Nagle, sender::nagle::judge).of_waits(),
    Rule::sender(Limit::RequestResponse, sender::request_response::judge).of_waits(),
    Rule::sender(Limit::ProtocolWindow, sender::protocol_window::judge).of_waits(),
    Rule::sender(Limit::SourceDisk, sender::source_disk::judge),
    Rule::sender(Limit::Upstream, sender::upstream::judge).fed(),
    Rule::sender(Limit::Compress, stage::compress).staged(),
    Rule::sender(Limit::Encrypt, stage::encrypt).staged(),
    Rule::sender(Limit::CpuCore, sender::cpu_core::judge),
    Rule::sender(Limit::Latency, sender::latency::judge),
    Rule::sender(Limit::Application, sender::application::judge),
    Rule::sender(Limit::SendBuffer, sender::send_buffer::judge),
    Rule::sender(Limit::Reader, sender::reader::judge).inferring(),
    Rule::sender(Limit::ReceiveWindow, sender::receive_window::judge),
    Rule::sender(Limit::PathLoss, sender::path_loss::judge),
    Rule::sender(Limit::PathBandwidth, sender::path_bandwidth::judge),
    Rule::receiver(Limit::ReceiveWindow, receive_window::judge).inferring(),
    Rule::receiver(Limit::PathLoss, path_loss::judge).inferring(),
    Rule::receiver(Limit::PathBandwidth, path_bandwidth::judge).inferring(),
];

/// What a rule may look at besides the interval.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// What holds for the whole run.
    pub facts: &'a Facts,
    /// What changes of the lane count brought.
    pub trials: &'a [Trial],
    /// The intervals before the judged one, oldest first.
    pub before: &'a [Interval],
    /// The intervals after it, oldest first: empty while the transfer runs.
    pub after: &'a [Interval],
}

impl<'a> Context<'a> {
    /// For an interval that is newer than all of `evidence`: while the transfer runs.
    pub fn live(evidence: &'a Evidence) -> Context<'a> {
        Context { facts: &evidence.facts, trials: &evidence.trials, before: &evidence.intervals, after: &[] }
    }

    /// For the interval at `index` of `evidence`, with hindsight.
    pub fn at(evidence: &'a Evidence, index: usize) -> Context<'a> {
        let (before, rest) = evidence.intervals.split_at(index.min(evidence.intervals.len()));
        Context { before, after: rest.get(1..).unwrap_or_default(), ..Context::live(evidence) }
    }

    /// For an interval that stands alone, such as a whole run merged into one.
    pub fn alone(evidence: &'a Evidence) -> Context<'a> {
        Context { before: &[], after: &[], ..Context::live(evidence) }
    }

    /// Who transfers, for the start of a clause: `wget (pid 4711)`, or `the lanes` of our own.
    pub(crate) fn who(&self) -> &'a str {
        self.facts.scope.as_deref().unwrap_or("the connections")
    }

    /// The intervals before the judged one, newest first, until `seconds` are covered: one at least, if there
    /// is one.
    pub(crate) fn recent(&self, seconds: f64) -> impl Iterator<Item = &'a Interval> {
        within(self.before.iter().rev(), seconds)
    }

    /// The judged interval itself, and those on each side of it until `seconds` are covered: see
    /// [`Context::recent`] and [`Context::following`].
    pub(crate) fn around<'w>(
        &self,
        interval: &'w Interval,
        seconds: f64,
    ) -> impl Iterator<Item = &'w Interval>
    where
        'a: 'w,
    {
        let (before, after): (&'w [Interval], &'w [Interval]) = (self.before, self.after);
        let earlier = within(before.iter().rev(), seconds);
        std::iter::once(interval).chain(earlier).chain(within(after.iter(), seconds))
    }

    /// The intervals after the judged one, oldest first, until `seconds` are covered: one at least, if there
    /// is one.
    pub(crate) fn following(&self, seconds: f64) -> impl Iterator<Item = &'a Interval> {
        within(self.after.iter(), seconds)
    }
}

fn within<'a>(
    intervals: impl Iterator<Item = &'a Interval>,
    seconds: f64,
) -> impl Iterator<Item = &'a Interval> {
    let mut covered = 0.0;
    intervals.take_while(move |interval| {
        let begins = covered;
        covered += interval.span.as_secs_f64();
        begins <= 0.0 || begins < seconds
    })
}

/// What a rule says of an interval. Texts are whole clauses with numbers and units.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// This limit held.
    Convict {
        /// 0 to 1: the share of the interval that it accounts for, times how sure the sign is.
        strength: f64,
        /// The numbers that say so.
        evidence: String,
    },
    /// This limit did not hold.
    Acquit {
        /// The numbers that say so.
        evidence: String,
    },
    /// It cannot be told.
    Unknown {
        /// The reading that would tell.
        missing: String,
    },
}

impl Judgement {
    pub(crate) fn convict(strength: f64, evidence: String) -> Judgement {
        let strength = if strength.is_finite() { strength.clamp(0.0, 1.0) } else { 0.0 };
        Judgement::Convict { strength, evidence }
    }

    pub(crate) fn acquit(evidence: impl Into<String>) -> Judgement {
        Judgement::Acquit { evidence: evidence.into() }
    }

    pub(crate) fn unknown(missing: impl Into<String>) -> Judgement {
        Judgement::Unknown { missing: missing.into() }
    }

    /// Whether this convicts.
    pub fn convicts(&self) -> bool {
        matches!(self, Judgement::Convict { .. })
    }

    /// Whether this acquits.
    pub(crate) fn acquits(&self) -> bool {
        matches!(self, Judgement::Acquit { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_and_side_has_at_most_one_rule_and_the_fallback_is_not_among_them() {
        let mut rows: Vec<(Limit, Side)> = RULES.iter().map(|rule| (rule.limit, rule.side)).collect();
        assert!(rows.iter().all(|(limit, _)| *limit != Limit::SenderOrPath));
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len(), RULES.len());
    }

    #[test]
    fn a_context_never_holds_the_judged_window() {
        let evidence = Evidence { intervals: vec![Interval::default(); 3], ..Evidence::default() };
        let around = |index| {
            let context = Context::at(&evidence, index);
            (context.before.len(), context.after.len())
        };
        assert_eq!([around(0), around(2), around(3)], [(0, 2), (2, 0), (3, 0)]);
    }
}
