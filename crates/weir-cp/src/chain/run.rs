//! The driver of a chain: starts what holds on every host, begins hops as [`super::order`] says, and looks
//! how they get on.

mod fault;
mod place;
mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver as Mailbox, Sender, channel};
use std::time::{Duration, Instant};

use self::fault::Fault;
use self::place::ChainPlace;
use self::turns::Zones;
use super::holder::{self, Holder};
use super::hop::{Ends, Hop};
use super::order;
use super::pace::Trouble;
use super::source::ChainSource;
use super::{ChainJob, ChainProgress, ChainReport, HostProgress, HostReport, Standing};
use crate::descriptors;
use crate::error::CopyError;
use crate::link::{ChainSources, SourceList};
use crate::roots;
use crate::session::Report;
use crate::threads;
use crate::vouched::Vouched;
use crate::wire::message::Found;

/// Between two looks.
const TICK: Duration = Duration::from_millis(50);

/// A driver that has not looked for so long was stopped itself: a look takes milliseconds, and some tenths of
/// a second on a busy machine.
const STOOD_STILL: Duration = Duration::from_secs(1);

/// Hosts that are started at once: each takes a process of ssh and some 10 ms of a processor.
const AT_ONCE: usize = 32;

/// Attempts at a host once no other host receives anything.
const TRIES: u32 = 3;

/// How long hops may take to end where the user wants that.
const FAREWELL: Duration = Duration::from_secs(5);

/// How long hosts may take to hear the last word.
const PARTING: Duration = Duration::from_secs(1);

/// Messages of threads to the driver.
#[derive(Debug)]
pub(super) enum News {
    /// A host's process holds.
    Up(usize, u32, Holder),
    /// It does not, or no longer.
    Down(usize, u32, String),
    /// A hop to this host has ended.
    Ended(usize, u64, Box<Report>),
    /// A hop could not begin.
    NoThread(usize, u64, String),
    /// How far the machine with the sources is, if that can be told.
    SourceAt(Option<Duration>),
}

/// What a host could receive now.
struct Fed {
    /// There is something.
    fed: bool,
    /// At which rates more came to the one before it of late, bytes per second, and how much that has; `None`
    /// where it has all.
    comes: Option<([Option<f64>; 2], u64)>,
}

struct Chain<'a> {
    job: &'a ChainJob,
    source: ChainSource,
    sources: ChainSources,
    /// Why nobody can have the sources.
    refused: Option<CopyError>,
    vouched: Arc<Vouched>,
    chains: Vec<usize>,
    zones: Zones,
    places: Vec<ChainPlace>,
    hops: u64,
    /// When the first host was up.
    first_up: Option<Instant>,
    found: Found,
    start: Instant,
    tell: Sender<News>,
    news: Mailbox<News>,
}

