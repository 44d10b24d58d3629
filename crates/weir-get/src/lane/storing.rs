//! Objects that are read whole: into a small file, or into memory.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::Lane;
use super::opening::{Accepted, Opened};
use crate::download::SMALL;
use crate::error::{Fate, GetError};
use crate::http::exchange::Answer;
use crate::job::{FileReport, Job};
use crate::object;
use crate::pool::Waiting;
use crate::sink::attributes::NewFile;
use crate::sink::{self, Existing, small_file};
use crate::verify;
use weir_observe::stage_clock::Stage;

impl Lane<'_> {
    /// An object for weir itself; at most `limit` bytes.
    pub(super) fn store_in_memory(
        &mut self,
        waiting: &mut Waiting,
        job: &Job,
        accepted: Accepted,
        limit: usize,
    ) -> Result<Opened, GetError> {
        let Accepted { mut answer, .. } = accepted;
        let mut body = Vec::new();
        self.read_into(&mut answer, &mut body, limit)?;
        let bytes = body.len() as u64;
        // How long it is was the connection's to see.
        waiting.download.on_body(bytes, None, &object::host_of(&answer.url))?;
        self.client.keep(&answer.url, answer.body);
        waiting.download.on_verified(Ok(()), &self.run.moment());
        Ok(Opened::Done(Box::new(FileReport { bytes, body: Some(body), ..job.blank_report() })))
    }

    /// A file in one piece.
    pub(super) fn store_small(
        &mut self,
        waiting: &mut Waiting,
        job: &Job,
        target: &Path,
        accepted: Accepted,
    ) -> Result<Opened, GetError> {
        let Accepted { mut answer, object, expectations, mut notes } = accepted;
        let size = object.size.unwrap_or_default();
        let mut body = std::mem::take(&mut self.scratch);
        body.clear();
        let place = self.run.target(target)?;
        self.read_into(&mut answer, &mut body, size.min(SMALL) as usize)?;
        waiting.download.on_body(body.len() as u64, Some(size), &object::host_of(&answer.url))?;
        self.client.keep(&answer.url, answer.body);
        self.state.clock.enter(Stage::Other);
        let found = verify::digests_of(&verify::methods(&expectations), &body);
        let ignored = verify::check(&target.display().to_string(), &expectations, &found, Fate::Discarded)?;
        if !self.run.is_fresh_folder(target) && self.has_journal(target) {
            // The object was larger when an earlier run began with it. That part goes now that all of this is
            // here, and has its digest.
            self.fresh_part(job, target)?.discard();
        }
        self.state.clock.enter(Stage::Write);
        let home = || self.run.home_of(&place);
        let stored = match self.run.options.existing {
            Existing::Replaced => sink::store_whole(&place, home, &body, self.run.options.sync),
            Existing::Kept | Existing::Stays => {
                small_file::store_if_free(&place, &body, self.run.options.sync, &NewFile::default())
            }
        };
        let took = self.state.clock.current().1;
        self.state.clock.enter(Stage::Other);
        // Not worth a look at the thread's CPU clock: a short write was work, a long one was blocked.
        if took < Duration::from_millis(1) {
            self.state.clock.add_write_cpu(took);
        }
        stored?;
        self.run.options.stamping().give(&place, Some(&job.url), &object.version, size);
        waiting.download.on_verified(Ok(()), &self.run.moment());
        self.state.written.fetch_add(body.len() as u64, Relaxed);
        let bytes = body.len() as u64;
        self.scratch = body;
        let verified = !expectations.is_empty() && ignored.is_empty();
        notes.extend(ignored);
        Ok(Opened::Done(Box::new(FileReport {
            path: Some(target.to_owned()),
            bytes,
            connections: 1,
            digest: verify::whole(&found),
            verified,
            notes,
            ..job.blank_report()
        })))
    }

    /// Reads the rest of an answer into `body`; at most `limit` bytes.
    fn read_into(&mut self, answer: &mut Answer, body: &mut Vec<u8>, limit: usize) -> Result<(), GetError> {
        let host = object::host_of(&answer.url);
        while !answer.body.is_end() {
            if self.client.dial().is_stopped() {
                return Err(GetError::Interrupted);
            }
            let got = answer.body.fill(self.piece(), &self.state.clock, self.client.dial())?;
            if body.len() + got > limit {
                return Err(GetError::Refused(format!("{host} sent more than {limit} bytes")));
            }
            answer.body.pieces().for_each(|piece| body.extend_from_slice(piece));
            self.received(got as u64, answer.body.on_the_wire(got as u64));
        }
        Ok(())
    }
}
