//! A session that is one hop of several, over which the same goes to many hosts.

use std::sync::{Arc, OnceLock};

use crate::secret::Secret;
use crate::vouched::Vouched;
use crate::wire::message::Root;
use crate::wire::owners::Owners;

/// The sources of a copy.
#[derive(Debug, Clone)]
pub struct SourceList {
    /// Names of owners, if they are kept.
    pub owners: Option<Owners>,
    /// What each source is; none for one that is missing.
    pub roots: Vec<Option<Root>>,
    /// The boot of the machine that they are on: there alone their identities mean something.
    pub boot: String,
}

/// The sources of a chain: known from its start where this machine has them, otherwise once the first hop has
/// heard of them.
#[derive(Debug, Clone, Default)]
pub struct ChainSources(Arc<OnceLock<SourceList>>);

impl ChainSources {
    /// They are these, unless they are known.
    pub(crate) fn set(&self, sources: SourceList) {
        self.0.get_or_init(|| sources);
    }

    /// What they are, once that is known.
    pub(crate) fn get(&self) -> Option<&SourceList> {
        self.0.get()
    }
}

/// A session of processes that hold.
#[derive(Debug, Clone)]
pub struct Link {
    /// Under which word the one on the sender's host holds; none where the sources themselves are sent, by
    /// this machine or by the one that has them.
    pub from: Option<Secret>,
    /// The one on the receiver's.
    pub to: Secret,
    /// What the sources are, over all hops.
    pub sources: ChainSources,
    /// The digests of what was sent from the sources, over all hops.
    pub vouched: Arc<Vouched>,
}
