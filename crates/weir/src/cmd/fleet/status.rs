//! `weir fleet status`: where a fleet stands: live on a terminal, as text, as JSON, for Prometheus.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_fleet::FleetError;
use weir_fleet::ledger::{FleetStatus, LedgerPlace, Patience, SqlLedger};
use weir_fleet::pace::FleetPace;
use weir_fleet::verdict;
use weir_model::fleet::FleetVerdict;
use weir_report::fleet::{FleetView, text};
use weir_report::tui::fleet::{FleetNews, FleetScene};

use super::{metrics, view};
use crate::args::FleetStatusArgs;
use crate::interrupt::{self, INTERRUPTED};
use crate::tui::{self, Screen};
use crate::voice::{self, Printed, Usage};

/// How long a ledger is asked before whoever watches is told that it does not answer: another writer of a
/// file takes half a second at most.
const PATIENCE: Duration = Duration::from_secs(2);

/// A question takes at most one of so many parts of the time: whoever looks is not to hold those who work.
const LOOKING: u32 = 20;

/// The fleet is judged again after this: workers tell spans of ten seconds.
const JUDGED: Duration = Duration::from_secs(10);

/// How often a pause looks for a signal.
const POLL: Duration = Duration::from_millis(50);

/// What keys do.
const KEYS: &str = "q ends the view; the fleet goes on";

/// Shows it. Returns the exit code.
pub fn run(status: &FleetStatusArgs) -> anyhow::Result<u8> {
    let is_once = status.once || status.json && !status.watch && status.metrics.is_none();
    let is_live = !is_once
        && !status.watch
        && !status.json
        && std::io::stdout().is_terminal()
        && tui::is_possible(true);
    if is_once || !is_live && !status.watch && status.metrics.is_none() {
        return once(status);
    }
    voice::start_log_beside(is_live, false, 0);
    let stop = tui::stop_beside(is_live)?;
    let mut asker = Asker::of(&status.ledger, &stop)?;
    // What is no ledger is found before anything is opened.
    let first = asker.ask();
    if let Err(error) = &first
        && !matches!(error, FleetError::Away { .. } | FleetError::Interrupted { .. })
    {
        return first.map(|_| 1).map_err(Into::into);
    }
    let latest = metrics::Latest::default();
    let server = status.metrics.map(|address| metrics::serve(address, &latest)).transpose()?;
    if let Some(server) = &server {
        writeln!(std::io::stderr(), "metrics at {}metrics", server.url())?;
    }
    let screen = if is_live { Screen::of(FleetScene::new(KEYS)) } else { None };
    if is_live && screen.is_none() && server.is_none() {
        return once(status);
    }
    let mut watch =
        Watch { status, stop: &stop, screen, latest, is_served: server.is_some(), is_away: false };
    let last = watch.run(&mut asker, first);
    let was_live = watch.screen.take().is_some();
    let Some(view) = last? else { return Ok(INTERRUPTED) };
    if was_live {
        std::io::stdout().write_all(text(&view).as_bytes()).printed("the status")?;
    }
    Ok(0)
}

/// Prints it as it is now.
fn once(status: &FleetStatusArgs) -> anyhow::Result<u8> {
    let stop = interrupt::stop()?;
    let mut ledger = super::open(&status.ledger, &stop)?;
    let found = ledger.status()?;
    let verdict = verdict::of_ledger(&mut ledger)?;
    let mut pace = FleetPace::default();
    pace.add(&found);
    let view = view::of(&found, &pace, Some(&verdict));
    print(status, &found, &view, Some(&verdict))?;
    Ok(0)
}

fn print(
    args: &FleetStatusArgs,
    status: &FleetStatus,
    view: &FleetView,
    verdict: Option<&FleetVerdict>,
) -> anyhow::Result<()> {
    let words = if args.json { view::json(status, view, verdict)? } else { text(view) };
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(words.as_bytes()).and_then(|()| stdout.flush()).printed("the status")
}