/// Copies to all. `stop` is the user's wish to end.
pub fn run(job: &ChainJob, stop: &AtomicBool, progress: &mut dyn FnMut(&ChainProgress<'_>)) -> ChainReport {
    let start = Instant::now();
    descriptors::raise();
    let refused = |error| ChainReport {
        hosts: Vec::new(),
        elapsed: start.elapsed(),
        error: Some(error),
        found: Found::default(),
    };
    let sources = match sources_of(job) {
        Ok(sources) => sources,
        Err(error) => return refused(error),
    };
    let mut chain = Chain::new(job, sources, start);
    let error = chain.drive(stop, progress);
    if let Some(error) = chain.refused.take() {
        return refused(error);
    }
    ChainReport { elapsed: start.elapsed(), ..chain.report(error) }
}

/// What the sources are, as far as that can be known here.
fn sources_of(job: &ChainJob) -> Result<ChainSources, CopyError> {
    let sources = ChainSources::default();
    if job.from.is_none() {
        let roots = roots::look(&job.sources, &job.options).map_err(CopyError::Refused)?.roots;
        let owners = job.options.owners_here();
        sources.set(SourceList { owners, roots, boot: weir_units::boot::id() });
    }
    Ok(sources)
}

impl Chain<'_> {
    fn new(job: &ChainJob, sources: ChainSources, start: Instant) -> Chain<'_> {
        let groups: Vec<_> = job.hosts.iter().map(|host| host.group.clone()).collect();
        let (tell, news) = channel();
        Chain {
            job,
            source: ChainSource::new(job.from.clone(), start),
            sources,
            refused: None,
            vouched: Arc::default(),
            chains: order::chains(&groups, job.fanout),
            zones: Zones::of(job, &groups),
            places: job.hosts.iter().map(|_| ChainPlace::new(start)).collect(),
            hops: 0,
            first_up: None,
            found: Found::default(),
            start,
            tell,
            news,
        }
    }

    fn drive(
        &mut self,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&ChainProgress<'_>),
    ) -> Option<CopyError> {
        let mut ended = None;
        let cut = self.find_source();
        let mut looked = Instant::now();
        let mut watches_from = looked;
        loop {
            let first = self.news.recv_timeout(TICK).ok();
            let more: Vec<News> = first.into_iter().chain(self.news.try_iter()).collect();
            more.into_iter().for_each(|news| self.hear(news));
            if stop.load(Relaxed) {
                ended = Some(CopyError::Interrupted);
                break;
            }
            let stood_still = looked.elapsed() > STOOD_STILL;
            looked = Instant::now();
            if stood_still {
                // Until then what hosts said meanwhile is read.
                watches_from = looked + STOOD_STILL;
                self.forgive(looked);
            }
            self.start_holders();
            if watches_from <= looked {
                self.watch();
            }
            self.begin_hops();
            self.give_up();
            self.say(progress);
            if self.refused.is_some() || self.places.iter().all(ChainPlace::is_settled) {
                break;
            }
        }
        cut.store(true, Relaxed);
        self.end();
        ended
    }

    /// This process itself stood still until `now` (Ctrl-Z, a machine that slept), so that no hop is to blame
    /// for what it seems not to have taken.
    fn forgive(&mut self, now: Instant) {
        for place in &mut self.places {
            place.hop.iter_mut().for_each(|hop| hop.pace.forgive(now));
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Up(index, life, holder) => {
                let place = &mut self.places[index];
                if place.life == life {
                    place.word = Some(holder.word.clone());
                    (place.starting, place.holder) = (None, Some(holder));
                    self.first_up.get_or_insert_with(Instant::now);
                }
            }
            News::Down(index, life, why) if self.places[index].life == life => {
                let place = &mut self.places[index];
                place.starting = None;
                let was_there = place.holder.take().is_some();
                self.lost(index, if was_there { format!("it was lost: {why}") } else { why });
            }
            News::Ended(index, number, report) if self.is_now(index, number) => self.ended(index, *report),
            News::NoThread(index, number, why) if self.is_now(index, number) => {
                self.places[index].failed(why)
            }
            News::SourceAt(taken) => {
                // Of one that cannot be reached its sessions tell.
                self.zones = Zones::RoundTrips(Some(taken.unwrap_or_default()));
            }
            News::Down(..) | News::Ended(..) | News::NoThread(..) => {}
        }
    }

    fn is_now(&self, index: usize, number: u64) -> bool {
        self.places[index].hop.as_ref().is_some_and(|hop| hop.number == number)
    }

    /// A host's process is gone: with it what it receives and sends.
    fn lost(&mut self, index: usize, why: String) {
        self.places[index].lacks = false;
        if !self.places[index].is_settled() {
            self.take_out(index, why);
        }
        self.release(index);
    }

    /// A host is taken out of its place; those behind it go on without it.
    fn take_out(&mut self, index: usize, why: String) {
        tracing::info!("{}: {why}", self.job.hosts[index].name);
        let place = &mut self.places[index];
        if let Some(hop) = place.cut_hop() {
            place.report.behind = hop.pace.behind();
            place.report.taken_out.push(why.clone());
        }
        place.failed(why);
        self.release(index);
    }

    /// Hosts fed by this one get another feeder.
    fn release(&mut self, index: usize) {
        for place in &mut self.places {
            if place.hop.as_ref().is_some_and(|hop| hop.feeder == Some(index)) {
                place.cut_hop();
            }
        }
    }

    fn ended(&mut self, index: usize, report: Report) {
        let Some(hop) = self.places[index].hop.take() else { return };
        let place = &mut self.places[index];
        tracing::info!("{}: {:?}", self.job.hosts[index].name, report.outcome);
        place.standing = Standing::Waiting;
        (place.report.behind, place.report.fed_by) = (hop.pace.behind(), hop.feeder);
        match &report.outcome {
            Ok(()) => {
                place.standing = Standing::Complete;
                place.report.elapsed = Some(self.start.elapsed());
                place.report.error = None;
                place.lacks |= report.problems.failed().count > 0;
                place.reported(report);
            }
            Err(error) => {
                let words = error.to_string();
                let (fault, refusal) = (self.fault(&hop, error), error.refusal().cloned());
                let (place, totals) = (&mut self.places[index], report.totals);
                // What had come before is still there, though nothing came from a source that is not.
                let last = place.report.report.as_ref();
                let had = last.is_some_and(|last| last.totals.bytes > totals.bytes);
                if fault != Fault::Source || !had {
                    place.reported(report);
                }
                place.gained(&totals);
                match (fault, hop.feeder) {
                    (Fault::FeedersFiles, Some(feeder)) => self.cannot_feed(feeder, words),
                    (Fault::Feeders, Some(_)) => self.retry(index, &hop, words),
                    (Fault::Source, _) => match refusal {
                        // Before anything came from it; later others have what did.
                        Some(refusal) if self.sources.get().is_none() => {
                            self.refused = Some(CopyError::Refused(refusal));
                        }
                        _ => self.source.failed(words, hop.now().totals.bytes > 0),
                    },
                    _ => self.take_out_for(index, words),
                }
            }
        }
    }

    /// A host lacks something, or has it by size and time alone: those behind it have it from another. One
    /// that lacks something comes last; what the other one still receives is as good as before.
    fn cannot_feed(&mut self, feeder: usize, why: String) {
        let is_unread = !self.job.options.checksum && self.places[feeder].has_unread();
        // Others that have files by size and time would be asked in vain as well.
        if is_unread {
            self.places.iter_mut().for_each(|place| place.lacks |= place.has_unread());
        }
        self.places[feeder].lacks = true;
        if self.places[feeder].hop.is_some() && !is_unread {
            self.take_out(feeder, why);
        } else {
            self.release(feeder);
        }
    }

    /// A hop broke at the end that sends. The second time it is tried from another. If the host was taken out
    /// before and nothing came to it, that counts as a failure of its own as well, or the two would be tried
    /// for ever.
    fn retry(&mut self, index: usize, hop: &Hop, why: String) {
        let (feeder, came) = (hop.feeder, hop.now().totals.bytes > 0);
        let place = &mut self.places[index];
        match place.demoted && !came {
            true => place.failed(why),
            false => place.due = Instant::now(),
        }
        place.broke = if place.broke.0 == feeder { (feeder, place.broke.1 + 1) } else { (feeder, 1) };
        if place.broke.1 > 1 {
            place.avoids.push(feeder);
        }
    }

    /// The same of a host whose hop has ended by itself.
    fn take_out_for(&mut self, index: usize, why: String) {
        self.places[index].report.taken_out.push(why.clone());
        self.places[index].failed(why);
        self.release(index);
    }

    /// Starts what holds, where nothing does.
    fn start_holders(&mut self) {
        let now = Instant::now();
        let mut starting = self.places.iter().filter(|place| place.starting.is_some()).count();
        for (index, place) in self.places.iter_mut().enumerate() {
            let is_wanted = !place.is_settled() && place.holder.is_none() && place.starting.is_none();
            if !is_wanted || place.due > now || starting >= AT_ONCE {
                continue;
            }
            starting += 1;
            place.life += 1;
            let cut: Arc<AtomicBool> = Arc::default();
            place.starting = Some(Arc::clone(&cut));
            let wanted = holder::Wanted {
                index,
                life: place.life,
                host: self.job.hosts[index].host.clone(),
                version: self.job.version.clone(),
                before: place.word.take(),
                cut,
                tell: self.tell.clone(),
            };
            if let Err(why) = threads::start("holder", move || holder::keep(wanted)) {
                let _ = self.tell.send(News::Down(index, place.life, threads::words(&why)));
            }
        }
    }

    /// Looks how hosts get on, and takes out those that keep others waiting.
    fn watch(&mut self) {
        let now = Instant::now();
        let distances = self.distances();
        for index in 0..self.places.len() {
            if self.places[index].holder.as_ref().is_some_and(Holder::is_silent) {
                let place = &mut self.places[index];
                place.holder.take().iter().for_each(Holder::cut);
                place.life += 1;
                self.lost(index, "it stopped answering".to_owned());
                continue;
            }
            let place = &mut self.places[index];
            place.round_trip = place.holder.as_ref().and_then(Holder::round_trip).or(place.round_trip);
            if self.lose_source(index, now) {
                continue;
            }
            let Some(Fed { fed, comes }) = self.fed(index, now) else { continue };
            let keeps_waiting = self.keeps_others_waiting(index);
            let place = &mut self.places[index];
            let Some(hop) = &mut place.hop else { continue };
            let at = hop.now();
            hop.pace.look(now, &at, (fed, comes.map(|(_, before)| before)));
            if !fed || !keeps_waiting || place.demoted {
                continue;
            }
            let apart = hop.feeder.is_some_and(|feeder| distances[feeder] != distances[index]);
            match hop.pace.trouble(now, &at, comes, apart) {
                Some(Trouble::Stalls(still)) => {
                    self.take_out(index, format!("it took nothing for {:.1} s", still.as_secs_f64()));
                }
                Some(Trouble::Slow(rate, due)) => self.is_slow(index, rate, due),
                None => {}
            }
        }
    }

    /// A host takes less than it could. Where that goes for a second one that has it from the same, that one
    /// is slow to pass it on.
    fn is_slow(&mut self, index: usize, rate: f64, due: f64) {
        let feeder = self.places[index].hop.as_ref().and_then(|hop| hop.feeder);
        let [rate, due] = [rate, due].map(weir_units::Rate);
        if let Some(feeder) = feeder {
            let before = &mut self.places[feeder];
            before.slow_behind += 1;
            if before.slow_behind > 1 {
                before.demoted = true;
                let why = format!("those behind it took {rate} where {due} came to it");
                return match before.hop {
                    Some(_) => self.take_out(feeder, why),
                    // It has all: others have it from another.
                    None => self.release(feeder),
                };
            }
        }
        self.take_out(index, format!("it took {rate} where {due} came"));
    }

    /// What there is for a host that receives.
    fn fed(&self, index: usize, now: Instant) -> Option<Fed> {
        let hop = self.places[index].hop.as_ref()?;
        let Some(before) = hop.feeder.map(|feeder| &self.places[feeder]) else {
            let at = hop.now();
            let fed = self.source.feeds(at.sender_heard, now) && !at.is_held_by_sender();
            return Some(Fed { fed, comes: None });
        };
        Some(match &before.hop {
            Some(hop) => {
                Fed { fed: hop.pace.is_moving(now), comes: Some((hop.pace.rates(), hop.now().there())) }
            }
            None => Fed { fed: before.standing == Standing::Complete, comes: None },
        })
    }

    fn keeps_others_waiting(&self, index: usize) -> bool {
        let mut hops =
            self.places.iter().filter(|place| !place.demoted).filter_map(|place| place.hop.as_ref());
        hops.any(|hop| hop.feeder == Some(index))
    }

    fn begin_hop(&mut self, index: usize, feeder: Option<usize>) {
        let word_of = |index: usize| self.places[index].holder.as_ref().map(|holder| holder.word.clone());
        let host_of = |index: usize| self.job.hosts[index].host.clone();
        let Some(word) = word_of(index) else { return };
        let from = match feeder {
            Some(feeder) => match word_of(feeder) {
                Some(word) => Some((feeder, host_of(feeder), word)),
                None => return,
            },
            None => None,
        };
        self.hops += 1;
        let before = feeder.map_or(self.source.shown(), |feeder| self.job.hosts[feeder].name.as_str());
        tracing::info!("{}: from {before}", self.job.hosts[index].name);
        let ends = Ends { number: self.hops, feeder: from, index, host: host_of(index), word };
        let hop = Hop::begin(self.job, (&self.sources, &self.vouched), ends, &self.tell);
        let place = &mut self.places[index];
        (place.hop, place.standing) = (Some(hop), Standing::Receiving);
        place.report.sessions += 1;
        place.report.fed_by = feeder;
    }

    /// Those that failed while all others have come to their end, and nothing helps.
    fn give_up(&mut self) {
        self.give_up_source();
        let is_busy = |place: &ChainPlace| {
            !place.is_settled() && (place.failures == 0 || place.standing == Standing::Receiving)
        };
        if self.places.iter().any(is_busy) {
            return;
        }
        for place in &mut self.places {
            if !place.is_settled() && place.failures >= TRIES && place.starting.is_none() {
                place.standing = Standing::Failed;
            }
        }
    }

    fn say(&mut self, progress: &mut dyn FnMut(&ChainProgress<'_>)) {
        let of = |place: &ChainPlace| {
            let now = place.hop.as_ref().map(|hop| hop.now().totals);
            let last = || place.report.report.as_ref().map(|report| report.totals);
            HostProgress { standing: place.standing.clone(), totals: now.or_else(last).unwrap_or_default() }
        };
        let hosts: Vec<HostProgress> = self.places.iter().map(of).collect();
        let hops =
            self.places.iter().filter_map(|place| place.hop.as_ref()).filter(|hop| hop.feeder.is_none());
        let found = hops.map(|hop| hop.now().found).max_by_key(|found| found.bytes);
        // A session that begins anew begins to find anew.
        self.found = found.filter(|found| found.bytes >= self.found.bytes).unwrap_or(self.found);
        progress(&ChainProgress { elapsed: self.start.elapsed(), hosts: &hosts, found: self.found });
    }

    /// Ends what runs; hops that are cut off tell how far they came.
    fn end(&mut self) {
        for place in &mut self.places {
            place.hop.iter().for_each(Hop::cut);
            place.starting.iter().for_each(|cut| cut.store(true, Relaxed));
        }
        let since = Instant::now();
        while self.places.iter().any(|place| place.hop.is_some()) && since.elapsed() < FAREWELL {
            if let Ok(News::Ended(index, number, report)) = self.news.recv_timeout(TICK)
                && self.is_now(index, number)
            {
                let place = &mut self.places[index];
                place.hop = None;
                place.reported(*report);
            }
        }
        // Also those that may not feed others.
        let has_all = |place: &ChainPlace| place.standing == Standing::Complete && !failed(&place.report);
        let all_have = self.places.iter().all(has_all);
        let holders = self.places.iter().filter_map(|place| place.holder.as_ref());
        let parting: Vec<_> = holders.map(|holder| holder.part(all_have)).collect();
        let since = Instant::now();
        for said in parting {
            // It ends without a word.
            let _ = said.recv_timeout(PARTING.saturating_sub(since.elapsed()));
        }
    }

    fn report(self, error: Option<CopyError>) -> ChainReport {
        let found = self.found;
        let is_interrupted = error.is_some();
        let hosts = self.places.into_iter().map(|place| {
            let standing =
                if place.standing == Standing::Complete { Standing::Complete } else { Standing::Failed };
            let mut report = HostReport { standing, ..place.report };
            if is_interrupted && report.standing == Standing::Failed {
                report.error = Some(CopyError::Interrupted.to_string());
            }
            report
        });
        let mut hosts: Vec<HostReport> = hosts.collect();
        say_what_lacks(&mut hosts);
        ChainReport { hosts, elapsed: Duration::ZERO, error, found }
    }
}

