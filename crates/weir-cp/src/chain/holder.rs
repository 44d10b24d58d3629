//! The process of a host that holds: started by ssh, kept alive, and known to be gone within seconds.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::distance::{Echoes, SPACING};
use super::run::News;
use crate::control::{Control, Outlet};
use crate::error::CopyError;
use crate::events::Events;
use crate::hello;
use crate::idle_timeout::KEEPALIVE;
use crate::opening::{control_of, heard};
use crate::secret::Secret;
use crate::ssh::{Far, Host};
use crate::threads;
use crate::wire::driver::{FromDriver, ToDriver};
use crate::wire::frame;

/// A host that says nothing for so long is lost: it says something twice a second.
const SILENT: Duration = Duration::from_secs(3);

/// One that runs.
#[derive(Debug)]
pub(super) struct Holder {
    /// The secret that admits a session.
    pub(super) word: Secret,
    control: Arc<Control>,
    heard: Arc<Mutex<Instant>>,
    up: Instant,
    round_trip: Arc<OnceLock<Duration>>,
    cut: Arc<AtomicBool>,
}

/// The host process to start.
pub(super) struct Wanted {
    /// Its number, and how often it was started.
    pub(super) index: usize,
    pub(super) life: u32,
    pub(super) host: Host,
    pub(super) version: String,
    /// The word of the one before it.
    pub(super) before: Option<Secret>,
    pub(super) cut: Arc<AtomicBool>,
    pub(super) tell: Sender<News>,
}

impl Holder {
    /// It has said nothing for too long.
    pub(super) fn is_silent(&self) -> bool {
        self.heard.lock().elapsed() > SILENT
    }

    /// How long the way there and back takes, if that is known.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.round_trip.get().copied()
    }

    /// That is known, or not waited for any more.
    pub(super) fn is_placed(&self) -> bool {
        self.round_trip().is_some() || self.up.elapsed() > SILENT
    }

    /// Nothing more is to be kept.
    pub(super) fn end(&self) {
        drop(self.part(false));
    }

    /// The same, and with `all_have` the host hears that all hosts have all. The channel closes once that is
    /// sent.
    pub(super) fn part(&self, all_have: bool) -> Receiver<()> {
        // On a thread of its own: one that does not read would hold it.
        let (control, (said, ends)) = (Arc::clone(&self.control), channel());
        let _ = threads::start("part", move || {
            let _said: Sender<()> = said;
            if all_have {
                Outlet::new(&control).send(&FromDriver::AllHave);
            }
            control.close();
        });
        ends
    }

    /// It is not waited for.
    pub(super) fn cut(&self) {
        self.cut.store(true, std::sync::atomic::Ordering::Relaxed);
        self.end();
    }
}

/// Starts one, and stays until it is gone.
pub(super) fn keep(wanted: Wanted) {
    let Wanted { index, life, host, version, before, cut, tell } = wanted;
    let (mailbox, _nobody) = channel();
    let events = Events::new(host.shown(), mailbox);
    let begun = begin(&host, &version, before, (&cut, &events));
    let why = match begun {
        Ok((mut far, holder)) => {
            let (heard, control) = (Arc::clone(&holder.heard), Arc::downgrade(&holder.control));
            let (round_trip, told) = (Arc::clone(&holder.round_trip), control.clone());
            let _ = tell.send(News::Up(index, life, holder));
            let _ = threads::start("alive", move || {
                let is_told = |control| Outlet::new(&control).try_send(&FromDriver::Alive).is_ok();
                while control.upgrade().is_some_and(is_told) {
                    std::thread::sleep(KEEPALIVE);
                }
            });
            let far_is = |taken| {
                let _ = round_trip.set(taken);
            };
            let why = listen(&mut far, (&told, &heard), &events, far_is);
            let why = why.or_else(|| far.how_it_ended()).unwrap_or_else(|| "its connection ended".to_owned());
            far.end();
            why
        }
        Err(error) => error.to_string(),
    };
    let _ = tell.send(News::Down(index, life, why));
}

fn begin(
    host: &Host,
    version: &str,
    before: Option<Secret>,
    (cut, events): (&Arc<AtomicBool>, &Events),
) -> Result<(Far, Holder), CopyError> {
    let shown = host.shown().to_owned();
    let hears = Arc::new(move |line: &str| tracing::debug!("{shown}: {line}"));
    let mut far = host.start_unattended(version, cut, hears)?;
    let control = control_of(&mut far, events)?;
    let word = Secret::draw()?;
    let driver = Outlet::new(&control);
    driver.send(&FromDriver::Hello(hello::own(version, Vec::new())));
    heard(&mut far, events)?;
    before.into_iter().for_each(|before| driver.send(&FromDriver::Evict(before)));
    driver.send(&FromDriver::Hold(word.clone()));
    let now = Instant::now();
    let (heard, round_trip) = (Arc::new(Mutex::new(now)), Arc::default());
    Ok((far, Holder { word, control, heard, up: now, round_trip, cut: Arc::clone(cut) }))
}

/// How far a host is on which nothing holds; none where that cannot be told.
pub(super) fn distance(host: &Host, version: &str, cut: &Arc<AtomicBool>) -> Option<Duration> {
    let (mailbox, _nobody) = channel();
    let events = Events::new(host.shown(), mailbox);
    let (mut far, Holder { control, heard, .. }) = begin(host, version, None, (cut, &events)).ok()?;
    let mut found = None;
    let far_is = |taken| {
        found = Some(taken);
        // It ends with its input.
        control.close();
    };
    listen(&mut far, (&Arc::downgrade(&control), &heard), &events, far_is);
    far.end();
    found
}

/// Hears that it is there, and tells how far it is; why it is not, where it says so.
fn listen(
    far: &mut Far,
    (control, heard): (&Weak<Control>, &Mutex<Instant>),
    events: &Events,
    mut far_is: impl FnMut(Duration),
) -> Option<String> {
    let mut output = far.output.take()?;
    let mut body = Vec::new();
    let echoes: Arc<Mutex<Echoes>> = Arc::default();
    let (said, control) = (Arc::clone(&echoes), control.clone());
    let _ = threads::start("echo", move || ask(&control, &said));
    loop {
        match frame::read(&mut output, &mut body) {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(error) => return Some(weir_units::plain(&error)),
        }
        match events.read::<ToDriver>(&body) {
            Ok(Some(ToDriver::Abort(failure))) => return Some(failure.words),
            Ok(said) => {
                let now = Instant::now();
                *heard.lock() = now;
                let Some(ToDriver::Echo(number)) = said else { continue };
                let known = echoes.lock().hear(number, now);
                known.into_iter().for_each(&mut far_is);
            }
            Err(error) => return Some(error.to_string()),
        }
    }
}

/// Says what is to be answered at once.
fn ask(control: &Weak<Control>, echoes: &Mutex<Echoes>) {
    loop {
        let (Some(number), Some(control)) = (echoes.lock().say(Instant::now()), control.upgrade()) else {
            return;
        };
        if Outlet::new(&control).try_send(&FromDriver::Echo(number)).is_err() {
            return;
        }
        std::thread::sleep(SPACING);
    }
}
