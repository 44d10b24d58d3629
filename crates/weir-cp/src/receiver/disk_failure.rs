//! Whether the target's disk failed to take something. From then on nothing is removed there: what the source
//! has under another name by now did not come, and what is to go may be the only copy of it at the target.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::Errno;
use weir_tree::TreeError;

use crate::wire::message::Failure;

/// What a full or broken disk answers, or one that was made read-only because it is broken.
const OF_DISK: [Errno; 4] = [Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::ROFS];

/// Known to all who write.
#[derive(Debug, Clone, Default)]
pub(super) struct DiskFailure(Arc<AtomicBool>);

impl DiskFailure {
    /// An error in storing something, as it is told.
    pub(super) fn failure(&self, error: TreeError) -> Failure {
        self.note(error.errno());
        Failure::local(error)
    }

    /// A call that was to store something failed with this number.
    pub(super) fn note(&self, errno: Option<i32>) {
        if OF_DISK.iter().any(|of_disk| errno == Some(of_disk.raw_os_error())) {
            self.0.store(true, Relaxed);
        }
    }

    /// It failed.
    pub(super) fn is_known(&self) -> bool {
        self.0.load(Relaxed)
    }
}
