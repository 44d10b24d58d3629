//! A fleet's verdict as the member `verdict` of a record.

use weir_model::fleet::FleetVerdict;

use crate::schema::{AdviceRecord, VerdictRecord};

impl From<&FleetVerdict> for VerdictRecord {
    fn from(verdict: &FleetVerdict) -> VerdictRecord {
        // The sentence on what holds all hosts, where there is one, stands before the evidence.
        let mut evidence = verdict.lines();
        evidence.truncate(evidence.len() - verdict.advice.len() - verdict.missing.len());
        VerdictRecord {
            limit: verdict.limit.map(|limit| limit.name().to_owned()),
            confidence: verdict.confidence,
            shares: verdict.shares.iter().map(|(held, share)| (held.name().to_owned(), *share)).collect(),
            evidence,
            missing: verdict.missing.clone(),
            advice: (verdict.advice.iter())
                .map(|advice| AdviceRecord {
                    action: advice.action.clone(),
                    predicted_rate: advice.predicted_rate,
                })
                .collect(),
            ..VerdictRecord::default()
        }
    }
}
