//! Stories as data: `stories/*.toml` hold a row for each, its points are the paths, sizes and users it is
//! told with.
//!
//! A row's commands are shell lines. What differs between points, and between the illness and its mend, are
//! variables: they are in the environment of every command, and some of them shape the path and the hosts
//! (see `stage.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

/// Names and values; numbers and texts alike become text.
pub(crate) type Variables = BTreeMap<String, String>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    story: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Row {
    name: String,
    kind: String,
    programs: String,
    cause: String,
    #[serde(default)]
    set: BTreeMap<String, toml::Value>,
    #[serde(default)]
    points: Vec<BTreeMap<String, toml::Value>>,
    #[serde(default)]
    services: Vec<Service>,
    work: String,
    #[serde(default)]
    exit: Option<i32>,
    views: Vec<View>,
    #[serde(default)]
    mend: BTreeMap<String, toml::Value>,
    /// What the advice says to change, where a rate is promised for that: it is played for its rate alone.
    #[serde(default)]
    advised: BTreeMap<String, toml::Value>,
    #[serde(default)]
    by: Option<f64>,
    #[serde(default)]
    holds: Vec<String>,
    #[serde(default)]
    alone: bool,
    #[serde(default)]
    sample: bool,
    /// No rule was ever tried on it: it tells how the rules do where nobody looked.
    #[serde(default)]
    held_out: bool,
    #[serde(default)]
    needs: Vec<String>,
}

/// A program that is there before the work begins.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) at: End,
    pub(crate) run: String,
    /// It is ready when this TCP port listens, or this UDP port is bound.
    pub(crate) port: Option<u16>,
    /// Quota and disk are its, not the work's.
    #[serde(default)]
    pub(crate) burden: bool,
}

/// The two hosts of the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum End {
    Near,
    Far,
}

impl End {
    pub(crate) fn name(self) -> &'static str {
        match self {
            End::Near => "near",
            End::Far => "far",
        }
    }
}

/// From where a run is judged, and what may be said there.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct View {
    pub(crate) at: End,
    /// `command` (the work, run by `weir why`), `pid NAME` of a service or `pid work`, `port NUMBER`.
    pub(crate) how: String,
    /// In the words of a transfer: `sender`, `receiver`, `relay`.
    pub(crate) side: String,
    /// Names that say the truth.
    pub(crate) right: Vec<String>,
    /// This side cannot know: to say so with a reason is honest.
    #[serde(default)]
    pub(crate) abstain: bool,
    /// Advice on the right limit says one of these words, where that limit has several mends.
    #[serde(default)]
    pub(crate) advises: Vec<String>,
    /// Advice, whatever it is on, says none of these.
    #[serde(default)]
    pub(crate) never: Vec<String>,
}

/// One run: a story at one of its points.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) story: String,
    pub(crate) point: String,
    pub(crate) kind: String,
    pub(crate) programs: String,
    pub(crate) cause: String,
    pub(crate) set: Variables,
    pub(crate) mend: Option<Variables>,
    /// What the advice promises a rate for.
    pub(crate) advised: Option<Variables>,
    /// The mended run is faster by this factor, or the cause was another.
    pub(crate) by: f64,
    /// Counters that must hold in the ill run (`holds.rs`).
    pub(crate) holds: Vec<String>,
    pub(crate) services: Vec<Service>,
    pub(crate) work: String,
    pub(crate) exit: Option<i32>,
    pub(crate) views: Vec<View>,
    pub(crate) alone: bool,
    pub(crate) sample: bool,
    pub(crate) held_out: bool,
    pub(crate) needs: Vec<String>,
}

impl Case {
    /// Quota and disk are the work's.
    pub(crate) fn burdens_work(&self) -> bool {
        !self.services.iter().any(|service| service.burden)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.story)?;
        if !self.point.is_empty() {
            write!(f, " {}", self.point)?;
        }
        Ok(())
    }
}

/// A mend that is worth its name: what two runs of the same thing differ by on a shared machine is below
/// that.
const FASTER: f64 = 1.3;

/// Every case of the folder, in the order of files, rows and points.
pub(crate) fn all() -> anyhow::Result<Vec<Case>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/truth_field/stories");
    let mut paths: Vec<_> = std::fs::read_dir(&folder)?.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path)?;
        let file: File = toml::from_str(&text).with_context(|| format!("cannot read {}", path.display()))?;
        for row in file.story {
            cases.extend(row.cases());
        }
    }
    let names: BTreeSet<String> = cases.iter().map(Case::to_string).collect();
    anyhow::ensure!(names.len() == cases.len(), "two cases have one name");
    Ok(cases)
}

