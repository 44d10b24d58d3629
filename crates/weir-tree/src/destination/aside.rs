//! What has the name of weir's part and is none of weir's: it gets another name, since it may be somebody's
//! file.

use std::os::fd::OwnedFd;

use parking_lot::Mutex;
use rustix::io::Errno;
use weir_units::atomic_file;

use crate::entry::{MAX_COMPONENT, Name};
use crate::error::TreeError;

/// Before the number of what was put aside.
const ENDING: &[u8] = b".aside-";

/// Names tried. More than a hundred in one folder would be an attack, not an accident.
const TRIES: u32 = 100;

/// Words that are kept; more of the same would say no more.
const KEPT: usize = 100;

/// What was put aside: the entry, and a word on it.
#[derive(Debug, Default)]
pub(super) struct Aside(Mutex<Vec<(Name, String)>>);

impl Aside {
    /// Gives what is called `last` a name that nothing has, for the sake of the part of `name`.
    pub fn put(&self, directory: &OwnedFd, last: &[u8], name: &Name, why: &str) -> Result<(), TreeError> {
        let failed = |errno| TreeError::of("put aside what has the name of the part of", name, errno);
        for number in 1..=TRIES {
            let ending = [ENDING, number.to_string().as_bytes()].concat();
            let aside = [&last[..last.len().min(MAX_COMPONENT - ending.len())], &ending].concat();
            match atomic_file::rename_to_free(directory, last, &aside[..]) {
                Err(Errno::EXIST) => {}
                // It has gone by itself.
                Err(Errno::NOENT) => return Ok(()),
                Err(errno) => return Err(failed(errno)),
                Ok(()) => {
                    let [was, is] = [last, &aside].map(|name| name.escape_ascii().to_string());
                    let words = format!("{was}, beside {name}, {why}; renamed to {is}");
                    tracing::debug!("{words}");
                    let mut words_kept = self.0.lock();
                    if words_kept.len() < KEPT {
                        words_kept.push((name.clone(), words));
                    }
                    return Ok(());
                }
            }
        }
        Err(failed(Errno::EXIST))
    }

    /// What is to be said of it.
    pub fn all(&self) -> Vec<(Name, String)> {
        self.0.lock().clone()
    }
}

/// The name that something had before it was put aside; its own where it never was.
pub(super) fn was(last: &[u8]) -> &[u8] {
    let digits = last.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, number) = last.split_at(last.len() - digits);
    before.strip_suffix(ENDING).filter(|_| !number.is_empty()).unwrap_or(last)
}
