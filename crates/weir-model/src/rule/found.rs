//! What a foreign thread was found at, in words, where one thing is most of it.

use crate::evidence::ThreadInterval;
use crate::words::percent;

/// `asleep by its own will in 92 % of samples`; `None` where nothing takes half of them.
pub(crate) fn doing(thread: &ThreadInterval) -> Option<String> {
    let found = thread.found;
    let (count, what) = [
        (found.sleeping, "asleep by its own will"),
        (found.pipe_full, "waiting for the reader of its pipe"),
        (found.pipe_empty, "waiting for the writer of its pipe"),
        (thread.in_writes(), "writing to disk"),
        (found.reading_disk, "reading from disk"),
        (found.paging_in, "waiting for pages to be read"),
        (found.waiting_for_thread, "waiting for another thread"),
        (found.polling, "waiting for any of its descriptors or a timer"),
        (found.receiving, "waiting for data from a socket"),
        (found.sending, "waiting to send"),
        (found.running, "running"),
        (found.awaiting_kernel, "waiting for what it handed to the kernel, of a file or a socket"),
        (found.elsewhere, "asleep in a wait that is not known"),
    ]
    .into_iter()
    .max_by_key(|(count, _)| *count)?;
    let share = thread.share(count);
    (count > 0 && share >= 0.5).then(|| format!("{what} in {} of samples", percent(share)))
}
