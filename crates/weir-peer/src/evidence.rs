//! Both ends' windows as one: what the judge of a copy gets.

use std::time::{Duration, Instant};

use weir_model::congestion::Controls;
use weir_model::evidence::{Evidence, LaneWindow, Reading, Trial, Window};
use weir_model::forecast::{self, Forecast};
use weir_model::limit::Limit;
use weir_model::rule::Context;
use weir_model::verdict::judge_window;
use weir_units::Rate;

use crate::watch::Sample;
use crate::wire::message::Role;

/// Windows kept where there are few lanes: eight minutes at full grain.
const MOST_WINDOWS: usize = 4800;

/// Windows of one lane kept, about 1 KiB each: of sixteen lanes those of two minutes at full grain.
const MOST_LANE_WINDOWS: usize = 24_000;

/// JSON of a window itself, and of each lane in it: twice what they take. Words fill the rest of what a far end that lies may send.
const WINDOW_JSON: usize = 8 << 10;
const LANE_JSON: usize = 3 << 10;

/// A sender's window says nothing of a time so much later. Windows come ten times a second, over ssh in bursts of a few.
const STALE: Duration = Duration::from_secs(1);

/// Joins the windows of both ends as they come.
#[derive(Debug)]
pub struct Joiner {
    /// This end's role.
    role: Role,
    evidence: Evidence,
    /// The sender's last window, and when it came.
    sending: Option<(Window, Instant)>,
    /// The sender has told something before, and nothing lately.
    silent: bool,
    limit: Option<Limit>,
    fresh: bool,
    outlook: Option<Rate>,
    forecast: Option<Forecast>,
    controls: Controls,
}

impl Joiner {
    /// For an end of this role, with a far end on the same machine or not.
    pub fn new(role: Role, peer_is_local: bool, lanes_fixed: Option<u32>, objects: u64) -> Joiner {
        let mut evidence = Evidence::default();
        evidence.facts.peer_is_local = peer_is_local;
        evidence.facts.lanes_fixed = lanes_fixed;
        evidence.facts.objects = objects;
        let (limit, outlook, forecast) = (None, None, None);
        Joiner {
            role,
            evidence,
            sending: None,
            silent: false,
            limit,
            fresh: false,
            outlook,
            forecast,
            controls: Controls::default(),
        }
    }

    /// A window of this end.
    pub fn own(&mut self, sample: Sample) {
        self.take(sample, self.role);
    }

    /// A window of a far end of this role, as it told it, when as many lanes as `made` had been begun.
    pub fn far(&mut self, role: Role, json: &str, made: u32) {
        // Evidence is for words only: what cannot be read is missing there.
        match serde_json::from_str::<Sample>(json) {
            Ok(mut sample) => {
                let lanes = &mut sample.window.lanes;
                lanes.retain(|lane| lane.lane < made);
                lanes.iter_mut().for_each(without_strange_names);
                lanes.sort_by_key(|lane| lane.lane);
                lanes.dedup_by_key(|lane| lane.lane);
                if json.len() <= WINDOW_JSON + LANE_JSON * lanes.len() {
                    self.take(sample, role);
                }
            }
            Err(error) => tracing::debug!("the far end's sample: {error}"),
        }
    }

    /// What holds the copy now.
    pub fn limit(&self) -> Option<Limit> {
        self.limit
    }

    /// What the copy's first moments foretell.
    pub fn forecast(&self) -> Option<Forecast> {
        self.forecast
    }

    /// What congestion control the lanes went by, and from when on.
    pub fn controls(&self) -> &[(f64, String)] {
        self.controls.changes()
    }

    /// All of it so far.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// The window that was joined last, if it was not asked for before.
    pub fn latest(&mut self) -> Option<&Window> {
        std::mem::take(&mut self.fresh).then(|| self.evidence.windows.last()).flatten()
    }

    /// All of it, with what changes of the lane count brought.
    pub fn into_evidence(mut self, trials: &[Trial]) -> Evidence {
        self.evidence.trials = trials.to_vec();
        self.evidence
    }

