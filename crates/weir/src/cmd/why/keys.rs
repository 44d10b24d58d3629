//! The key that ends `--watch`: read as it is pressed, and the terminal given back as it was.

use std::io::IsTerminal;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::tui;

/// A terminal that hands over each key at once; signals (Ctrl-C, Ctrl-Z) stay its own.
pub(super) struct Keys(());

impl Keys {
    /// `None` where stdin is no terminal, or that of a job in the foreground: its keys are not for us.
    pub(super) fn open() -> Option<Keys> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() || !tui::is_foreground(&stdin) {
            return None;
        }
        tui::take_keys(&stdin).ok()?;
        Some(Keys(()))
    }

    /// Whether `q` was pressed since the last call.
    pub(super) fn quit(&self) -> bool {
        let stdin = std::io::stdin();
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // In the background the keys are another job's, and to read one would stop us.
        if !poll(&mut ready, Some(&at_once)).is_ok_and(|count| count > 0) || !tui::is_foreground(&stdin) {
            return false;
        }
        let mut keys = [0; 64];
        rustix::io::read(&stdin, &mut keys).is_ok_and(|count| keys[..count].contains(&b'q'))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        tui::restore();
    }
}
