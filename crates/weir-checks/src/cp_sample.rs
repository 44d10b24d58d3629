//! A far end's intervals of evidence: whatever they say, they are joined, judged and told.

use weir_cp::evidence::Joiner;
use weir_cp::wire::message::Role;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut understood = false;
    for role in [Role::Sender, Role::Receiver] {
        let mut joiner = Joiner::new(role, false, None, 1);
        for (sample, far) in text.split('\n').zip([Role::Sender, Role::Receiver].into_iter().cycle()) {
            joiner.far(far, sample, 4);
        }
        let evidence = joiner.into_evidence(&[]);
        let verdict = weir_model::verdict::explain(&evidence);
        assert!(verdict.shares.iter().all(|(_, share)| share.is_finite()));
        understood |= !evidence.intervals.is_empty();
    }
    understood
}
