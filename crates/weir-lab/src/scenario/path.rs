//! A path as a scenario writes it: what holds for both directions, and what differs in one.

use serde::Deserialize;
use weir_units::{Bytes, Rate};

use super::text::{QueueText, Span, Text};
use crate::path::{
    Direction, Discipline, Fidelity, GilbertElliott, Loss, Path, Policer, Queue, Reorder, Share,
};

/// `[path]`: the fields themselves hold for both directions unless `[path.up]` or `[path.down]` say
/// otherwise. Losses, policers and reordering alone hold only for `down`, where the data goes, because
/// acknowledgements would hide them.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(super) struct PathText {
    rate: Option<Text<Rate>>,
    delay: Option<Text<Span>>,
    jitter: Option<Text<Span>>,
    loss: Option<Text<Share>>,
    burst: Option<Burst>,
    reorder: Option<Text<Share>>,
    duplicate: Option<Text<Share>>,
    queue: Option<Text<QueueText>>,
    codel: Option<bool>,
    policer: Option<PolicerText>,
    fidelity: Option<FidelityText>,
    seed: u64,
    up: DirectionText,
    down: DirectionText,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct DirectionText {
    rate: Option<Text<Rate>>,
    delay: Option<Text<Span>>,
    jitter: Option<Text<Span>>,
    loss: Option<Text<Share>>,
    burst: Option<Burst>,
    reorder: Option<Text<Share>>,
    duplicate: Option<Text<Share>>,
    queue: Option<Text<QueueText>>,
    codel: Option<bool>,
    policer: Option<PolicerText>,
}

/// `{ share = "1%", length = 10 }`: losses in runs of that length.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Burst {
    share: Text<Share>,
    length: u16,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicerText {
    rate: Text<Rate>,
    burst: Text<Bytes>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FidelityText {
    Packet,
    Gso,
}

impl PathText {
    pub(super) fn path(self) -> Path {
        let up = DirectionText {
            rate: self.up.rate.or(self.rate),
            delay: self.up.delay.or(self.delay),
            queue: self.up.queue.or(self.queue),
            ..self.up
        };
        let down = DirectionText {
            rate: self.down.rate.or(self.rate),
            delay: self.down.delay.or(self.delay),
            jitter: self.down.jitter.or(self.jitter),
            loss: self.down.loss.or(self.loss),
            burst: self.down.burst.or(self.burst),
            reorder: self.down.reorder.or(self.reorder),
            duplicate: self.down.duplicate.or(self.duplicate),
            queue: self.down.queue.or(self.queue),
            codel: self.down.codel.or(self.codel),
            policer: self.down.policer.or(self.policer),
        };
        let fidelity = match self.fidelity {
            Some(FidelityText::Gso) => Fidelity::Gso,
            Some(FidelityText::Packet) | None => Fidelity::Packet,
        };
        Path { up: up.direction(), down: down.direction(), fidelity, seed: self.seed }
    }
}

impl DirectionText {
    fn direction(self) -> Direction {
        let span = |text: Option<Text<Span>>| text.map(|Text(Span(span))| span).unwrap_or_default();
        let delay = span(self.delay);
        let loss = match (self.burst, self.loss) {
            (Some(burst), _) => Loss::Burst(GilbertElliott::bursts(burst.share.0, f64::from(burst.length))),
            (None, Some(Text(share))) => Loss::Random(share),
            (None, None) => Loss::None,
        };
        Direction {
            rate: self.rate.map(|Text(rate)| rate),
            delay,
            jitter: span(self.jitter),
            loss,
            // A quarter of the delay overtakes a few packets at some ten Mbit/s, more than the three
            // duplicate acknowledgements that TCP takes for a loss.
            reorder: self.reorder.map(|Text(share)| Reorder { share, early: delay / 4 }),
            duplicate: self.duplicate.map(|Text(share)| share).unwrap_or_default(),
            queue: Queue {
                limit: self.queue.map(|Text(QueueText(limit))| limit).unwrap_or_default(),
                discipline: if self.codel == Some(true) { Discipline::CODEL } else { Discipline::DropTail },
            },
            policer: self.policer.map(|policer| Policer { rate: policer.rate.0, burst: policer.burst.0 }),
            trace: None,
        }
    }
}
