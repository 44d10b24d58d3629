//! How a job goes on from what an earlier run left: only with the version that it was of.

use std::path::Path;
use std::sync::Arc;

use url::Url;

use super::Lane;
use super::opening::Opened;
use crate::download::{LEAST_PART, Rest};
use crate::error::GetError;
use crate::http::exchange::Answer;
use crate::job::Job;
use crate::journal::Journal;
use crate::object::{self, Object, Part};
use crate::pool::{BulkPlace, Waiting};
use crate::ranges::RangeSet;
use crate::sink::{PartFile, Sink};
use crate::transfer::{Opening, Transfer};
use weir_model::decision::Restart;

impl Lane<'_> {
    /// Goes on from `journal`. `None`: the object changed or the server gives no parts; begin again.
    pub(super) fn resume(
        &mut self,
        waiting: &mut Waiting,
        job: &Job,
        part: PartFile,
        journal: &Journal,
    ) -> Result<Option<Opened>, GetError> {
        let opening = resuming(waiting, part, journal);
        let Some(gap) = opening.done.gap_after(0, journal.size) else { return Ok(None) };
        // Bounded by the gap, so that nothing that is here already is sent again.
        let end = Some(gap.end).filter(|end| *end < journal.size);
        let range = Some((gap.start, end));
        let (version, is_whole) = (opening.version.clone(), journal.stored().prefix() == journal.size);
        let (answer, object) = loop {
            let answer = self.client.get(job.home(), &job.url, range, version.if_range(), self.run.many);
            let (answer, judged) = match answer {
                Ok(mut answer) => {
                    let judged = answer.judge(Some(gap.start));
                    (Some(answer), judged)
                }
                // A store that was asked for this version alone says no in place of sending another.
                Err(error @ GetError::Changed { .. }) => (None, Err(error)),
                Err(error) => return Err(error),
            };
            let host = object::host_of(answer.as_ref().map_or(&job.url, |answer| &answer.url));
            let (judged, answer) = match (judged, answer) {
                (Ok(Part::Whole(object)), Some(answer)) if is_whole && journal.is_of(&object) => {
                    return self.begin_whole(waiting, opening, answer, object).map(Some);
                }
                other => other,
            };
            // What a place was told in a query is not kept, and may be which object it is.
            let has_query = |url: &Url| url.query().is_some();
            let may_return = !has_query(&job.url) && !answer.as_ref().is_some_and(|one| has_query(&one.url));
            let is_elsewhere = may_return
                && matches!(&judged, Ok(Part::Asked(object)) if version.is_elsewhere(&object.version));
            match (waiting.download.on_rest(judged, journal.size, &version, &host)?, answer) {
                (Rest::Sent(object), Some(answer)) => break (answer, object),
                (Rest::AskAgain | Rest::Sent(_), _) => self.client.close(),
                (Rest::Lost(why), answer) => {
                    drop(answer);
                    self.client.close();
                    let rest = if is_elsewhere { self.rest_at_its_place(job, journal, range)? } else { None };
                    if let Some(rest) = rest {
                        break rest;
                    }
                    let name = opening.sink.target().unwrap_or(Path::new("")).display().to_string();
                    tracing::warn!("{}", Restart::Object { name, why });
                    return Ok(None);
                }
            }
        };
        let holds_to = object.holds_to;
        let opening = self.told(opening, &answer, object);
        let transfer = Arc::new(Transfer::new(opening, &mut waiting.download)?);
        Ok(Some(self.begin(transfer, answer, holds_to)))
    }

    /// The rest of what is here, from where that came: the URL leads to one mirror or another, each with the
    /// same validators. Asked for once. `None`: that place does not have it, or does not prove it.
    fn rest_at_its_place(
        &mut self,
        job: &Job,
        journal: &Journal,
        range: Option<(u64, Option<u64>)>,
    ) -> Result<Option<(Answer, Object)>, GetError> {
        let is_safe = |place: &Url| place.scheme() == "https" || job.url.scheme() != "https";
        let Some(place) = Url::parse(&journal.place).ok().filter(is_safe) else { return Ok(None) };
        let version = journal.version();
        let mut answer = match self.client.get(job.home(), &place, range, version.if_range(), self.run.many) {
            Ok(answer) => answer,
            Err(error @ (GetError::Interrupted | GetError::NamePending(_))) => return Err(error),
            // It may have it the next time.
            Err(error @ GetError::Status { .. }) if !error.is_permanent() => return Err(error),
            Err(_) => return Ok(None),
        };
        match answer.judge(range.map(|range| range.0)) {
            Ok(Part::Asked(object)) if journal.is_of(&object) => Ok(Some((answer, object))),
            _ => {
                drop(answer);
                self.client.close();
                Ok(None)
            }
        }
    }

    /// What `answer` says of the object, beside what is here of it.
    fn told(&mut self, opening: Opening, answer: &Answer, object: Object) -> Opening {
        let (location, notes) = (answer.url.clone(), answer.notes.clone());
        let mut opening = Opening { location, notes, ..opening };
        let whole = Object { size: opening.size, ..object };
        self.add_declared(&mut opening.expectations, &mut opening.notes, answer, &whole);
        opening
    }

    /// A part that is whole, of which the server has this version still: `answer` is all of it, and is not
    /// read.
    fn begin_whole(
        &mut self,
        waiting: &mut Waiting,
        opening: Opening,
        answer: Answer,
        object: Object,
    ) -> Result<Opened, GetError> {
        let done = std::iter::once(0..opening.size.unwrap_or_default()).collect();
        let opening = Opening { done, ..self.told(opening, &answer, object) };
        drop(answer);
        self.client.close();
        let transfer = Arc::new(Transfer::new(opening, &mut waiting.download)?);
        if self.run.pool.begin_bulk(transfer.job, transfer.task.host(), None) != BulkPlace::Taken {
            return Err(GetError::Interrupted);
        }
        self.run.pool.activate(&transfer);
        Ok(Opened::Bulk(transfer, Ok(())))
    }
}

/// What opens a transfer that goes on from `journal`. Of a part that is whole the last byte is asked for
/// again: the answer proves that the server still has this version, and may declare its digest.
fn resuming(waiting: &Waiting, part: PartFile, journal: &Journal) -> Opening {
    let job = &waiting.task;
    let mut done = journal.stored().without_islands(LEAST_PART, journal.size);
    if done.prefix() == journal.size {
        done = std::iter::once(0..journal.size.saturating_sub(1)).collect();
    }
    let durable: RangeSet = journal.durable.iter().map(|&(start, end)| start..end).collect();
    Opening {
        job: waiting.job,
        task: Arc::clone(job),
        url: job.url.clone(),
        location: job.url.clone(),
        size: Some(journal.size),
        version: journal.version(),
        ranged: true,
        done,
        durable: durable.without_islands(LEAST_PART, journal.size),
        sink: Sink::Part(part),
        expectations: job.expectations.clone(),
        notes: Vec::new(),
    }
}
