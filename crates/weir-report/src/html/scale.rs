//! From values to places on a picture. Whatever is put in, what comes out lies within the picture.

pub use crate::figures::sane;

/// Equal steps.
#[derive(Debug, Clone, Copy)]
pub struct Linear {
    /// Values.
    values: (f64, f64),
    /// Places.
    places: (f64, f64),
}

impl Linear {
    /// Values from `low` to `high` lie between two places.
    pub fn new((low, high): (f64, f64), places: (f64, f64)) -> Linear {
        let (low, high) = (sane(low), sane(high));
        // A scale of no length would divide by zero.
        Linear { values: (low, if high > low { high } else { 2.0 * low + 1.0 }), places }
    }

    /// Where a value lies.
    pub fn at(&self, value: f64) -> f64 {
        let (low, high) = self.values;
        let share = ((sane(value) - low) / (high - low)).clamp(0.0, 1.0);
        self.places.0 + share * (self.places.1 - self.places.0)
    }

    /// Round values, about `count` of them, from the first to the last that the scale holds.
    pub fn ticks(&self, count: usize) -> Vec<f64> {
        let (low, high) = self.values;
        let step = nice((high - low) / count.max(1) as f64);
        let first = (low / step - 1e-9).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        (first..=last).take(50).map(|index| index as f64 * step).collect()
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is no less.
pub fn nice(step: f64) -> f64 {
    let power = 10_f64.powf(step.max(1e-12).log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= step * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// The largest of these values, and some air above it.
pub fn top(values: impl Iterator<Item = f64>) -> f64 {
    let most = values.map(sane).fold(0.0, f64::max);
    if most > 0.0 { most * 1.08 } else { 1.0 }
}

/// Equal factors.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    /// Powers of ten.
    powers: (f64, f64),
    places: (f64, f64),
}

impl Log {
    /// Values from `low` to `high`, neither 0, lie between two places.
    pub fn new((low, high): (f64, f64), places: (f64, f64)) -> Log {
        let low = sane(low).max(1e-12).log10();
        let high = sane(high).max(1e-12).log10();
        Log { powers: (low, if high > low + 1e-6 { high } else { low + 1.0 }), places }
    }

    /// Where a value lies.
    pub fn at(&self, value: f64) -> f64 {
        let (low, high) = self.powers;
        let share = ((sane(value).max(1e-12).log10() - low) / (high - low)).clamp(0.0, 1.0);
        self.places.0 + share * (self.places.1 - self.places.0)
    }

    /// Powers of ten within.
    pub fn ticks(&self) -> Vec<f64> {
        let (low, high) = self.powers;
        ((low - 1e-9).ceil() as i32..=(high + 1e-9).floor() as i32).map(|power| 10_f64.powi(power)).collect()
    }

    /// 1, 2 and 5 times powers of ten within; the powers alone where those are many.
    pub fn steps(&self) -> Vec<f64> {
        let (low, high) = self.powers;
        let powers = (low - 1e-9).floor() as i32..=(high + 1e-9).floor() as i32;
        let all = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|factor| factor * 10_f64.powi(power)));
        let fine: Vec<f64> =
            all.filter(|step| (low - 1e-9..=high + 1e-9).contains(&step.log10())).take(50).collect();
        if fine.len() > 9 { self.ticks() } else { fine }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round_and_within() {
        let ticks = Linear::new((0.0, 129e6), (0.0, 100.0)).ticks(4);
        assert_eq!(ticks, [0.0, 50e6, 100e6]);
        assert_eq!(Linear::new((0.0, 0.0), (0.0, 100.0)).ticks(2), [0.0, 0.5, 1.0]);
        assert_eq!(Log::new((1e5, 2e7), (0.0, 1.0)).ticks(), [1e5, 1e6, 1e7]);
        let steps = |values| Log::new(values, (0.0, 1.0)).steps();
        assert_eq!(steps((0.9, 220.0)), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0]);
        assert_eq!(steps((0.9, 2000.0)), [1.0, 10.0, 100.0, 1000.0]);
    }

    proptest! {
        #[test]
        fn every_number_has_a_place_within(low: f64, high: f64, value: f64) {
            let places = (10.0, 90.0);
            for at in [Linear::new((low, high), places).at(value), Log::new((low, high), places).at(value)] {
                prop_assert!((10.0..=90.0).contains(&at), "{at}");
            }
            prop_assert!(Linear::new((low, high), places).ticks(5).len() <= 50);
            prop_assert!(Log::new((low, high), places).ticks().len() <= 40);
            prop_assert!(Log::new((low, high), places).steps().len() <= 40);
        }
    }
}
