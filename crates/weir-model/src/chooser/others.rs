//! What the machine does beside compressing: processor time for each byte of payload (reading, digesting) and
//! for each byte on the wire (cipher, sockets).
//!
//! Both are fitted to what was seen, by least squares that forget: compressing saves the second and not the
//! first, which decides where the processors are the limit. A window counts by its bytes, so that the sums
//! give all time for all bytes: one in which the machine did something else and hardly a byte passed would
//! else be believed like one in which a hundred times as many did, and for seconds no codec would seem worth
//! its time.

/// Windows that are remembered.
const WINDOWS: f64 = 50.0;

/// Weight of the assumption that both cost the same, in windows of mean size: it decides as long as only one
/// ratio was seen.
const ASSUMED: f64 = 0.05;

/// See the module's page.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Others {
    /// Sums over windows of payload^2, payload x wire, wire^2, payload x time, wire x time, each over the
    /// window's size; of sizes; and of windows.
    sums: [f64; 7],
    /// Seconds per byte of payload.
    pub(super) payload: f64,
    /// Seconds per byte on the wire.
    pub(super) wire: f64,
}

impl Others {
    /// A window in which so many bytes of payload were packed, so many went over the wire, and all else took
    /// so much time.
    pub(super) fn learn(&mut self, payload: f64, wire: f64, seconds: f64) {
        let size = payload.max(wire);
        if size <= 0.0 {
            return;
        }
        let (p, w, t) = (payload, wire, seconds);
        let products = [p * p, p * w, w * w, p * t, w * t].map(|product| product / size);
        for (sum, new) in self.sums.iter_mut().zip(products.into_iter().chain([size, 1.0])) {
            *sum = *sum * (1.0 - 1.0 / WINDOWS) + new;
        }
        self.fit();
    }

    fn fit(&mut self) {
        let [pp, pw, ww, pt, wt, sizes, windows] = self.sums;
        // (payload - wire)^2 is held small by as much as ASSUMED windows would.
        let assumed = ASSUMED * sizes / windows;
        let (pp, pw, ww) = (pp + assumed, pw - assumed, ww + assumed);
        let determinant = pp * ww - pw * pw;
        let (payload, wire) = ((pt * ww - wt * pw) / determinant, (wt * pp - pt * pw) / determinant);
        (self.payload, self.wire) = match (payload >= 0.0, wire >= 0.0) {
            (true, true) => (payload, wire),
            // One of them alone.
            (true, false) => ((pt / self.sums[0]).max(0.0), 0.0),
            (false, _) => (0.0, (wt / self.sums[2].max(1.0)).max(0.0)),
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
    fn a_window_in_which_hardly_a_byte_passed_decides_nothing() {
        let mut others = Others::default();
        for window in 0..10 {
            let stalled = window == 3;
            let payload = if stalled { 0.5e6 } else { 30e6 };
            others.learn(payload, 0.4 * payload, if stalled { 0.15 } else { 2e-9 * payload });
        }
        // All the time for all the bytes: 0.54 s of others and 0.15 s for 270.5 MB.
        let cost = others.payload + 0.4 * others.wire;
        assert!((cost - 0.69 / 270.5e6).abs() < 0.1e-9, "{others:?}");
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
