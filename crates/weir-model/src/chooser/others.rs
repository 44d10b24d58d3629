//! What the machine does beside compressing: processor time for each byte of payload (reading, digesting) and for each byte on
//! the wire (cipher, sockets).
//!
//! Both are fitted to what was seen, by least squares that forget: compressing saves the second and not the first, which decides
//! where the processors are the limit.

/// Windows that are remembered.
const WINDOWS: f64 = 50.0;

/// Weight of the assumption that both cost the same, in windows: it decides as long as only one ratio was seen.
const ASSUMED: f64 = 0.05;

/// See the module's page.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Others {
    /// Sums over windows of payload^2, payload x wire, wire^2, payload x time, wire x time.
    sums: [f64; 5],
    /// Seconds per byte of payload.
    pub(super) payload: f64,
    /// Seconds per byte on the wire.
    pub(super) wire: f64,
}

impl Others {
    /// A window in which so many bytes of payload were packed, so many went over the wire, and all else took so much time.
    pub(super) fn learn(&mut self, payload: f64, wire: f64, seconds: f64) {
        let size = payload.max(wire);
        if size <= 0.0 {
            return;
        }
        // Each window counts by its shares, not by its bytes: a fast one is no better a witness.
        let (p, w, t) = (payload / size, wire / size, seconds / size);
        for (sum, new) in self.sums.iter_mut().zip([p * p, p * w, w * w, p * t, w * t]) {
            *sum = *sum * (1.0 - 1.0 / WINDOWS) + new;
        }
        self.fit();
    }

    fn fit(&mut self) {
        let [pp, pw, ww, pt, wt] = self.sums;
        // (payload - wire)^2 is held small by as much as ASSUMED windows would.
        let (pp, pw, ww) = (pp + ASSUMED, pw - ASSUMED, ww + ASSUMED);
        let determinant = pp * ww - pw * pw;
        let (payload, wire) = ((pt * ww - wt * pw) / determinant, (wt * pp - pt * pw) / determinant);
        (self.payload, self.wire) = match (payload >= 0.0, wire >= 0.0) {
            (true, true) => (payload, wire),
            // One of them alone.
            (true, false) => ((pt / self.sums[0]).max(0.0), 0.0),
            (false, _) => (0.0, (wt / self.sums[2].max(1e-12)).max(0.0)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ratios_tell_the_two_costs_apart() {
        let mut others = Others::default();
        for window in 0..40 {
            let payload = 100e6;
            let wire = if window % 4 == 0 { payload } else { 0.4 * payload };
            others.learn(payload, wire, 0.2e-9 * payload + 1.2e-9 * wire);
        }
        assert!(
            (others.payload - 0.2e-9).abs() < 0.05e-9 && (others.wire - 1.2e-9).abs() < 0.08e-9,
            "{others:?}"
        );
    }

    #[test]
    fn one_ratio_alone_is_shared_out() {
        let mut others = Others::default();
        for _ in 0..40 {
            others.learn(100e6, 100e6, 0.2);
        }
        assert!((others.payload - 1e-9).abs() < 1e-11 && (others.wire - 1e-9).abs() < 1e-11, "{others:?}");
    }
}
