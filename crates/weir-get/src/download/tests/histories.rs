//! Random histories: a server whose object changes, whose answers are cut and whose words are odd; lanes that
//! interleave, and lanes that come late with what belongs to an attempt that is over. The ledger is the real
//! one.

use proptest::prelude::*;

use super::*;
use crate::ledger::SplitRule;

/// Bytes of the object: enough that three lanes share it, few enough that each is looked at.
const BYTES: u64 = 24;

const LANES: usize = 3;

/// Moves of lanes after which a download has ended that a good server serves: each attempt takes under a
/// hundred.
const ENOUGH: usize = 3000;

const RULES: Rules = Rules { retries: 3, max_wait: Duration::from_secs(300), drip: 2 };

/// What the server has and does.
#[derive(Debug, Clone)]
struct Server {
    /// The version that it has now.
    now: u8,
    /// It sends an ETag.
    has_tags: bool,
    gives_parts: bool,
    /// Each version has a size of its own.
    grows: bool,
}

impl Server {
    fn object(&self, holds_to: Option<u64>) -> Object {
        let version = version(&if self.has_tags { self.now.to_string() } else { String::new() });
        let size = BYTES + if self.grows { u64::from(self.now) } else { 0 };
        let holds_to = holds_to.map(|end| end.min(size));
        let ranged = holds_to.is_some() && version.if_range().is_some();
        Object { size: Some(size), version, holds_to, ranged, declared: None }
    }

    /// The answer to a request for a part up to `end`, or without `ranged` for all.
    fn answer(&self, ranged: bool, end: u64, roll: u8) -> Result<Part, GetError> {
        match roll {
            0..8 => Err(broken()),
            8..12 => Err(status(503, Some(1))),
            12..14 => Err(status(404, None)),
            14..20 => Err(wrong_part()),
            20..24 => Ok(Part::Beyond(None)),
            24..40 => Ok(Part::Whole(self.object(None))),
            _ if ranged && self.gives_parts => Ok(Part::Asked(self.object(Some(end)))),
            _ => Ok(Part::Whole(self.object(None))),
        }
    }
}

/// One attempt at the download, as its lanes share it.
struct Attempt {
    download: Download,
    ledger: Ledger,
    /// The version of which each byte is.
    bytes: Vec<Option<u8>>,
}

/// What a lane is at.
enum Lane {
    Free,
    /// Has an answer of this version at hand.
    Carrying {
        attempt: usize,
        version: u8,
        carried: Carried,
    },
    Looking(usize, GetError),
    Trying(usize, GetError),
    Verifying(usize),
}

struct World {
    server: Server,
    /// A download in the queue.
    waiting: Option<Download>,
    attempts: Vec<Attempt>,
    lanes: Vec<Lane>,
    time: Instant,
    /// Failures in a row that brought nothing, each after the pause of the one before it.
    fruitless: u32,
    done_at_failure: u64,
    /// Refusals of the rest in a row, without a byte between them, and how much was here at the last one.
    refusals: u32,
    done_at_refusal: u64,
    restarts: u32,
    ended: Option<Phase>,
}

impl World {
    fn new(server: Server) -> World {
        World {
            server,
            waiting: Some(Download::default()),
            attempts: Vec::new(),
            lanes: (0..LANES).map(|_| Lane::Free).collect(),
            time: Instant::now(),
            fruitless: 0,
            done_at_failure: 0,
            refusals: 0,
            done_at_refusal: 0,
            restarts: 0,
            ended: None,
        }
    }

    fn moment(&self) -> Moment {
        Moment { rules: RULES, time: self.time, chance: 0.0, is_stopping: false }
    }

    fn standing(&self, attempt: usize) -> Standing {
        let ledger = &self.attempts[attempt].ledger;
        Standing {
            began: self.time,
            done: ledger.done().len(),
            others: ledger.carrying(),
            bringing: ledger.bringing(),
            is_resumable: self.attempts[attempt].download.is_pinned(),
        }
    }

