//! Which packets are lost: each for itself, or in bursts.

use fastrand::Rng;

use crate::path::{GilbertElliott, Loss, Share};

/// A loss model and where it stands.
#[derive(Debug)]
pub(super) struct LossProcess {
    model: Loss,
    rng: Rng,
    /// Gilbert-Elliott's state.
    bad: bool,
}

impl LossProcess {
    pub(super) fn new(model: Loss, rng: Rng) -> LossProcess {
        LossProcess { model, rng, bad: false }
    }

    pub(super) fn configure(&mut self, model: Loss) {
        self.model = model;
    }

    /// Decides about the next packet.
    pub(super) fn loses(&mut self) -> bool {
        match self.model {
            Loss::None => false,
            Loss::Random(share) => self.happens(share),
            Loss::Burst(model) => self.step(model),
        }
    }

    fn step(&mut self, model: GilbertElliott) -> bool {
        let change = if self.bad { model.leave } else { model.enter };
        if self.happens(change) {
            self.bad = !self.bad;
        }
        let loss = if self.bad { model.bad_loss } else { model.good_loss };
        self.happens(loss)
    }

    fn happens(&mut self, share: Share) -> bool {
        // f64() is below 1, so that a share of 1 always happens and one of 0 never.
        self.rng.f64() < share.0
    }
}
