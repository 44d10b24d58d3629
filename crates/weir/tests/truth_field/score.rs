//! What a record says of a case, and whether that is right.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::scores::QUARTER;
pub(crate) use crate::scores::Score;
use crate::story::{Case, View};

/// A conviction above this confidence is one that people act on.
pub(crate) const BELIEVED: f64 = 0.5;

impl Score {
    pub(crate) const ALL: [Score; 4] = [Score::Right, Score::Abstained, Score::Missed, Score::Wrong];
}

/// What is known of a run beside its verdicts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ran {
    /// Seconds of the ill work.
    pub(crate) wall: f64,
    /// How much faster it was with what the advice says, where that is played.
    pub(crate) gain: Option<f64>,
    /// Why the run says nothing: its cause did not bind, it failed, or this machine disturbed it.
    pub(crate) void: Option<String>,
}

/// One verdict of one view, as a line of `results.jsonl` has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) story: String,
    pub(crate) point: String,
    pub(crate) kind: String,
    pub(crate) cause: String,
    pub(crate) programs: String,
    pub(crate) side: String,
    pub(crate) how: String,
    pub(crate) user: String,
    pub(crate) void: Option<String>,
    /// No rule was ever tried on it.
    #[serde(default)]
    pub(crate) held_out: bool,
    pub(crate) right: Vec<String>,
    /// `receive-window`, or `reader+sender-or-path` of a mixture; `nothing`.
    pub(crate) said: String,
    pub(crate) score: Score,
    pub(crate) confidence: f64,
    /// What it rests on, of the judge's kinds; of a run whose evidence is kept.
    #[serde(default)]
    pub(crate) grounds: Option<String>,
    /// Its confidence is that of naming something.
    pub(crate) convicts: bool,
    /// What limited is among what was ruled out.
    pub(crate) acquits_the_guilty: bool,
    /// Bytes per second that the record says were carried.
    pub(crate) carried: f64,
    /// The best rate that was promised.
    pub(crate) promised: Option<f64>,
    /// What following the advice brought, where that was played.
    pub(crate) brought: Option<f64>,
    pub(crate) wall: f64,
    pub(crate) evidence: Vec<String>,
    pub(crate) missing: Vec<String>,
    pub(crate) innocent: Vec<String>,
    pub(crate) advice: Vec<String>,
    /// The advice is that of the cause; `None` where the story does not ask.
    #[serde(default)]
    pub(crate) advises_well: Option<bool>,
}