    /// One move of a lane.
    fn go(&mut self, lane: usize, roll: u8) {
        match std::mem::replace(&mut self.lanes[lane], Lane::Free) {
            Lane::Free => self.take_work(lane, roll),
            Lane::Carrying { attempt, version, carried } => self.carry(lane, attempt, version, carried, roll),
            Lane::Looking(attempt, error) => self.look(lane, attempt, error, roll),
            Lane::Trying(attempt, error) => {
                let (standing, moment) = (self.standing(attempt), self.moment());
                let is_whole = self.server.answer(false, 0, roll).is_ok();
                let action = self.attempts[attempt].download.on_plain(error, is_whole, &standing, &moment);
                self.act(lane, attempt, action);
            }
            Lane::Verifying(attempt) => {
                let result = match roll {
                    0..8 => Err(digest()),
                    8..16 => Err(disk_full()),
                    _ => Ok(()),
                };
                let moment = self.moment();
                let action = self.attempts[attempt].download.on_verified(result, &moment);
                self.act(lane, attempt, action);
            }
        }
    }

    /// The answer to a lane's question what the URL gives now.
    fn look(&mut self, lane: usize, attempt: usize, error: GetError, roll: u8) {
        let id = lane as LaneId;
        let gap = self.attempts[attempt].ledger.claim_gap(id, u64::MAX, u64::MAX);
        let judged = self.server.answer(true, gap.as_ref().map_or(u64::MAX, |gap| gap.end), roll);
        let (standing, moment) = (self.standing(attempt), self.moment());
        let own = &mut self.attempts[attempt].download;
        let seen = match judged {
            Err(error) if roll < 12 => BulkSeen::Failed(error),
            judged => own.seen(&judged, gap.is_some(), roll == 41, HOST),
        };
        let action = own.on_look(error, seen, &standing, &moment);
        if let Action::Carry(holds_to) = action {
            return self.begin_to_carry(lane, attempt, Carried { holds_to, brought: 0, ranged: true });
        }
        self.attempts[attempt].ledger.release(id);
        self.act(lane, attempt, action);
    }

    /// The answer to a lane's request was accepted.
    fn begin_to_carry(&mut self, lane: usize, attempt: usize, carried: Carried) {
        self.attempts[attempt].ledger.accept(lane as LaneId);
        self.lanes[lane] = Lane::Carrying { attempt, version: self.server.now, carried };
    }

    fn take_work(&mut self, lane: usize, roll: u8) {
        if let Some(download) = self.waiting.take() {
            return self.open(lane, download, roll);
        }
        let Some(attempt) = self.attempts.len().checked_sub(1) else { return };
        let Attempt { download, ledger, .. } = &mut self.attempts[attempt];
        let splits = roll.is_multiple_of(2);
        if !download.takes_lane(ledger.lanes(), splits) {
            return;
        }
        let id = lane as LaneId;
        let claim = match splits {
            true => ledger.claim_split(id, SplitRule { min_part: 1, joining: 1 }),
            false => ledger.claim_gap(id, u64::MAX, u64::MAX),
        };
        if claim.is_some() {
            self.ask(lane, attempt, roll);
        }
    }

    /// A lane takes the job up.
    fn open(&mut self, lane: usize, mut download: Download, roll: u8) {
        download.on_begin(Wishes { in_parts: true, ..Wishes::default() });
        let Step::Ask { ranged, .. } = download.step(false) else { panic!("there is no target") };
        let judged = self.server.answer(ranged, u64::MAX, roll);
        let object = match download.on_answer(judged, None, || status(416, None)) {
            Ok(object) => object,
            Err(error) => return self.open_failed(download, error),
        };
        let version = Arc::new(object.version.clone());
        download.on_bulk(Bulk::new(version, object.size, object.ranged, roll != 40, 0));
        let mut ledger = Ledger::new(object.size, RangeSet::default());
        ledger.claim_gap(lane as LaneId, u64::MAX, u64::MAX);
        let bytes = vec![None; object.size.unwrap_or_default() as usize];
        self.attempts.push(Attempt { download, ledger, bytes });
        let carried = Carried { holds_to: object.holds_to, brought: 0, ranged };
        (self.done_at_failure, self.fruitless) = (0, 0);
        (self.done_at_refusal, self.refusals) = (0, 0);
        self.begin_to_carry(lane, self.attempts.len() - 1, carried);
    }

