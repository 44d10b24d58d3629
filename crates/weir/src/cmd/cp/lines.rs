//! A line for each entry that is copied or removed: rsync's, and the words of a dry run.

use std::io::{self, Write};

use parking_lot::Mutex;
use weir_cp::session::Job;
use weir_cp::wire::change::{Act, Change, Form};
use weir_cp::wire::message::{Deed, Role};
use weir_report::escape::escape;
use weir_tree::Name;

use crate::args::{Cp, Voice};
use crate::voice::Printed;

/// Whether each change is to be told: with `-v` by its name, as rsync has it. A dry run tells what it would
/// do anyway, and the live view has no room.
pub(super) fn are_wanted(cp: &Cp) -> bool {
    !cp.tui && (cp.what.choice.itemize_changes || cp.voice.verbose > 0 && !cp.dry_run)
}

/// What a dry run has told of, counted for its last line.
#[derive(Debug, Default)]
pub struct Would {
    copy: u64,
    delete: u64,
}

impl Would {
    /// Counts one more.
    pub fn count(&mut self, deed: &Deed) {
        match deed {
            Deed::Copy => self.copy += 1,
            Deed::Delete => self.delete += 1,
            Deed::Change(change) => match change.act {
                Act::Sent => self.copy += 1,
                Act::Deleted => self.delete += 1,
                Act::Made | Act::Linked | Act::Attributes => {}
            },
        }
    }

    /// For the record of a dry run.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "copy": self.copy, "delete": self.delete })
    }
}

/// Where the lines go: to standard output, or beside a record, which has that to itself, to standard error.
#[derive(Debug)]
pub struct Changes {
    beside_record: bool,
    /// Why no more are printed: what is copied is copied all the same.
    unprinted: Mutex<Option<io::Error>>,
}

impl Changes {
    /// None yet.
    pub fn new(voice: &Voice) -> Changes {
        Changes { beside_record: voice.json, unprinted: Mutex::default() }
    }

    /// Prints one.
    pub fn say(&self, line: &str) {
        let mut unprinted = self.unprinted.lock();
        if self.beside_record {
            let _ = writeln!(io::stderr(), "{line}");
        } else if unprinted.is_none() {
            *unprinted = writeln!(io::stdout(), "{line}").err();
        }
    }

    /// The exit code of a run that came to this one, or that its lines were lost.
    pub fn end(self, code: u8) -> anyhow::Result<u8> {
        match (code, self.unprinted.into_inner()) {
            (0, Some(error)) => Err(error).printed("the changes"),
            _ => Ok(code),
        }
    }
}

/// The line of what is done to `name`.
pub(super) fn line(cp: &Cp, job: &Job, deed: &Deed, name: &Name) -> String {
    match deed {
        Deed::Copy => format!("copy {name}"),
        Deed::Delete => format!("delete {name}"),
        Deed::Change(change) => line_of(cp, job, change, name),
    }
}

fn line_of(cp: &Cp, job: &Job, change: &Change, name: &Name) -> String {
    let slash = if change.form == Form::Directory { "/" } else { "" };
    let to = change.to.as_deref().map(|to| String::from_utf8_lossy(to).into_owned()).unwrap_or_default();
    let arrow = match (change.form, &*to) {
        (_, "") => String::new(),
        (Form::Symlink, to) => format!(" -> {}", escape(to)),
        (_, to) => format!(" => {}", escape(to)),
    };
    if cp.what.choice.itemize_changes {
        // As rsync has it: within this machine everything comes, nothing goes.
        let is_sent = job.role == Role::Sender && job.host.name.is_some();
        let role = if is_sent { Role::Sender } else { Role::Receiver };
        return format!("{} {name}{slash}{arrow}", change.code(role));
    }
    match change.act {
        Act::Deleted => format!("deleting {name}{slash}"),
        _ => format!("{name}{slash}{arrow}"),
    }
}
