//! A figure that a scenario measures, and what must come out.

use serde::Deserialize;
use toml::Spanned;
use weir_units::{Bytes, Rate, human_duration};

use super::error::{ScenarioError, SourceText};
use super::text::Span;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Payload per second over the whole run.
    Rate,
    /// Wall time of the whole run.
    Seconds,
    /// Payload handed to the file system before the dirty-page threshold is reached.
    KneeBytes,
    /// Payload per second before the dirty-page threshold is reached.
    RateBeforeKnee,
    /// Payload per second after it.
    RateAfterKnee,
    /// Bytes per second that the program wrote, until it ended.
    Written,
    /// Bytes per second that the device took meanwhile.
    OnDisk,
    /// The busiest thread's share of one core.
    Busy,
    /// How many times the first run's rate the changed one reaches.
    Gain,
    /// What a round trip took, half of the time or less, by the sender's own measure: the queue is in it.
    RoundTrip,
    /// Files that hold the server's error page in place of their content.
    ErrorPages,
    /// The program's exit code.
    ExitCode,
}

impl Quantity {
    /// As it is written in a scenario.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Rate => "rate",
            Quantity::Seconds => "seconds",
            Quantity::KneeBytes => "knee-bytes",
            Quantity::RateBeforeKnee => "rate-before-knee",
            Quantity::RateAfterKnee => "rate-after-knee",
            Quantity::Written => "written",
            Quantity::OnDisk => "on-disk",
            Quantity::Busy => "busy",
            Quantity::Gain => "gain",
            Quantity::RoundTrip => "round-trip",
            Quantity::ErrorPages => "error-pages",
            Quantity::ExitCode => "exit-code",
        }
    }

    /// A value of it, for people.
    pub fn show(self, value: f64) -> String {
        match self {
            Quantity::Rate | Quantity::RateBeforeKnee | Quantity::RateAfterKnee => Rate(value).to_string(),
            Quantity::Written | Quantity::OnDisk => Rate(value).to_string(),
            Quantity::Seconds => match std::time::Duration::try_from_secs_f64(value) {
                Ok(span) if value < 10.0 => format!("{:.2} s", span.as_secs_f64()),
                Ok(span) => human_duration(span),
                Err(_) => format!("{value} s"),
            },
            Quantity::RoundTrip => format!("{:.1} ms", value * 1e3),
            Quantity::KneeBytes => Bytes(value as u64).to_string(),
            Quantity::Busy => format!("{:.0} %", value * 100.0),
            Quantity::Gain => format!("x {value:.2}"),
            Quantity::ErrorPages | Quantity::ExitCode => format!("{value:.0}"),
        }
    }

    fn parse(self, text: &str) -> Result<f64, String> {
        match self {
            Quantity::Rate | Quantity::RateBeforeKnee | Quantity::RateAfterKnee => rate(text),
            Quantity::Written | Quantity::OnDisk => rate(text),
            Quantity::Seconds | Quantity::RoundTrip => {
                text.parse::<Span>().map(|Span(span)| span.as_secs_f64())
            }
            Quantity::KneeBytes => {
                text.parse::<Bytes>().map(|bytes| bytes.0 as f64).map_err(|err| err.to_string())
            }
            Quantity::Busy | Quantity::Gain | Quantity::ErrorPages | Quantity::ExitCode => {
                Err(format!("invalid number '{text}': a {} is written without quotes", self.name()))
            }
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    text.parse::<Rate>().map(|rate| rate.0).map_err(|error| error.to_string())
}

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What is measured.
    pub of: Quantity,
    /// What must come out: bytes, seconds, bytes per second, a share or a count.
    pub expected: f64,
    /// How far off it may be, as a share of what is expected; of one for a count of zero.
    pub within: f64,
}

impl Figure {
    /// Whether `seen` will do.
    pub fn holds(&self, seen: f64) -> bool {
        let scale = if self.expected > 0.0 { self.expected } else { 1.0 };
        (seen - self.expected).abs() <= self.within * scale
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FigureText {
    of: Quantity,
    is: Spanned<Written>,
    within: Spanned<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a number, or a text such as \"12.5MB/s\" or \"4.4s\"")]
enum Written {
    Number(f64),
    Text(String),
}

pub(super) fn check(place: &SourceText<'_>, figure: &Spanned<FigureText>) -> Result<Figure, ScenarioError> {
    let figure = figure.get_ref();
    let refuse = |why: &str| place.at(&figure.is.span(), why);
    let expected = match figure.is.get_ref() {
        Written::Number(number) => *number,
        Written::Text(text) => figure.of.parse(text).map_err(|why| refuse(&why))?,
    };
    if !(expected.is_finite() && expected >= 0.0) {
        return Err(refuse("a figure cannot be negative"));
    }
    Ok(Figure { of: figure.of, expected, within: tolerance(place, &figure.within)? })
}

/// From 0 (a count that must be exact) to 1.
pub(super) fn tolerance(place: &SourceText<'_>, within: &Spanned<f64>) -> Result<f64, ScenarioError> {
    if (0.0..=1.0).contains(within.get_ref()) {
        Ok(*within.get_ref())
    } else {
        Err(place.at(&within.span(), "a tolerance must lie between 0 and 1: 0.1 allows 10 % to either side"))
    }
}