    fn open_failed(&mut self, mut download: Download, error: GetError) {
        let standing = Standing { began: self.time, done: 0, others: 0, bringing: 0, is_resumable: false };
        match download.on_error(error, &standing, &self.moment()) {
            Action::AskAgain => self.waiting = Some(download),
            Action::AskLater { pause, .. } => {
                self.time += pause;
                self.fruitless += 1;
                assert!(self.fruitless <= RULES.retries, "asked more often than allowed");
                self.waiting = Some(download);
            }
            Action::GiveUp(error) | Action::ComeBack { error, .. } => {
                download.on_given_up(error, Remains::Earlier(0));
                self.end(download.phase());
            }
            action => panic!("opening failed: {action:?}"),
        }
    }

    /// A lane asks for its claim.
    fn ask(&mut self, lane: usize, attempt: usize, roll: u8) {
        let Attempt { download, ledger, .. } = &mut self.attempts[attempt];
        let claim = ledger.claim(lane as LaneId).expect("a claim");
        let answer = download.on_claim(claim.start, ledger.carrying(), HOST).and_then(|ranged| {
            let judged = self.server.answer(ranged, claim.end, roll);
            Ok((ranged, download.on_part(judged, ranged, false, HOST)?))
        });
        let (ranged, holds_to) = match answer {
            Ok((ranged, Carry::Part(holds_to))) => (ranged, holds_to),
            Ok((ranged, Carry::Whole(object))) => match download.on_whole(&object, HOST) {
                Ok(()) => (ranged, None),
                Err(error) => return self.after_part(lane, attempt, Err(error)),
            },
            Ok((_, Carry::NoParts)) => return self.after_part(lane, attempt, Err(GetError::Dropped)),
            Ok((_, Carry::Resolve)) => panic!("it was the job's own URL"),
            Err(error) => return self.after_part(lane, attempt, Err(error)),
        };
        self.begin_to_carry(lane, attempt, Carried { holds_to, brought: 0, ranged });
    }

    /// Some bytes of the answer, its end, or a failure.
    fn carry(&mut self, lane: usize, attempt: usize, version: u8, carried: Carried, roll: u8) {
        let Attempt { download, ledger, bytes } = &mut self.attempts[attempt];
        let id = lane as LaneId;
        let claim = ledger.claim(id).unwrap_or(0..0);
        if download.is_over() {
            return self.after_part(lane, attempt, Err(GetError::Interrupted));
        }
        match roll {
            0..12 => return self.after_part(lane, attempt, Err(broken())),
            12..14 => return self.after_part(lane, attempt, Err(unclean(carried.brought))),
            14..15 => return self.after_part(lane, attempt, Err(disk_full())),
            _ => {}
        }
        let left = carried.holds_to.unwrap_or(bytes.len() as u64).saturating_sub(claim.start);
        let got = left.min(1 + u64::from(roll % 8));
        if got == 0 || claim.is_empty() {
            let result = download.on_end(ledger, id, carried, HOST);
            return self.after_part(lane, attempt, result);
        }
        let taken = ledger.reserve(id, got);
        for byte in &mut bytes[claim.start as usize..(claim.start + taken) as usize] {
            assert!(byte.replace(version).is_none(), "a byte came twice");
        }
        let mut found = bytes.iter().flatten();
        let first = found.next();
        assert!(found.all(|other| Some(other) == first), "two versions in one file: {bytes:?}");
        if taken > 0 {
            ledger.commit(id);
        }
        if taken < got {
            return self.after_part(lane, attempt, Ok(()));
        }
        let carried = Carried { brought: carried.brought + taken, ..carried };
        self.lanes[lane] = Lane::Carrying { attempt, version, carried };
    }