/// Asks a ledger again and again.
struct Asker {
    place: LedgerPlace,
    patience: Patience,
    ledger: Option<SqlLedger>,
    verdict: Option<FleetVerdict>,
    /// When it is judged again.
    due: Instant,
}

impl Asker {
    fn of(ledger: &str, stop: &Arc<AtomicBool>) -> Result<Asker, Usage> {
        let place = LedgerPlace::parse(ledger).map_err(Usage)?;
        let patience = Patience { longest: PATIENCE, stop: Arc::clone(stop) };
        Ok(Asker { place, patience, ledger: None, verdict: None, due: Instant::now() })
    }

    /// A lost connection is made again by the next question.
    fn ask(&mut self) -> Result<FleetStatus, FleetError> {
        let ledger = match self.ledger.take() {
            Some(ledger) => ledger,
            None => self.place.open(self.patience.clone())?,
        };
        let ledger = self.ledger.insert(ledger);
        let status = ledger.status()?;
        let asked = Instant::now();
        if asked >= self.due || status.complete {
            self.verdict = Some(verdict::of_ledger(ledger)?);
            self.due = Instant::now() + JUDGED.max(asked.elapsed() * LOOKING);
        }
        Ok(status)
    }
}

/// Who watches.
struct Watch<'a> {
    status: &'a FleetStatusArgs,
    stop: &'a AtomicBool,
    screen: Option<Screen<FleetScene>>,
    latest: metrics::Latest,
    is_served: bool,
    is_away: bool,
}

impl Watch<'_> {
    /// Until a signal, or until all is done and nobody scrapes. Returns what was seen last.
    fn run(
        &mut self,
        asker: &mut Asker,
        first: Result<FleetStatus, FleetError>,
    ) -> anyhow::Result<Option<FleetView>> {
        let mut pace = FleetPace::default();
        let mut last = None;
        let (mut asked, mut next) = (Instant::now(), Some(first));
        while !self.stop.load(Relaxed) {
            match next.take().unwrap_or_else(|| asker.ask()) {
                Ok(status) => {
                    pace.add(&status);
                    let view = view::of(&status, &pace, asker.verdict.as_ref());
                    self.show(&status, &view, asker.verdict.as_ref())?;
                    let is_over = view.complete && !self.is_served;
                    last = Some(view);
                    if is_over {
                        break;
                    }
                }
                Err(FleetError::Interrupted { .. }) => break,
                Err(FleetError::Away { why, .. }) => self.away(why),
                // A file whose disk is full, a database that refuses: what a worker would end with, too.
                Err(error) => return Err(error.into()),
            }
            let took = asked.elapsed();
            self.rest(self.status.interval.saturating_sub(took).max(took * LOOKING));
            asked = Instant::now();
        }
        Ok(last)
    }

    fn show(
        &mut self,
        status: &FleetStatus,
        view: &FleetView,
        verdict: Option<&FleetVerdict>,
    ) -> anyhow::Result<()> {
        if self.is_served {
            *self.latest.lock() = Some(view.clone());
        }
        if std::mem::take(&mut self.is_away) && self.screen.is_none() {
            voice::warn("the ledger answers again");
        }
        match &self.screen {
            Some(screen) => screen.tell(|news| {
                *news = FleetNews { view: Some(view.clone()), away: Some(None) };
            }),
            None if self.status.watch => print(self.status, status, view, verdict)?,
            None => {}
        }
        Ok(())
    }

    fn away(&mut self, why: String) {
        *self.latest.lock() = None;
        match &self.screen {
            Some(screen) => screen.tell(|news| news.away = Some(Some(why))),
            None if !self.is_away => {
                voice::warn(&format!("the ledger does not answer: {why}; it is asked again"))
            }
            None => {}
        }
        self.is_away = true;
    }

    fn rest(&self, pause: Duration) {
        let end = Instant::now() + pause;
        while !self.stop.load(Relaxed) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(POLL));
        }
    }
}
