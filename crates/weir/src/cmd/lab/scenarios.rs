//! Scenarios by the names that users give: those that come with weir, or files.

use std::path::Path;

use weir_lab::scenario::{self, Scenario, ScenarioError};

use crate::voice::Usage;

/// A name with a '/' or an ending is a file. What is wrong with it is the user's to mend: a usage error.
pub fn find(name: &str) -> Result<Scenario, Usage> {
    let is_file = name.contains('/') || name.ends_with(".toml");
    let found = if is_file { Scenario::read(Path::new(name)) } else { scenario::shipped(name) };
    found.map_err(|error| match error {
        ScenarioError::Unreadable { ref cause, .. } => {
            Usage(format!("{error}: {}", weir_units::plain(cause)))
        }
        _ => Usage(error.to_string()),
    })
}
