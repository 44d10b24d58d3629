//! Credentials that run out, and are fetched anew before they do: by one lane, for all.

use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use weir_get::GetError;

use super::{Found, Provider};
use crate::error::StoreError;

/// Credentials that hold until then.
pub struct Temporary<C> {
    /// They.
    pub found: Found<C>,
    /// When they run out; `None`: nobody has said.
    pub expires: Option<SystemTime>,
}

/// They are fetched anew so long before they run out: what a slow request takes, and ten refused attempts to
/// fetch them. Of those that live less than four times as long, a quarter of their life.
const AHEAD: Duration = Duration::from_secs(300);

/// What has failed is not tried again for so long: lanes that waited for it meanwhile hear the same.
const FAILED_FOR: Duration = Duration::from_secs(1);

/// What holds no longer than one request takes has run out.
const SHORTEST: Duration = Duration::from_secs(1);

/// Those that had run out when they were fetched (one of the clocks is wrong) are used all the same, and
/// fetched again only after this.
const AGAIN: Duration = Duration::from_secs(60);

type Fetch<C> = dyn Fn() -> Result<Temporary<C>, StoreError> + Send + Sync;

/// Credentials that are fetched when they are wanted, and again before they run out.
pub struct Renewing<C> {
    fetch: Box<Fetch<C>>,
    state: Mutex<RenewingState<C>>,
}

struct RenewingState<C> {
    held: Option<Held<C>>,
    failed: Option<(Instant, String)>,
}

struct Held<C> {
    found: Arc<Found<C>>,
    /// When to fetch others.
    due: Option<SystemTime>,
    expires: Option<SystemTime>,
}

impl<C: PartialEq + Send + Sync> Renewing<C> {
    /// What `fetch` brings, when it is first wanted.
    pub fn new(fetch: impl Fn() -> Result<Temporary<C>, StoreError> + Send + Sync + 'static) -> Renewing<C> {
        Renewing { fetch: Box::new(fetch), state: Mutex::new(RenewingState { held: None, failed: None }) }
    }

    /// Holds the lock: all lanes wait for the one that fetches, whose requests have their deadlines.
    fn fetched(&self, state: &mut RenewingState<C>, now: SystemTime) -> Result<Arc<Found<C>>, StoreError> {
        if let Some((when, why)) = &state.failed
            && when.elapsed() < FAILED_FOR
        {
            return Err(StoreError::Credentials(why.clone()));
        }
        let fetched = (self.fetch)();
        state.failed = match &fetched {
            Err(error) if is_failure(error) => Some((Instant::now(), error.to_string())),
            _ => None,
        };
        let Temporary { found, expires } = fetched?;
        tracing::info!("credentials of {} from {}", found.identity, found.origin);
        let due = expires.map(|expires| match expires.duration_since(now) {
            Ok(life) if life > SHORTEST => expires - AHEAD.min(life / 4),
            _ => now + AGAIN,
        });
        let found = Arc::new(found);
        state.held = Some(Held { found: Arc::clone(&found), due, expires });
        Ok(found)
    }

    fn at(&self, now: SystemTime) -> Result<Arc<Found<C>>, StoreError> {
        let mut state = self.state.lock();
        let held = state.held.as_ref();
        if let Some(held) = held.filter(|held| held.due.is_none_or(|due| now < due)) {
            return Ok(Arc::clone(&held.found));
        }
        let good = held.filter(|held| held.expires.is_some_and(|expires| now < expires));
        let good = good.map(|held| Arc::clone(&held.found));
        match (self.fetched(&mut state, now), good) {
            (Err(error), Some(good)) if is_failure(&error) => {
                tracing::warn!("{error}; those that are held still hold for a while");
                Ok(good)
            }
            (fetched, _) => fetched,
        }
    }
}

/// Who gives credentials refuses them, or cannot be reached. A stop says neither.
fn is_failure(error: &StoreError) -> bool {
    match error {
        StoreError::Credentials(_) => true,
        StoreError::Http(error) => !matches!(error, GetError::Interrupted),
        _ => false,
    }
}

impl<C: PartialEq + Send + Sync> Provider<C> for Renewing<C> {
    fn current(&self) -> Result<Arc<Found<C>>, StoreError> {
        self.at(SystemTime::now())
    }

