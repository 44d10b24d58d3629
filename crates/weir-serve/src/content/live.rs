//! What is made when it is asked for: figures of a program that runs.

use weir_http::request_target::Path as Target;

use super::{Entry, Resolve};
use crate::LiveText;

/// The texts, by their names.
pub(crate) struct Live(pub(crate) Vec<LiveText>);

impl Resolve for Live {
    fn resolve(&self, target: &Target) -> Entry {
        let found = self.0.iter().find(|text| text.name.as_bytes() == target.bytes && !target.slash);
        match found {
            Some(LiveText { media_type, make, .. }) => Entry::Text { media_type, text: make() },
            None => Entry::Absent,
        }
    }

    /// There are texts and no directory.
    fn list(&self, _: &Target) -> Entry {
        Entry::Absent
    }
}
