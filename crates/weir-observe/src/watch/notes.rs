//! What could not be seen, said once each.

use crate::ObserveError;

/// Sentences for the verdict's `missing`, in the order in which they came up.
#[derive(Debug, Default)]
pub struct Notes(Vec<String>);

/// More would not be read.
const MOST: usize = 16;

impl Notes {
    /// Adds a sentence unless it is there.
    pub fn add(&mut self, text: impl Into<String>) {
        let text = text.into();
        if self.0.len() < MOST && !self.0.contains(&text) {
            tracing::info!("{text}");
            self.0.push(text);
        }
    }

    /// The value, or a sentence that says why there is none.
    pub(super) fn or_note<T>(&mut self, result: Result<T, ObserveError>) -> Option<T> {
        result.map_err(|error| self.add(error.to_string())).ok()
    }

    /// All of them.
    pub fn all(&self) -> &[String] {
        &self.0
    }
}