impl Line {
    /// The record is null where the run failed.
    pub(crate) fn of(case: &Case, view: &View, ran: &Ran, record: &Value) -> Line {
        let verdict = &record["verdict"];
        let named = named(verdict);
        let texts = |name: &str| -> Vec<String> {
            let list = verdict[name].as_array().cloned().unwrap_or_default();
            list.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let carried = record["rate"].as_f64().unwrap_or(0.0);
        let advice = verdict["advice"].as_array().cloned().unwrap_or_default();
        let promises = advice.iter().filter_map(|advice| advice["predicted_rate"].as_f64());
        let innocent = texts("innocent");
        let missing = texts("missing");
        let of_right = |line: &String| {
            line.split_once(':').is_some_and(|(name, _)| view.right.iter().any(|right| right == name))
        };
        let score = score(&named, view, !missing.is_empty());
        let actions: Vec<String> =
            advice.iter().filter_map(|advice| advice["action"].as_str().map(str::to_owned)).collect();
        Line {
            story: case.story.clone(),
            point: case.point.clone(),
            kind: case.kind.clone(),
            cause: case.cause.clone(),
            programs: case.programs.clone(),
            side: view.side.clone(),
            how: view.how.clone(),
            user: case.set.get("user").or(case.set.get("watcher")).cloned().unwrap_or("root".to_owned()),
            void: ran.void.clone(),
            held_out: case.held_out,
            right: view.right.clone(),
            said: if named.is_empty() { "nothing".to_owned() } else { named.join("+") },
            score,
            confidence: verdict["confidence"].as_f64().unwrap_or(0.0),
            grounds: None,
            convicts: named.iter().any(|name| name != BLIND),
            acquits_the_guilty: innocent.iter().any(of_right),
            carried,
            promised: promises
                .fold(None, |best: Option<f64>, rate| Some(best.map_or(rate, |best| best.max(rate)))),
            brought: ran.gain.map(|gain| gain * carried),
            wall: ran.wall,
            evidence: texts("evidence"),
            missing,
            innocent,
            advises_well: advises_well(view, score, &actions),
            advice: actions,
        }
    }

    pub(crate) fn name(&self) -> String {
        let point = if self.point.is_empty() { String::new() } else { format!(" {}", self.point) };
        format!("{}{point}, {} by {}", self.story, self.side, self.how)
    }

    /// What it says of its run.
    pub(crate) fn ran(&self) -> Ran {
        let gain = self.brought.filter(|_| self.carried > 0.0).map(|brought| brought / self.carried);
        Ran { wall: self.wall, gain, void: self.void.clone() }
    }

    /// A conviction of an innocent that somebody would act on.
    pub(crate) fn misleads(&self) -> bool {
        self.score == Score::Wrong && self.confidence > BELIEVED
    }
}

/// Whether the advice is that of the cause: words of it where the limit is right, and never those of
/// another's.
fn advises_well(view: &View, score: Score, actions: &[String]) -> Option<bool> {
    let says = |words: &[String]| actions.iter().any(|action| words.iter().any(|word| action.contains(word)));
    if says(&view.never) {
        return Some(false);
    }
    let asked = score == Score::Right && !view.advises.is_empty();
    asked.then(|| says(&view.advises))
}

/// The name of the verdict that names nothing.
const BLIND: &str = "sender-or-path";

/// Limits that the verdict names: the main one, or of a mixture those with more than a quarter, largest
/// first.
fn named(verdict: &Value) -> Vec<String> {
    let Some(limit) = verdict["limit"].as_str() else { return Vec::new() };
    if limit != "mixed" {
        return vec![limit.to_owned()];
    }
    let Some(shares) = verdict["shares"].as_object() else { return Vec::new() };
    let mut large: Vec<(&String, f64)> = shares
        .iter()
        .filter_map(|(name, share)| Some((name, share.as_f64()?)))
        .filter(|(_, share)| *share > QUARTER)
        .collect();
    large.sort_by(|a, b| b.1.total_cmp(&a.1));
    large.into_iter().map(|(name, _)| name.clone()).collect()
}

fn score(named: &[String], view: &View, says_why: bool) -> Score {
    let names: Vec<&String> = named.iter().filter(|name| *name != BLIND).collect();
    if names.is_empty() {
        return if view.abstain && says_why { Score::Abstained } else { Score::Missed };
    }
    match names.iter().all(|name| view.right.contains(name)) {
        true => Score::Right,
        false => Score::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::story::End;
    use serde_json::json;

    fn view(right: &[&str], abstain: bool) -> View {
        let right = right.iter().map(|name| (*name).to_owned()).collect();
        View {
            at: End::Near,
            how: "command".to_owned(),
            side: "receiver".to_owned(),
            right,
            abstain,
            advises: Vec::new(),
            never: vec!["BBR".to_owned()],
        }
    }

    #[test]
    fn a_verdict_is_right_only_if_it_names_no_innocent() {
        let of = |verdict: Value, view: &View| score(&named(&verdict), view, true);
        let nagle = view(&["nagle"], false);
        assert_eq!(of(json!({"limit": "nagle"}), &nagle), Score::Right);
        assert_eq!(of(json!({"limit": "application"}), &nagle), Score::Wrong);
        assert_eq!(of(json!({"limit": null}), &nagle), Score::Missed);
        assert_eq!(of(json!({"limit": "sender-or-path"}), &view(&["nagle"], true)), Score::Abstained);
        let shares = json!({"nagle": 0.4, "reader": 0.3, "latency": 0.3});
        assert_eq!(of(json!({"limit": "mixed", "shares": shares}), &nagle), Score::Wrong);
        let shares = json!({"nagle": 0.6, "sender-or-path": 0.4});
        assert_eq!(of(json!({"limit": "mixed", "shares": shares}), &nagle), Score::Right);
    }

    #[test]
    fn advice_is_asked_of_what_is_right_and_never_anothers() {
        let mut black_hole = view(&["path-mtu"], false);
        black_hole.advises = vec!["tcp_mtu_probing".to_owned()];
        let actions = |text: &str| vec![text.to_owned()];
        let well = |score, text: &str| advises_well(&black_hole, score, &actions(text));
        assert_eq!(well(Score::Right, "set net.ipv4.tcp_mtu_probing to 1"), Some(true));
        assert_eq!(well(Score::Right, "ask the network"), Some(false));
        assert_eq!(well(Score::Missed, "ask the network"), None);
        assert_eq!(well(Score::Wrong, "use BBR"), Some(false));
    }

    #[test]
    fn an_abstention_without_a_reason_is_a_miss() {
        assert_eq!(score(&[], &view(&["dns"], true), false), Score::Missed);
    }
}
