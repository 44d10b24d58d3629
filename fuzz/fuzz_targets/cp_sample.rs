//! A far end's windows of evidence: whatever they say, they are joined, judged and told.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_peer::evidence::Joiner;
use weir_peer::wire::message::Role;

fuzz_target!(|text: &str| {
    for role in [Role::Sender, Role::Receiver] {
        let mut joiner = Joiner::new(role, false, None, 1);
        for (sample, far) in text.split('\n').zip([Role::Sender, Role::Receiver].into_iter().cycle()) {
            joiner.far(far, sample, 4);
        }
        let evidence = joiner.into_evidence(&[]);
        let verdict = weir_model::verdict::explain(&evidence);
        assert!(verdict.shares.iter().all(|(_, share)| share.is_finite()));
    }
});