/// A host lacks what it reported as failed, and what the host lacks that fed it to the end. What only that
/// host could not store itself would have come from another one.
fn say_what_lacks(hosts: &mut [HostReport]) {
    hosts.iter_mut().for_each(|host| host.lacks = failed(host));
    // Each time one further from the source.
    for _ in 0..hosts.len() {
        let lacking = |host: &HostReport| host.fed_by.is_some_and(|feeder| hosts[feeder].lacks);
        let more: Vec<usize> =
            (0..hosts.len()).filter(|index| !hosts[*index].lacks && lacking(&hosts[*index])).collect();
        if more.is_empty() {
            return;
        }
        more.into_iter().for_each(|index| hosts[index].lacks = true);
    }
}

/// Whether a host reported something as failed.
fn failed(host: &HostReport) -> bool {
    host.report.as_ref().is_some_and(|report| report.problems.failed().count > 0)
}

impl HostReport {
    /// Whether all is there: what came was compared with the source's digests, what did not with its sizes
    /// and times.
    pub fn has_all(&self) -> bool {
        self.standing == Standing::Complete && !self.lacks
    }

    /// Files that its last session found there, and that had not come in this run.
    pub fn unchanged(&self) -> u64 {
        self.report.as_ref().map_or(0, |report| report.totals.unchanged.saturating_sub(self.came))
    }
}
