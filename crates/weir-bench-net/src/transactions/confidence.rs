//! How sure is a mean of some runs? Student's interval, as netperf's `-I` has it: with this confidence the
//! mean lies within it, if the runs differ by chance alone.

use weir_units::stats;

/// What is asked for: `99,5` is a confidence of 99 % that the mean lies in an interval 5 % of it wide, 2.5 %
/// to either side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Between 0.5 and 0.999.
    pub level: f64,
    /// The interval's width over the mean.
    pub width: f64,
}

/// The smallest and the largest confidence that can be asked for, per cent.
pub const LEVELS: (f64, f64) = (50.0, 99.9);

/// The width of the interval of this confidence over the mean; `None` of fewer than two runs or a mean of
/// zero.
pub fn width(figures: &[f64], level: f64) -> Option<f64> {
    let count = figures.len();
    let mean = figures.iter().sum::<f64>() / count as f64;
    if count < 2 || mean <= 0.0 {
        return None;
    }
    let deviation = stats::deviation(figures.iter().copied(), mean, count - 1);
    Some(2.0 * student(level, count - 1) * deviation / (count as f64).sqrt() / mean)
}

/// The t of which |T| stays below with this probability, with so many degrees of freedom. By T = sqrt(f)
/// tan(a) the density becomes cos(a)^(f-1), which has no tails: Simpson's rule over a quarter turn, and
/// bisection.
fn student(level: f64, freedom: usize) -> f64 {
    let power = freedom as i32 - 1;
    let whole = simpson(std::f64::consts::FRAC_PI_2, power);
    let (mut low, mut high) = (0.0, std::f64::consts::FRAC_PI_2);
    // Forty halvings are a millionth of a millionth of the angle.
    for _ in 0..40 {
        let angle = f64::midpoint(low, high);
        if simpson(angle, power) / whole < level {
            low = angle;
        } else {
            high = angle;
        }
    }
    (freedom as f64).sqrt() * high.tan()
}

/// The integral of cos^power from 0 to `to`.
fn simpson(to: f64, power: i32) -> f64 {
    const STEPS: usize = 512;
    let step = to / STEPS as f64;
    let weight = |at| match at {
        0 | STEPS => 1.0,
        at if at % 2 == 1 => 4.0,
        _ => 2.0,
    };
    let sum: f64 = (0..=STEPS).map(|at| weight(at) * (at as f64 * step).cos().powi(power)).sum();
    sum * step / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_tables() {
        for (level, freedom, expected) in [
            (0.95, 1, 12.706),
            (0.99, 1, 63.657),
            (0.95, 2, 4.303),
            (0.99, 2, 9.925),
            (0.9, 4, 2.132),
            (0.99, 9, 3.250),
            (0.95, 29, 2.045),
            (0.99, 29, 2.756),
        ] {
            let found = student(level, freedom);
            assert!((found - expected).abs() < 1e-3 * expected, "{level}, {freedom}: {found}");
        }
    }

    #[test]
    fn a_width_is_of_the_mean() {
        // Mean 100, deviation 1, three runs: 2 x 9.925 / sqrt(3) = 11.46 of 100.
        let found = width(&[99.0, 100.0, 101.0], 0.99).unwrap();
        assert!((found - 0.1146).abs() < 1e-4, "{found}");
        assert_eq!(width(&[100.0], 0.99), None);
        assert_eq!(width(&[0.0, 0.0], 0.99), None);
        assert_eq!(width(&[5.0, 5.0], 0.99), Some(0.0));
    }
}
