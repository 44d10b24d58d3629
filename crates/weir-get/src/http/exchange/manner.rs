//! What a user says of how to ask, beside who they are.

use super::MAX_REDIRECTS;
use super::redirects::Downgrade;
use crate::http::reach::Reach;
use crate::http::window::Window;

/// What else the user says of how to ask.
#[derive(Debug, Clone)]
pub struct Manner {
    /// Of the way to hosts.
    pub reach: Reach,
    /// Names of fields that are not sent, in lower case.
    pub removed: Vec<String>,
    /// Redirects in a row that are followed.
    pub max_redirects: usize,
    /// What becomes of those from https to http.
    pub downgrade: Downgrade,
    /// Of each object only these bytes are asked for.
    pub window: Option<Window>,
    /// What comes with a redirect that leads nowhere, or with a success that has no file, is the file.
    pub any_answer: bool,
}

impl Default for Manner {
    fn default() -> Manner {
        Manner {
            reach: Reach::default(),
            removed: Vec::new(),
            max_redirects: MAX_REDIRECTS,
            downgrade: Downgrade::Refused,
            window: None,
            any_answer: false,
        }
    }
}
