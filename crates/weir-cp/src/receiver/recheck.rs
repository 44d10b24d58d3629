//! What an earlier run left is read again while the rest comes: between two runs a part is a file like any
//! other, which an editor, a broken disk or a second program may have changed, and its log says only what was
//! written.
//!
//! The log has the value of each block, so what is another by now is known block by block, asked for by
//! [`ToSender::Wanted`] and written over. The sender needs nothing of it for its digest, which stays that
//! of the log. One thread reads and hashes 2 GB a second and more, faster than most copies come, and
//! takes no more than one processor from them.

use std::sync::Arc;

use super::Receiver;
use super::incoming::Incoming;
use crate::subtrees::extent;
use crate::wire::message::{Failure, FailureKind};
use crate::wire::to_sender::{MAX_WANTED, ToSender};

/// A file that is to be read again, with its number. There are as many as are under way at most.
pub(super) type Unread = (u64, Arc<Incoming>);

impl Receiver {
    /// Begins to read what is handed in.
    pub(super) fn begin_to_recheck(self: &Arc<Self>) {
        let (end, mailbox) = (Arc::clone(self), self.recheck.open());
        self.events.spawn("recheck", move || {
            while let Ok((id, file)) = mailbox.recv() {
                end.read_again(id, &file);
            }
        });
    }

    fn read_again(&self, id: u64, file: &Arc<Incoming>) {
        let (name, size) = (&file.entry.name, file.entry.size());
        let mut changed = 0;
        let progress = file.read_again(&self.over, |blocks| {
            changed += blocks.len();
            let extents = blocks.iter().map(|block| extent(*block, size));
            self.counts.unkeep(extents.map(|extent| extent.end - extent.start).sum());
            for piece in blocks.chunks(MAX_WANTED) {
                self.sender.send(&ToSender::Wanted(id, piece.to_vec()));
            }
        });
        if changed > 0 {
            let words = format!(
                "the part of {name} was changed since the interruption: {changed} of its blocks of 1 MiB are copied again"
            );
            self.problem(name.clone(), Failure::new(FailureKind::Local, words), true);
        }
        self.advance(id, file, progress);
    }
}