    fn after_part(&mut self, lane: usize, attempt: usize, result: Result<(), GetError>) {
        self.attempts[attempt].ledger.release(lane as LaneId);
        let (standing, moment) = (self.standing(attempt), self.moment());
        let Attempt { download, ledger, .. } = &mut self.attempts[attempt];
        let action = match result {
            _ if ledger.is_complete() => download.on_complete(),
            Err(error) => download.on_error(error, &standing, &moment),
            Ok(()) => Action::Leave,
        };
        self.act(lane, attempt, action);
    }

    fn act(&mut self, lane: usize, attempt: usize, action: Action) {
        let is_newest = attempt + 1 == self.attempts.len();
        let is_silent = matches!(action, Action::Leave);
        assert!(is_silent || is_newest, "an attempt that is over has a say: {action:?}");
        match action {
            Action::Leave => {}
            Action::Rest { pause, .. } => self.time += pause,
            Action::BackOff { error, pause, .. } => {
                self.time += pause;
                let is_refusal = error.is_permanent() || matches!(error, GetError::NoParts { .. });
                match is_refusal {
                    true => self.count_refusal(attempt),
                    false => self.count_failure(attempt),
                }
            }
            Action::Look(error) => self.lanes[lane] = Lane::Looking(attempt, error),
            Action::AskPlainly(error) => self.lanes[lane] = Lane::Trying(attempt, error),
            Action::Verify => {
                assert!(self.attempts[attempt].bytes.iter().all(Option::is_some), "verifies half a file");
                self.lanes[lane] = Lane::Verifying(attempt);
            }
            Action::BeginAnew { next, pause, .. } => {
                assert_eq!(self.attempts[attempt].download.phase(), Phase::Replaced);
                self.time += pause;
                self.restarts += 1;
                // Each time it may be cut as often as is allowed, where nothing can be gone on with.
                let allowed = MAX_RESTARTS + (MAX_RESTARTS + 1) * RULES.retries;
                assert!(self.restarts <= allowed, "begins anew more often than allowed");
                assert!(self.waiting.replace(*next).is_none(), "one download became two");
                self.fruitless = 0;
            }
            Action::GiveUp(error) | Action::ComeBack { error, .. } => {
                let kept = self.attempts[attempt].ledger.done().len();
                let remains = Remains::Part {
                    kept,
                    is_precious: false,
                    is_there: true,
                    will_be_found: true,
                    is_resumable: true,
                };
                self.attempts[attempt].download.on_given_up(error, remains);
            }
            action => panic!("of a job that waits: {action:?}"),
        }
        let phase = self.attempts[attempt].download.phase();
        if is_newest && phase.is_final() && phase != Phase::Replaced && self.ended.is_none() {
            self.end(phase);
        }
    }

    /// Each failure is after the pause of the one before it, so that all of them count.
    fn count_failure(&mut self, attempt: usize) {
        let ledger = &self.attempts[attempt].ledger;
        let (done, is_bringing) = (ledger.done().len(), ledger.bringing() > 0);
        // Any byte starts the count anew; a drip is not among these failures.
        let has_brought = done > self.done_at_failure;
        self.fruitless = if has_brought { 1 } else { self.fruitless + 1 };
        self.done_at_failure = done;
        assert!(is_bringing || self.fruitless <= RULES.retries, "tried more often than allowed");
    }

    /// The rest was refused, and is asked for again.
    fn count_refusal(&mut self, attempt: usize) {
        let done = self.attempts[attempt].ledger.done().len();
        self.refusals = if done > self.done_at_refusal { 1 } else { self.refusals + 1 };
        self.done_at_refusal = done;
        assert!(done > 0 && self.refusals < VERSION_TRIES, "asked again for what is refused again and again");
    }

