//! Work that is handed in to one thread of an end, which does one piece after the other.

use std::sync::mpsc::{Receiver as Mailbox, Sender, channel};

use parking_lot::Mutex;

/// What is on its way to that thread.
#[derive(Debug)]
pub(crate) struct HandedIn<T>(Mutex<Option<Sender<T>>>);

impl<T> Default for HandedIn<T> {
    fn default() -> HandedIn<T> {
        HandedIn(Mutex::default())
    }
}

impl<T> HandedIn<T> {
    /// Where the thread finds it from now on.
    pub(crate) fn open(&self) -> Mailbox<T> {
        let (sender, mailbox) = channel();
        *self.0.lock() = Some(sender);
        mailbox
    }

    /// One more piece of work.
    pub(crate) fn add(&self, work: T) {
        // None and an error mean that the session is over.
        if let Some(sender) = &*self.0.lock() {
            let _ = sender.send(work);
        }
    }

    /// No more comes.
    pub(crate) fn close(&self) {
        self.0.lock().take();
    }
}
