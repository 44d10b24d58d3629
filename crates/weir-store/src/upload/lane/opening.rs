//! How a job begins: in one request, as an upload of parts, or where an earlier run stopped.

use std::path::Path;
use std::sync::Arc;

use weir_codec::digest::Algorithm;
use weir_get::GetError;

use super::Lane;
use super::resuming::{Left, still_kept, was_stored};
use crate::condition::Condition;
use crate::error::StoreError;
use crate::upload::elsewhere::Elsewhere;
use crate::upload::job::{Job, JobReport, PutOutcome, Source};
use crate::upload::journal::{Intent, Journal, STDIN};
use crate::upload::plan::{Plan, SINGLE};
use crate::upload::source::{Cut, FileSource, Held, Identity, Stream};
use crate::upload::transfer::{Transfer, Whole};
use crate::upload::{Pending, Stored, Sum, unanswered};

impl Lane<'_> {
    /// Begins a job, and sends all of it, or a first part.
    pub(super) fn open(&mut self, job: usize) {
        let mut notes = Vec::new();
        let opened = match &self.run.jobs[job].source {
            _ if self.run.jobs[job].share.is_some() => self.open_share(job, &mut notes),
            Source::File(path) => self.open_file(job, path, &mut notes),
            Source::Stdin => self.open_stdin(job, &mut notes),
            Source::Elsewhere(source) => self.open_elsewhere(job, &Arc::clone(source), &mut notes),
        };
        let report = match opened {
            Ok(None) => return,
            Ok(Some(report)) => report,
            Err(error) => JobReport::failed(error),
        };
        // What was there before is nothing that this lane has done.
        if matches!(report.outcome, PutOutcome::Stored(_)) && report.connections > 0 {
            self.state.objects.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        notes.extend(report.notes);
        self.run.queue.report(job, JobReport { notes, ..report });
    }

    fn open_file(
        &mut self,
        job: usize,
        path: &Path,
        notes: &mut Vec<String>,
    ) -> Result<Option<JobReport>, StoreError> {
        let source = FileSource::open(path)?;
        let size = source.identity().size;
        let is_single = size <= self.run.options.part_size.unwrap_or(SINGLE);
        let is_single = is_single || self.run.uploads.bounds().parts < 2;
        if let Some(stored) = self.was_finished(job, source.identity()) {
            if !is_single {
                // The run may have been ended between the last word on it and this one.
                let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
                self.journal(job, &path, notes)?.0.into_iter().for_each(Journal::remove);
            }
            return Ok(Some(JobReport {
                resumed: size,
                connections: 0,
                ..stored_report(stored, size, None)
            }));
        }
        if is_single {
            return self.single_file(job, &source, notes).map(Some);
        }
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (mut journal, said) = self.journal(job, &path, notes)?;
        let left = match said {
            Some(said) => self.left(job, source.identity(), said, notes),
            None => Ok(Left::Nothing),
        };
        let (id, plan, algorithm, parts) = match left {
            Ok(Left::Upload { id, plan, algorithm, parts }) => (id, plan, algorithm, parts),
            Ok(Left::Stored(stored)) => return Ok(Some(was_stored(stored, size, journal, notes))),
            Ok(Left::Nothing) => {
                let plan = Plan::of_size(size, &self.run.uploads.bounds(), self.run.options.part_size)?;
                let intent = Intent::new(
                    path.display().to_string(),
                    source.identity(),
                    (self.run.name)(&self.run.jobs[job].key),
                    plan,
                );
                match self.begin(job, intent, &mut journal, notes) {
                    Ok((id, algorithm)) => (id, plan, algorithm, Vec::new()),
                    Err(error) if error.is_unknown_request() => {
                        notes.push("the store takes no parts: it was sent in one request".to_owned());
                        return self.single_file(job, &source, notes).map(Some);
                    }
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Ok(Some(still_kept(error))),
        };
        let content = (Whole::File(source), size);
        let transfer = Transfer::of_parts((job, id), (plan, algorithm), content, journal, parts, false);
        self.begun(Arc::new(transfer), notes, None);
        Ok(None)
    }

    fn open_stdin(&mut self, job: usize, notes: &mut Vec<String>) -> Result<Option<JobReport>, StoreError> {
        let no_stdin = |error| StoreError::Source(format!("cannot read standard input: {error}"));
        let mut stream = Stream::stdin().map_err(no_stdin)?;
        let bounds = self.run.uploads.bounds();
        let plan = Plan::of_stream(&bounds, self.run.options.part_size)?;
        let first = if bounds.parts < 2 { bounds.most_single } else { plan.length(1) };
        let first = Held::read(&mut stream, first, &self.state.clock, &self.dial)?;
        if first.is_last || bounds.parts < 2 {
            return self.single(job, Cut::Held(&first), notes).map(Some);
        }
        let (mut journal, said) = self.journal(job, Path::new(STDIN), notes).unwrap_or_default();
        if let Some(said) = said {
            self.discard(job, &said);
        }
        let target = (self.run.name)(&self.run.jobs[job].key);
        let intent = Intent::new(STDIN.to_owned(), Identity::default(), target, plan);
        let (id, algorithm) = self.begin(job, intent, &mut journal, notes)?;
        let transfer = Transfer::of_stream((job, id), (plan, algorithm), (stream, 2), journal);
        self.begun(Arc::new(transfer), notes, Some(&first));
        Ok(None)
    }

    /// An object of another store or of a web server.
    fn open_elsewhere(
        &mut self,
        job: usize,
        source: &Arc<Elsewhere>,
        notes: &mut Vec<String>,
    ) -> Result<Option<JobReport>, StoreError> {
        source.begin(false);
        let size = source.size;
        let bounds = self.run.uploads.bounds();
        let interrupted = || StoreError::Http(GetError::Interrupted);
        // Before anything of it is fetched.
        self.check_condition(job, notes)?;
        if size <= SINGLE || bounds.parts < 2 {
            let held = self.fetch(source, 1, (0, size))?.ok_or_else(interrupted)?;
            notes.extend(whole_or_why(source)?);
            let _sends = source.sides.sends();
            return self.in_one(job, Cut::Held(&held)).map(Some);
        }
        let (mut journal, said) = self.journal(job, Path::new(&source.name), notes)?;
        let left = match said {
            Some(said) => self.left_of(job, source, said, notes),
            None => Ok(Left::Nothing),
        };
        let content = (Whole::Elsewhere(Arc::clone(source)), size);
        match left {
            Ok(Left::Upload { id, plan, algorithm, parts }) => {
                let transfer =
                    Transfer::of_parts((job, id), (plan, algorithm), content, journal, parts, false);
                self.begun(Arc::new(transfer), notes, None);
            }
            Ok(Left::Stored(stored)) => return Ok(Some(was_stored(stored, size, journal, notes))),
            Ok(Left::Nothing) => {
                let plan = source.plan(&bounds)?;
                let first = self.fetch(source, 1, plan.range(1, size))?.ok_or_else(interrupted)?;
                let target = (self.run.name)(&self.run.jobs[job].key);
                let mut intent = Intent::new(source.name.clone(), Identity::of_size(size), target, plan);
                intent.pin = source.pin();
                intent.kept = source.kept.as_ref().map(|kept| kept.algorithm.name().to_owned());
                let (id, algorithm) = self.begin(job, intent, &mut journal, notes)?;
                let transfer =
                    Transfer::of_parts((job, id), (plan, algorithm), content, journal, Vec::new(), true);
                self.begun(Arc::new(transfer), notes, Some(&first));
            }
            Err(error) => return Ok(Some(still_kept(error))),
        }
        Ok(None)
    }

    /// Some parts of an upload that others fill too.
    fn open_share(&mut self, job: usize, notes: &mut Vec<String>) -> Result<Option<JobReport>, StoreError> {
        let Job { source, share, key, .. } = &self.run.jobs[job];
        let (content, size) = match source {
            Source::File(path) => {
                let file = FileSource::open(path)?;
                let size = file.identity().size;
                (Whole::File(file), size)
            }
            Source::Elsewhere(source) => {
                source.begin(true);
                (Whole::Elsewhere(Arc::clone(source)), source.size)
            }
            Source::Stdin => return Err(StoreError::Usage("standard input has no parts".to_owned())),
        };
        let parts = share.as_ref().and_then(|share| {
            Some((share, share.upload.numbers(&share.bytes, size)?, share.bytes.end - share.bytes.start))
        });
        let Some((share, numbers, bytes)) = parts else {
            return Err(StoreError::Source(format!("what is to be sent of {key} are no whole parts of it")));
        };
        let transfer = Transfer::of_share(job, &share.upload, content, (numbers, bytes));
        self.begun(Arc::new(transfer), notes, None);
        Ok(None)
    }

    /// Lets the other lanes in, and does a first part of it, where this one has it.
    fn begun(&mut self, transfer: Arc<Transfer>, notes: &mut Vec<String>, first: Option<&Held>) {
        notes.drain(..).for_each(|note| transfer.note(note));
        transfer.join();
        self.run.queue.activate(&transfer);
        let outcome = first.map_or(Ok(None), |held| self.send_part(&transfer, 1, Cut::Held(held)));
        self.leave(&transfer, outcome);
    }

    /// A file in one request.
    fn single_file(
        &mut self,
        job: usize,
        source: &FileSource,
        notes: &mut Vec<String>,
    ) -> Result<JobReport, StoreError> {
        let report = self.single(job, Cut::File(source, 0, source.identity().size), notes)?;
        if let PutOutcome::Stored(stored) = &report.outcome {
            self.finishes(job, source.identity(), stored);
        }
        Ok(report)
    }

    /// An object in one request. Not every store knows conditions: one that does not stores whatever it is
    /// sent.
    fn single(&mut self, job: usize, cut: Cut<'_>, notes: &mut Vec<String>) -> Result<JobReport, StoreError> {
        self.check_condition(job, notes)?;
        self.in_one(job, cut)
    }

    /// The same, where the condition has been looked at.
    fn in_one(&mut self, job: usize, cut: Cut<'_>) -> Result<JobReport, StoreError> {
        let (run, size) = (self.run, cut.length());
        let (uploads, object) = (run.uploads, run.object(job));
        let most = uploads.bounds().most_single;
        if size > most {
            return Err(StoreError::Usage(format!(
                "{} are more than one request can store, {}",
                weir_units::Bytes(size),
                weir_units::Bytes(most)
            )));
        }
        loop {
            let algorithm = run.algorithm();
            let sent = self.send(cut, algorithm, None, &mut |caller, sum, content| {
                uploads.put(caller, &object, sum, content)
            });
            match sent {
                Ok((stored, sum)) => {
                    let report = stored_report(stored, size, sum);
                    return Ok(match cut.check() {
                        Ok(()) => report,
                        Err(error) => self.stored_meanwhile(job, (cut, algorithm), report, error),
                    });
                }
                Err(error) if run.weakens(algorithm, &error) => {}
                Err(error) => {
                    // The answer to an earlier attempt may have been lost: then the object there is this one.
                    let is_own = self.caller.attempts() > 1 && error.is_condition();
                    let sum = if is_own { self.sum(cut, algorithm) } else { None };
                    let stored = sum.as_ref().and_then(|sum| self.stored(job, size, Some(sum), &[]));
                    return match stored {
                        Some(stored) => Ok(stored_report(stored, size, sum)),
                        None => Err(self.refused(job, error)),
                    };
                }
            }
        }
    }

    /// An object was stored of a file that is another by now. One that has only grown, as logs do, is stored
    /// as it was.
    fn stored_meanwhile(
        &self,
        job: usize,
        (cut, algorithm): (Cut<'_>, Option<Algorithm>),
        mut report: JobReport,
        error: StoreError,
    ) -> JobReport {
        let now = self.sum(cut, algorithm);
        if now.is_some() && now == report.sum {
            let bytes = weir_units::Bytes(report.bytes);
            let note = format!("it changed while it was sent; its first {bytes} did not, and are stored");
            report.notes.push(note);
            return report;
        }
        let shown = (self.run.shown)(&self.run.jobs[job].key);
        let note = format!("{shown} is stored all the same, perhaps with bytes of both states of the file");
        JobReport { notes: vec![note], ..JobReport::failed(error) }
    }

    /// Begins an upload of parts, known to the journal before the store hears of it.
    fn begin(
        &mut self,
        job: usize,
        mut intent: Intent,
        journal: &mut Option<Journal>,
        notes: &mut Vec<String>,
    ) -> Result<(String, Option<Algorithm>), StoreError> {
        let (run, object) = (self.run, self.run.object(job));
        self.check_condition(job, notes)?;
        let pending = run.uploads.pending(&mut self.caller, object.key).ok();
        if let Some(pending) = pending.as_ref().filter(|pending| !pending.is_empty()) {
            notes.push(unfinished(pending, run.uploads.drops(), run.options.clears));
        }
        intent.manner = Some(self.manner(job));
        intent.others = pending.map(|pending| pending.into_iter().map(|one| one.id).collect());
        loop {
            let algorithm = run.algorithm();
            intent.algorithm = algorithm.map(|algorithm| algorithm.name().to_owned());
            keep(journal, notes, |journal| journal.intend(&intent));
            let known = (intent.others.as_deref(), journal.is_some() && run.options.keeps);
            let begun = unanswered::begin(run.uploads, &mut self.caller, &object, known, &mut |caller| {
                run.uploads.begin(caller, &object, algorithm)
            });
            self.count();
            match begun {
                Ok(id) => {
                    keep(journal, notes, |journal| journal.begun(&id));
                    return Ok((id, algorithm));
                }
                Err(error) if run.weakens(algorithm, &error) => {}
                Err(error) => {
                    // Without an answer it may have begun: the next run looks.
                    if error.is_answer() {
                        journal.take().into_iter().for_each(Journal::remove);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// A condition that does not hold now is said before all of it has been sent. The store has the last
    /// word.
    fn check_condition(&mut self, job: usize, notes: &mut Vec<String>) -> Result<(), StoreError> {
        if self.run.options.condition == Condition::None {
            return Ok(());
        }
        let object = self.run.object(job);
        let there = match self.run.uploads.stored(&mut self.caller, object.key) {
            Ok(there) => there,
            Err(error) => return self.unseen(job, error, notes),
        };
        self.count();
        let holds = match (&self.run.options.condition, &there) {
            (Condition::None, _) | (Condition::Absent, None) => true,
            (Condition::Absent, Some(_)) | (Condition::Matches(_), None) => false,
            (Condition::Matches(tag), Some(there)) => there.is_named(tag),
        };
        if holds { Ok(()) } else { Err(self.fails_condition(job, there.as_ref())) }
    }

    /// A look that failed does not say that nothing is there. Who may not look leaves it to the store, which
    /// is sent the condition. Where it has not answered, nothing is risked: not every store minds
    /// `--if-absent`.
    fn unseen(&self, job: usize, error: StoreError, notes: &mut Vec<String>) -> Result<(), StoreError> {
        if matches!(error, StoreError::Http(GetError::Interrupted)) {
            return Err(error);
        }
        if error.is_withheld() || self.run.options.condition != Condition::Absent {
            let note = format!("not known whether something was there: {error}");
            if !notes.contains(&note) {
                notes.push(note);
            }
            return Ok(());
        }
        let shown = (self.run.shown)(&self.run.jobs[job].key);
        let what =
            format!("tell whether {shown} is there already (nothing was sent; run the same command again)");
        Err(match error.into_answer() {
            Ok(answer) => StoreError::Answered { what, answer: Box::new(answer) },
            Err(other) => other,
        })
    }
}

/// What is said of uploads that are at the store, and of how they go. Not every store says since when.
fn unfinished(pending: &[Pending], drops: Option<&str>, clears: &str) -> String {
    let since = pending.iter().map(|one| one.since.as_str()).filter(|since| !since.is_empty()).min();
    let since = since.map_or_else(String::new, |since| format!(", the first from {since}"));
    let goes = drops.map_or_else(|| format!("{clears} removes them"), str::to_owned);
    format!("unfinished uploads of this object are at the store ({}{since}); {goes}", pending.len())
}

/// What came from another store is what that keeps; otherwise why that is not known.
pub(super) fn whole_or_why(source: &Elsewhere) -> Result<Option<String>, StoreError> {
    let why = match (&source.kept, source.is_whole()?) {
        (_, true) => return Ok(None),
        (Some(kept), false) => format!("its {} was not computed", kept.algorithm.name()),
        (None, false) => "no digest of all of it is known".to_owned(),
    };
    Ok(Some(format!("not verified against {}: {why}", source.shown)))
}

/// A journal that cannot be written is none from then on.
fn keep(
    journal: &mut Option<Journal>,
    notes: &mut Vec<String>,
    write: impl FnOnce(&mut Journal) -> std::io::Result<()>,
) {
    if let Some(one) = journal
        && let Err(error) = write(one)
    {
        notes.push(format!(
            "cannot keep the state of the upload: {}; an interrupted one would begin again",
            weir_units::plain(&error)
        ));
        *journal = None;
    }
}

pub(super) fn stored_report(stored: Stored, size: u64, sum: Option<Sum>) -> JobReport {
    let outcome = PutOutcome::Stored(stored);
    JobReport { bytes: size, resumed: 0, connections: 1, sum, outcome, notes: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unfinished_is_said_with_what_is_known_of_it() {
        let pending = |since: &str| Pending { id: "u".to_owned(), since: since.to_owned() };
        let dated = [pending("2026-02-01"), pending("2026-01-01")];
        let said = unfinished(&dated, None, "weir put --abort");
        assert!(said.ends_with("(2, the first from 2026-01-01); weir put --abort removes them"), "{said}");
        let said = unfinished(&[pending("")], Some("it drops them"), "weir put --abort");
        assert!(said.ends_with("(1); it drops them"), "{said}");
    }
}
