//! Whose requests they are: credentials, where they were found, and new ones when they have run out.

pub mod aws;
pub mod azure;
pub mod bearer;
pub mod files;
pub mod google;
pub mod ini;
pub mod process;
mod renewing;
mod used;

use std::fmt;
use std::sync::Arc;

pub use renewing::{Renewing, Temporary};
pub use used::Used;

use crate::error::StoreError;

/// Credentials and where they come from.
pub struct Found<C> {
    /// What signs.
    pub credential: C,
    /// Who that is, for a person, without a secret: the id of a key, an account.
    pub identity: String,
    /// `the environment (AWS_ACCESS_KEY_ID)`, `the profile 'backup' in ~/.aws/credentials`.
    pub origin: String,
}

impl<C> fmt::Debug for Found<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What signs is for no log.
        f.debug_struct("Found")
            .field("identity", &self.identity)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// A source of credentials of one kind.
pub trait Provider<C>: Send + Sync {
    /// Those that hold now; renewed before they run out, where it is known when.
    fn current(&self) -> Result<Arc<Found<C>>, StoreError>;

    /// The store says that `used` has run out: other ones, if there are any.
    fn renewed(&self, used: &Found<C>) -> Result<Option<Arc<Found<C>>>, StoreError>;
}

/// Credentials that nobody renews.
pub struct Fixed<C>(Arc<Found<C>>);

impl<C> Fixed<C> {
    /// These.
    pub fn new(found: Found<C>) -> Fixed<C> {
        Fixed(Arc::new(found))
    }
}

impl<C: Send + Sync> Provider<C> for Fixed<C> {
    fn current(&self) -> Result<Arc<Found<C>>, StoreError> {
        Ok(Arc::clone(&self.0))
    }

    fn renewed(&self, _: &Found<C>) -> Result<Option<Arc<Found<C>>>, StoreError> {
        Ok(None)
    }
}