    fn take(&mut self, sample: Sample, role: Role) {
        if let Some(told) = sample.facts {
            let facts = &mut self.evidence.facts;
            match role {
                Role::Receiver => {
                    facts.tcp_rmem_max = told.tcp_rmem_max;
                    facts.disk = told.disk;
                    facts.memory = told.memory;
                    facts.cpus = told.cpus;
                }
                Role::Sender => {
                    facts.rate_cap = told.rate_cap;
                    facts.tcp_wmem_max = told.tcp_wmem_max;
                }
            }
        }
        match role {
            Role::Sender => {
                self.outlook = sample.outlook.map(Rate).or(self.outlook);
                self.sending = Some((sample.window, Instant::now()));
            }
            Role::Receiver => self.join(sample.window, Instant::now()),
        }
    }

    /// The receiver's window is the ground: it has the bytes that arrived. The sender's last one says what its end did, as long as
    /// that end goes on telling: of one that stands still its last state is no news.
    fn join(&mut self, mut window: Window, now: Instant) {
        if let Some((_, came)) =
            self.sending.take_if(|(_, came)| now.saturating_duration_since(*came) > STALE)
        {
            tracing::debug!("no samples from the sender for {:?}", now.saturating_duration_since(came));
            self.silent = true;
        }
        if self.sending.is_some() {
            self.silent = false;
        } else if self.silent {
            let why = "the sender told nothing at that time: its program stood still, or its words did not come through";
            window.sending = Reading::Missing(why.to_owned());
        }
        if let Some((sending, _)) = &self.sending {
            window.sending = sending.sending.clone();
            for lane in &mut window.lanes {
                if let Some(other) = sending.lanes.iter().find(|other| other.lane == lane.lane) {
                    lane.sender = other.sender.clone();
                }
            }
            if let Reading::Value(stages) = &sending.sending {
                let limited = stages.share(stages.limited, sending.span);
                window.lanes.iter_mut().for_each(|lane| lane.limited = window.span.mul_f64(limited));
            }
        }
        self.limit = Some(judge_window(&window, &Context::live(&self.evidence)).limit);
        // Of a long run windows are joined, and what happened within one is no more to be seen.
        self.controls.observe(&window);
        let most = MOST_WINDOWS.min(MOST_LANE_WINDOWS / window.lanes.len().max(1));
        self.evidence.push(window, most);
        self.fresh = true;
        if self.forecast.is_none() {
            self.forecast = forecast::from_start(&self.evidence, self.outlook);
        }
    }
}

/// A congestion control has a short name of few letters (TCP_CA_NAME_MAX, 16 bytes with the zero); anything else is none.
fn without_strange_names(lane: &mut LaneWindow) {
    if let Reading::Value(seen) = &mut lane.sender {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        seen.congestion_control
            .take_if(|name| name.len() > 15 || name.is_empty() || !name.bytes().all(plain));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::sender::SenderWindow;

    #[test]
    fn the_last_word_of_a_sender_that_stands_still_is_no_news() {
        let mut joiner = Joiner::new(Role::Receiver, false, None, 1);
        let window = || Window { span: Duration::from_millis(100), ..Window::default() };
        let told = Window { sending: Reading::Value(Default::default()), ..window() };
        let start = Instant::now();
        joiner.sending = Some((told.clone(), start));
        joiner.join(window(), start + STALE);
        joiner.join(window(), start + STALE + Duration::from_millis(100));
        joiner.join(window(), start + 20 * STALE);
        joiner.sending = Some((told, start + 20 * STALE));
        joiner.join(window(), start + 20 * STALE);
        let seen: Vec<bool> =
            joiner.evidence().windows.iter().map(|window| window.sending.value().is_some()).collect();
        assert_eq!(seen, [true, false, false, true]);
    }

    #[test]
    fn a_far_end_names_its_congestion_control_in_plain_letters() {
        let left = |name: &str| {
            let sender =
                SenderWindow { congestion_control: Some(name.to_owned()), ..SenderWindow::default() };
            let mut lane = LaneWindow { sender: Reading::Value(sender), ..LaneWindow::default() };
            without_strange_names(&mut lane);
            lane.sender.value().and_then(|seen| seen.congestion_control.clone())
        };
        for name in ["cubic", "bbr", "dctcp-reno", "a23456789_12345"] {
            assert_eq!(left(name).as_deref(), Some(name));
        }
        for name in ["", "\u{1b}[2J", "bbr\n", "b b", "a234567890123456"] {
            assert_eq!(left(name), None, "{name:?}");
        }
    }
}
