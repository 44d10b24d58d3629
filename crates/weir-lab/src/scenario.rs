//! A scenario: a slow path, slow hosts, the work done over it, and the verdict and figures it must get. All
//! of it data.
//!
//! One TOML file each. [`Scenario::parse`] is pure; what is wrong with a file is said with its name, line and
//! field. How a scenario is carried out is [`run`](crate::run)'s.

mod error;
mod figure;
mod host;
mod merge;
mod path;
mod shipped;
mod text;
mod workload;

use std::collections::BTreeMap;
use std::path::Path as FilePath;

use serde::Deserialize;
use toml::Spanned;
use weir_model::limit::Limit;
use weir_units::Bytes;

use crate::path::Path;
pub use error::ScenarioError;
pub use figure::{Figure, Quantity};
pub use host::Host;
pub use shipped::{names, shipped, text};
pub use text::{Span, Text};
pub use workload::{Data, Download, Iperf3, ServerConfig, Setting, Socket, Transfer, Workload};

use error::SourceText;
use figure::FigureText;
use host::HostText;
use path::PathText;

/// A scenario is a page of text; more than this is another file.
pub const LONGEST: Bytes = Bytes(1_000_000);

/// Who judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The far end, which sends the data, by its sockets.
    Sender,
    /// The near end, which receives it, by its sockets and threads.
    Receiver,
    /// weir itself: `weir get` and `weir cp` by their records, other copies by that of `weir why`.
    Weir,
}

impl Side {
    /// As it is written in a scenario.
    pub fn name(self) -> &'static str {
        match self {
            Side::Sender => "sender",
            Side::Receiver => "receiver",
            Side::Weir => "weir",
        }
    }
}

/// Everything that a run needs to know.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The file's name without its ending: `b1`.
    pub name: String,
    /// One line.
    pub title: String,
    /// What was published, in its own words.
    pub published: String,
    /// How the expected figures follow from the set-up.
    pub law: String,
    /// The emulated path.
    pub path: Path,
    /// The client's end, where data arrives.
    pub near: Host,
    /// The server's end, where data comes from.
    pub far: Host,
    /// What is done.
    pub workload: Workload,
    /// The limits that each side may name: one of them must be named.
    pub limits: BTreeMap<Side, Vec<Limit>>,
    /// What is measured, and what must come out.
    pub figures: Vec<Figure>,
    /// The advised change, and the same work again.
    pub then: Option<Then>,
}

/// A change that is tried after the first run.
#[derive(Debug, Clone, PartialEq)]
pub struct Then {
    /// In words: `drop the SO_SNDBUF call`.
    pub what: String,
    /// The scenario with the change.
    pub changed: Box<Scenario>,
    /// Where the prediction comes from.
    pub predicted: Prediction,
    /// How far off the prediction may be.
    pub within: f64,
}

/// Where the rate that a change should bring is from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Prediction {
    /// The advice of this side's verdict on the first run.
    Advice(Side),
    /// The scenario's law: so many times the first run's rate.
    Gain(f64),
}

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Document {
    title: String,
    published: String,
    law: String,
    #[serde(default)]
    path: PathText,
    #[serde(default)]
    near: HostText,
    #[serde(default)]
    far: HostText,
    workload: Workload,
    #[serde(default)]
    limit: BTreeMap<Side, Limits>,
    #[serde(default)]
    figure: Vec<Spanned<FigureText>>,
    then: Option<ThenText>,
}

/// `"latency"` or `["latency", "sender-or-path"]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "expected the name of a limit, such as receive-window, or a list of such names"
)]
enum Limits {
    One(Limit),
    Several(Vec<Limit>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ThenText {
    what: String,
    /// Whose verdict of the first run has the advice with a predicted rate.
    advice_by: Option<Side>,
    /// Without such advice, how many times the first run's rate the law predicts.
    gain: Option<Spanned<f64>>,
    within: Spanned<f64>,
    change: toml::Table,
}

impl Scenario {
    /// The scenario in a file.
    pub fn read(path: &FilePath) -> Result<Scenario, ScenarioError> {
        let text = weir_units::read_text(path, LONGEST)
            .map_err(|cause| ScenarioError::Unreadable { file: path.display().to_string(), cause })?;
        Scenario::parse(&path.display().to_string(), &text)
    }

    /// The scenario in `text`, which `file` names in errors.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let place = SourceText { file, text };
        let document: Document = toml::from_str(text).map_err(|error| place.of(&error))?;
        let name = FilePath::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (then, document) = document.without_then();
        let mut scenario = document.check(&place, name)?;
        scenario.then = then.map(|then| then.check(&place, &scenario.name)).transpose()?;
        Ok(scenario)
    }
}

/// The file with `change` laid over it, and without what must come out of the first run.
fn changed(place: &SourceText<'_>, change: toml::Table, name: &str) -> Result<Scenario, ScenarioError> {
    let mut whole: toml::Table = toml::from_str(place.text).map_err(|error| place.of(&error))?;
    // What the first run must show, the changed one need not.
    for own in ["then", "figure", "limit"] {
        whole.remove(own);
    }
    merge::over(&mut whole, change);
    let refused = |why: String| place.field("then.change", why);
    // Written out and read again: a table by itself has no places in a text, which checks need for their
    // errors.
    let text = toml::to_string(&whole).map_err(|error| refused(error.to_string()))?;
    let document: Document = toml::from_str(&text).map_err(|error| refused(error.message().to_owned()))?;
    document.check(&SourceText { file: place.file, text: &text }, name.to_owned()).map_err(
        |error| match error {
            ScenarioError::Wrong { field, why, .. } => refused(format!("{field}: {why}")),
            other => other,
        },
    )
}

impl ThenText {
    fn check(self, place: &SourceText<'_>, name: &str) -> Result<Then, ScenarioError> {
        let predicted = match (self.advice_by, self.gain) {
            (Some(side), None) => Prediction::Advice(side),
            (None, Some(gain)) if gain.get_ref().is_finite() && *gain.get_ref() > 0.0 => {
                Prediction::Gain(*gain.get_ref())
            }
            (None, Some(gain)) => return Err(place.at(&gain.span(), "a gain must be above 0")),
            _ => return Err(place.field("then", "expected either advice-by or gain".to_owned())),
        };
        let within = figure::tolerance(place, &self.within)?;
        let changed = Box::new(changed(place, self.change, name)?);
        Ok(Then { what: self.what, changed, predicted, within })
    }
}

impl Document {
    fn without_then(mut self) -> (Option<ThenText>, Document) {
        (self.then.take(), self)
    }

    fn check(self, place: &SourceText<'_>, name: String) -> Result<Scenario, ScenarioError> {
        let path = self.path.path();
        path.check().map_err(|error| place.field("path", error.to_string()))?;
        let figures =
            self.figure.iter().map(|figure| figure::check(place, figure)).collect::<Result<_, _>>()?;
        self.workload.check().map_err(|(field, why)| place.field(field, why))?;
        let limits = self.limit.into_iter().map(|(side, limits)| match limits {
            Limits::One(limit) => (side, vec![limit]),
            Limits::Several(limits) => (side, limits),
        });
        Ok(Scenario {
            name,
            title: self.title,
            published: self.published,
            law: self.law,
            path,
            near: self.near.host(),
            far: self.far.host(),
            workload: self.workload,
            limits: limits.collect(),
            figures,
            then: None,
        })
    }
}
