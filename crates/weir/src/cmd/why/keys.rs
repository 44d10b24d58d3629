//! The key that ends `--watch`: read as it is pressed, and the terminal given back as it was.

use std::io::IsTerminal;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// A terminal that hands over each key at once; signals (Ctrl-C, Ctrl-Z) stay its own.
pub(super) struct Keys {
    before: Termios,
}

impl Keys {
    /// `None` where stdin is no terminal, or that of a job in the foreground: its keys are not for us.
    pub(super) fn open() -> Option<Keys> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() || tcgetpgrp(&stdin).ok()? != rustix::process::getpgrp() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut at_once = before.clone();
        at_once.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(&stdin, OptionalActions::Now, &at_once).ok()?;
        Some(Keys { before })
    }

    /// Whether `q` was pressed since the last call.
    pub(super) fn quit(&self) -> bool {
        let stdin = std::io::stdin();
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !poll(&mut ready, Some(&at_once)).is_ok_and(|count| count > 0) {
            return false;
        }
        let mut keys = [0; 64];
        rustix::io::read(&stdin, &mut keys).is_ok_and(|count| keys[..count].contains(&b'q'))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // A terminal that went away needs nothing back.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}