impl Row {
    fn cases(self) -> Vec<Case> {
        let points = if self.points.is_empty() { vec![BTreeMap::new()] } else { self.points.clone() };
        let texts = |table: &BTreeMap<String, toml::Value>| -> Variables {
            table.iter().map(|(name, value)| (name.clone(), text(value))).collect()
        };
        let made = points.iter().enumerate().map(|(index, point)| {
            let mut set = texts(&self.set);
            set.extend(texts(point));
            let words: Vec<String> =
                point.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
            Case {
                story: self.name.clone(),
                point: words.join(" "),
                kind: self.kind.clone(),
                programs: self.programs.clone(),
                cause: self.cause.clone(),
                mend: changed(&set, texts(&self.mend)),
                advised: changed(&set, texts(&self.advised)),
                set,
                by: self.by.unwrap_or(FASTER),
                holds: self.holds.clone(),
                services: self.services.clone(),
                work: self.work.clone(),
                exit: self.exit,
                views: self.views.clone(),
                alone: self.alone,
                sample: self.sample && index == 0,
                held_out: self.held_out,
                needs: self.needs.clone(),
            }
        });
        made.collect()
    }
}

fn changed(set: &Variables, changes: Variables) -> Option<Variables> {
    (!changes.is_empty()).then(|| set.clone().into_iter().chain(changes).collect())
}

fn text(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `kind=nagle,side=sender`: what is run and judged; alternatives by `|`. `all` is everything.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    parts: Vec<(String, Vec<String>)>,
}

impl Filter {
    pub(crate) fn parse(text: &str) -> anyhow::Result<Filter> {
        if text == "all" {
            return Ok(Filter::default());
        }
        let part = |part: &str| {
            let (name, values) = part.split_once('=').with_context(|| format!("'{part}': NAME=VALUE"))?;
            Ok((name.to_owned(), values.split('|').map(str::to_owned).collect()))
        };
        Ok(Filter { parts: text.split(',').map(part).collect::<anyhow::Result<_>>()? })
    }

    pub(crate) fn is_all(&self) -> bool {
        self.parts.is_empty()
    }

    pub(crate) fn admits(&self, case: &Case) -> bool {
        case.views.iter().any(|view| self.admits_view(case, view))
    }

    pub(crate) fn admits_view(&self, case: &Case, view: &View) -> bool {
        self.parts.iter().all(|(name, values)| {
            let found = match name.as_str() {
                "kind" => Some(&case.kind),
                "story" => Some(&case.story),
                "set" if case.held_out => return values.iter().any(|value| value == "held-out"),
                "set" => return values.iter().any(|value| value == "known"),
                "side" => Some(&view.side),
                name => case.set.get(name),
            };
            found.is_some_and(|found| values.contains(found))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of limits that a story may expect: those of `design.md`'s vocabulary.
    const LIMITS: [&str; 28] = [
        "application",
        "source-disk",
        "compress",
        "decompress",
        "encrypt",
        "verify",
        "cpu-core",
        "send-buffer",
        "receive-window",
        "reader",
        "path-bandwidth",
        "path-loss",
        "latency",
        "dirty-throttle",
        "disk",
        "rate-limit",
        "sender-or-path",
        "request-response",
        "protocol-window",
        "nagle",
        "connect",
        "dns",
        "think-time",
        "upstream",
        "downstream",
        "path-mtu",
        "timeouts",
        "memory",
    ];

    #[test]
    fn every_story_can_be_read_and_expects_limits_that_exist() {
        let cases = all().expect("stories");
        for case in &cases {
            assert!(case.mend.is_some() || !case.holds.is_empty(), "{case}: nothing asserts its cause");
            assert!(!case.views.is_empty(), "{case}: nobody judges it");
            for view in &case.views {
                for name in &view.right {
                    assert!(LIMITS.contains(&name.as_str()), "{case}: {name}");
                }
            }
        }
    }

    #[test]
    fn there_are_enough_stories_and_the_sample_is_spread_over_them() {
        let cases = all().expect("stories");
        let stories: BTreeSet<&str> = cases.iter().map(|case| case.story.as_str()).collect();
        assert!(stories.len() >= 60, "{}", stories.len());
        let sample: Vec<&Case> = cases.iter().filter(|case| case.sample).collect();
        let kinds: BTreeSet<&str> = sample.iter().map(|case| case.kind.as_str()).collect();
        assert!(sample.len() == 12 && kinds.len() == 12, "{} runs of {} kinds", sample.len(), kinds.len());
    }

    #[test]
    fn a_filter_takes_what_it_names() {
        let cases = all().expect("stories");
        let filter = Filter::parse("kind=nagle|dns,side=sender").expect("a filter");
        let admitted: Vec<&Case> = cases.iter().filter(|case| filter.admits(case)).collect();
        assert!(!admitted.is_empty());
        assert!(admitted.iter().all(|case| case.kind == "nagle" || case.kind == "dns"));
        assert!(Filter::parse("nagle").is_err());
    }
}
