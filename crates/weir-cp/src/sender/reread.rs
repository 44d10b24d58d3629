//! What the other end kept of an earlier run is read here too, while the rest is sent: between two runs a
//! file may have become another one of the same size and time, as images that are built again have.
//!
//! The other end tells the values of what it has, so what is another by now shows before the end is told; the
//! file is then offered anew, and all of it comes. One thread reads as fast as the disk and one processor go.

use std::sync::Arc;
use std::sync::mpsc::{Receiver as Mailbox, Sender, channel};

use parking_lot::Mutex;

use super::source::SourceFile;

/// Files on their way to whoever reads them: as many as are under way at most.
#[derive(Debug, Default)]
pub(super) struct Reread(Mutex<Option<Sender<Arc<SourceFile>>>>);

impl Reread {
    /// This file is to be read.
    pub(super) fn hand_in(&self, file: Arc<SourceFile>) {
        // None and an error mean that the session is over.
        if let Some(sender) = &*self.0.lock() {
            let _ = sender.send(file);
        }
    }

    /// Nothing is read any more.
    pub(super) fn close(&self) {
        self.0.lock().take();
    }

    pub(super) fn open(&self) -> Mailbox<Arc<SourceFile>> {
        let (sender, mailbox) = channel();
        *self.0.lock() = Some(sender);
        mailbox
    }
}