    fn end(&mut self, phase: Phase) {
        assert!(self.ended.replace(phase).is_none(), "it ended twice");
        assert!(self.waiting.is_none(), "it ended, and waits");
        if phase == Phase::Done {
            let bytes = &self.attempts.last().expect("an attempt").bytes;
            let first = bytes.first().copied().flatten();
            assert!(first.is_some() && bytes.iter().all(|byte| *byte == first), "{bytes:?}");
        }
    }

    fn phases(&self) -> Vec<Phase> {
        self.attempts.iter().map(|attempt| attempt.download.phase()).collect()
    }

    /// What was final stays as it was, and no phase follows that may not.
    fn check(&self, before: &[Phase]) {
        for (before, now) in before.iter().zip(self.phases()) {
            assert!(*before == now || may_follow(*before, now), "{before:?} became {now:?}");
        }
    }
}

fn may_follow(before: Phase, now: Phase) -> bool {
    use Phase::{Bulk, Done, Doubted, Failed, Partial, Replaced, Verifying};
    match before {
        Bulk => matches!(now, Doubted | Verifying | Replaced | Partial | Failed),
        Doubted => matches!(now, Bulk | Verifying | Replaced | Partial | Failed),
        Verifying => matches!(now, Done | Replaced | Partial | Failed),
        _ => false,
    }
}

fn servers() -> impl Strategy<Value = Server> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(has_tags, gives_parts, grows)| Server {
        now: 0,
        has_tags,
        gives_parts,
        grows,
    })
}

proptest! {
    /// Whatever a server does, for as long as it likes: no file is of two versions, `Done` comes after a
    /// digest of all bytes, what is over changes no more, and retries keep to their rules. Once the server is
    /// good, it ends.
    #[test]
    fn every_history_ends_well(
        server in servers(),
        moves in prop::collection::vec((0..LANES, any::<u8>(), any::<u8>()), 0..300),
    ) {
        let mut world = World::new(server);
        for (lane, roll, change) in moves {
            match change {
                0..6 => world.server.now = (world.server.now + 1) % 3,
                6..8 => world.server.has_tags = !world.server.has_tags,
                8..10 => world.server.gives_parts = !world.server.gives_parts,
                _ => {}
            }
            let before = world.phases();
            world.go(lane, roll);
            world.check(&before);
        }
        for count in 0..ENOUGH {
            if world.ended.is_some() {
                break;
            }
            let before = world.phases();
            world.go(count % LANES, u8::MAX - (count / LANES % 2) as u8);
            world.check(&before);
        }
        prop_assert!(world.ended.is_some(), "it never ends: {:?}", world.phases());
        // Whatever comes late changes nothing.
        let before = world.phases();
        for attempt in 0..world.attempts.len() {
            let (standing, moment) = (world.standing(attempt), world.moment());
            let download = &mut world.attempts[attempt].download;
            for error in [broken(), changed(), wrong_part(), crumbs(), disk_full(), GetError::Interrupted] {
                prop_assert!(matches!(download.on_error(error, &standing, &moment), Action::Leave));
            }
            prop_assert!(matches!(download.on_complete(), Action::Leave));
            prop_assert!(matches!(download.on_verified(Ok(()), &moment), Action::Leave));
            prop_assert!(matches!(download.on_verified(Err(digest()), &moment), Action::Leave));
            let look = download.on_look(changed(), BulkSeen::Another, &standing, &moment);
            prop_assert!(matches!(look, Action::Leave));
            prop_assert!(matches!(download.on_plain(crumbs(), true, &standing, &moment), Action::Leave));
            prop_assert!(download.on_part(asked("0"), true, false, HOST).is_err());
            prop_assert!(!download.takes_lane(0, false) && !download.on_stop());
            download.on_begin(Wishes::default());
            download.on_kept();
        }
        prop_assert_eq!(before, world.phases());
    }
}