    fn renewed(&self, used: &Found<C>) -> Result<Option<Arc<Found<C>>>, StoreError> {
        let mut state = self.state.lock();
        // Another lane was quicker.
        if let Some(held) = state.held.as_ref().filter(|held| !ptr::eq(&*held.found, used)) {
            return Ok(Some(Arc::clone(&held.found)));
        }
        let found = self.fetched(&mut state, SystemTime::now())?;
        Ok((found.credential != used.credential).then_some(found))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    use super::*;

    fn counting(life: Duration) -> (Renewing<u64>, Arc<AtomicU64>) {
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        let renewing = Renewing::new(move || {
            let credential = counted.fetch_add(1, SeqCst);
            let found = Found { credential, identity: "me".into(), origin: "here".into() };
            Ok(Temporary { found, expires: Some(SystemTime::now() + life) })
        });
        (renewing, count)
    }

    #[test]
    fn they_are_fetched_once_and_again_before_they_run_out() {
        let (renewing, count) = counting(Duration::from_secs(3600));
        let now = SystemTime::now();
        std::thread::scope(|scope| {
            (0..8).for_each(|_| drop(scope.spawn(|| renewing.at(now).unwrap())));
        });
        assert_eq!(count.load(SeqCst), 1);
        assert_eq!(renewing.at(now + Duration::from_secs(3200)).unwrap().credential, 0);
        assert_eq!(renewing.at(now + Duration::from_secs(3400)).unwrap().credential, 1);
    }

    #[test]
    fn a_refusal_renews_once_for_all_lanes() {
        let (renewing, count) = counting(Duration::from_secs(3600));
        let used = renewing.current().unwrap();
        let first = renewing.renewed(&used).unwrap().unwrap();
        let second = renewing.renewed(&used).unwrap().unwrap();
        assert_eq!((first.credential, second.credential, count.load(SeqCst)), (1, 1, 2));
    }

    #[test]
    fn those_that_run_out_at_once_are_not_fetched_for_every_request() {
        let (renewing, count) = counting(Duration::ZERO);
        (0..5).for_each(|_| drop(renewing.current().unwrap()));
        assert_eq!(count.load(SeqCst), 1);
        let (short, count) = counting(Duration::from_secs(60));
        (0..5).for_each(|_| drop(short.current().unwrap()));
        assert_eq!(count.load(SeqCst), 1);
    }

    /// What fetches once, and then fails so. Counts how often it was asked.
    fn failing(fails: impl Fn() -> StoreError + Send + Sync + 'static) -> (Renewing<u64>, Arc<AtomicU64>) {
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        let renewing = Renewing::new(move || match counted.fetch_add(1, SeqCst) {
            0 => Ok(Temporary {
                found: Found { credential: 7, identity: String::new(), origin: String::new() },
                expires: Some(SystemTime::now() + Duration::from_secs(1000)),
            }),
            _ => Err(fails()),
        });
        (renewing, count)
    }

    fn broken() -> StoreError {
        GetError::Broken { host: "sts".into(), source: std::io::ErrorKind::ConnectionReset.into() }.into()
    }

    #[test]
    fn what_cannot_be_renewed_is_used_while_it_holds() {
        let refused = || StoreError::Credentials("cannot".into());
        for (fails, words) in
            [(refused as fn() -> StoreError, "cannot".to_owned()), (broken, broken().to_string())]
        {
            let (renewing, count) = failing(fails);
            let now = SystemTime::now();
            assert_eq!(renewing.at(now).unwrap().credential, 7);
            (0..5)
                .for_each(|_| assert_eq!(renewing.at(now + Duration::from_secs(900)).unwrap().credential, 7));
            assert_eq!(renewing.at(now + Duration::from_secs(1100)).unwrap_err().to_string(), words);
            // Not by each of them: what fails is known for a while.
            assert!(count.load(SeqCst) < 7, "{words}");
        }
        let (renewing, _) = failing(|| GetError::Interrupted.into());
        let now = SystemTime::now();
        assert_eq!(renewing.at(now).unwrap().credential, 7);
        let error = renewing.at(now + Duration::from_secs(900)).unwrap_err();
        assert!(matches!(error, StoreError::Http(GetError::Interrupted)));
    }

    #[test]
    fn what_signs_is_not_shown() {
        let found = Found { credential: "geheim", identity: "me".into(), origin: "here".into() };
        assert!(!format!("{found:?}").contains("geheim"));
    }
}
