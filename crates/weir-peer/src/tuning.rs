//! How many lanes? What both ends see is put before the tuner of `weir get`, which asks the same question.

use std::time::Duration;

use weir_model::evidence::{LaneWindow, Window};
use weir_model::limit::Limit;
use weir_model::stages::Stages;
use weir_transfer::tuner::{Advice, Observation, Tuner};

/// Lanes at most: each has two threads at the receiver with a block each.
const MOST: u32 = 16;

/// The tuner and what it has seen.
#[derive(Debug)]
pub(crate) struct Tuning {
    tuner: Tuner,
    at: Duration,
}

impl Tuning {
    /// One that begins with one lane.
    pub(crate) fn new() -> Tuning {
        Tuning { tuner: Tuner::new(1, MOST), at: Duration::ZERO }
    }

    /// Takes in a window of both ends; how many lanes there should be, if not as many as there are.
    pub(crate) fn observe(
        &mut self,
        window: &Window,
        limit: Limit,
        lanes: u32,
        left: Option<u64>,
    ) -> Option<u32> {
        self.at += window.span;
        let ends = [window.sending.value(), window.receiving.value()];
        let free = |end: &Stages| f64::from(end.cpus) - end.busy.unwrap_or(f64::from(end.cpus));
        let seen = Observation {
            now: self.at,
            span: window.span,
            bytes: window.received,
            lanes,
            started: window.lanes.iter().filter(|lane| lane.received > 0).count() as u32,
            limit,
            free_cpus: ends.into_iter().flatten().map(free).fold(f64::INFINITY, f64::min).clamp(0.0, 1e3),
            own_cpu: 0.0,
            left,
            refused: false,
            queue: has_queue(window),
            round_trip: window.lanes.iter().filter_map(|lane| lane.tcp.value()?.min_rtt).max(),
            disorder: window.lanes.iter().filter_map(|lane| lane.tcp.value()).any(|tcp| tcp.out_of_order > 0),
        };
        match self.tuner.observe(&seen) {
            Advice::Lanes(lanes, why) => {
                tracing::info!("lanes: {why}");
                Some(lanes)
            }
            Advice::Hold => None,
        }
    }

    /// What trials brought.
    pub(crate) fn trials(&self) -> &[weir_model::evidence::Trial] {
        self.tuner.trials()
    }
}

/// Most lanes' round trips are a third above their shortest, as their sender sees them.
fn has_queue(window: &Window) -> bool {
    let ratio = |lane: &LaneWindow| {
        let seen = lane.sender.value()?;
        Some(seen.rtt?.as_secs_f64() / seen.min_rtt?.as_secs_f64().max(1e-6))
    };
    let ratios: Vec<f64> = window.lanes.iter().filter_map(ratio).collect();
    ratios.iter().filter(|ratio| **ratio > 1.33).count() * 2 > ratios.len()
}
