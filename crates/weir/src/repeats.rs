//! Which events of the log are shown? Those of weir as asked; those of libraries to whoever looks for them;
//! and what repeats itself only a few times: a stranger who can cause an event can cause a million of them.

use std::collections::HashMap;
use std::fmt::{Debug, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use weir_get::http::waiting;

/// Events of one kind that are shown before the others are counted: enough to see what differs among them.
const SHOWN: u32 = 5;
/// When the first count is told. While the flood goes on each next one takes twice as long, so that a day of
/// it is a dozen lines.
const FIRST: Duration = Duration::from_secs(10);
/// The longest of these.
const LAST: Duration = Duration::from_secs(3600);
/// Under this target the counts themselves are told.
const COUNTS: &str = "weir::repeats";

/// Up to which level events are shown.
#[derive(Debug, Clone, Copy)]
pub struct Levels {
    /// Those of weir.
    pub ours: LevelFilter,
    /// Those of them that go to stderr too, where a live view shows the others.
    pub asked: LevelFilter,
    /// Those of libraries.
    pub libraries: LevelFilter,
}

/// Lets through what is to be shown. Clones share their levels and counts.
#[derive(Clone)]
pub struct Shown {
    levels: Arc<Mutex<Levels>>,
    counts: Arc<Mutex<Counts>>,
}

/// What came how often.
#[derive(Default)]
struct Counts {
    kinds: HashMap<Identifier, Kind>,
    /// Someone will tell the counts.
    told: bool,
}

/// All events of one place in the program.
struct Kind {
    shown: u32,
    /// Not shown since the last count.
    held: u64,
    /// Until then they are counted together, and for how long that is.
    until: Instant,
    span: Duration,
    level: Level,
    /// The last of those that were shown.
    like: String,
}

impl Shown {
    /// Events up to these levels.
    pub fn new(levels: Levels) -> Shown {
        Shown { levels: Arc::new(Mutex::new(levels)), counts: Arc::default() }
    }

    /// The levels that hold now.
    pub fn levels(&self) -> Levels {
        *self.levels.lock()
    }

    /// Other levels from now on.
    pub fn set(&self, levels: Levels) {
        *self.levels.lock() = levels;
        // Each place in the program remembers whether its events are shown.
        tracing::callsite::rebuild_interest_cache();
    }

    /// Tells what was held back and not told yet, before the program ends.
    pub fn tell_all(&self) {
        tell(self.counts.lock().due(None));
    }

    fn is_shown(&self, event: &Metadata<'_>) -> bool {
        let levels = self.levels();
        let level = match event.target() {
            // A wait that nobody knows of is taken for a hang.
            waiting::TARGET => levels.ours.max(LevelFilter::WARN),
            target if target.starts_with("weir") => levels.ours,
            _ => levels.libraries,
        };
        *event.level() <= level
    }

    /// From now on counts are told when they are due. Without a thread for that they are told at the end.
    fn tell_when_due(&self) {
        let counts = self.counts.clone();
        let tell = move || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                tell(counts.lock().due(Some(Instant::now())));
            }
        };
        let _ = std::thread::Builder::new().name("weir-log".into()).stack_size(256 * 1024).spawn(tell);
    }
}

/// A layer of the whole log, not a filter of one layer: what such a filter refuses of an event that it had
/// declared interest in stays noted for the next event of the thread (tracing-subscriber 0.3.23 asserts that
/// it does not).
impl<S: Subscriber> Layer<S> for Shown {
    fn enabled(&self, event: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.is_shown(event)
    }

    fn register_callsite(&self, event: &'static Metadata<'static>) -> Interest {
        if self.is_shown(event) { Interest::always() } else { Interest::never() }
    }

    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        // Who asks for more than warnings wants each of them.
        if *metadata.level() > Level::WARN || metadata.target() == COUNTS {
            return true;
        }
        let mut counts = self.counts.lock();
        let passes = counts.pass(metadata, Instant::now(), || message(event));
        let starts = !passes && !counts.told;
        counts.told |= starts;
        drop(counts);
        if starts {
            self.tell_when_due();
        }
        passes
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let Levels { ours, libraries, .. } = self.levels();
        Some(ours.max(libraries).max(LevelFilter::WARN))
    }
}

impl Counts {
    fn pass(&mut self, event: &Metadata<'_>, now: Instant, text: impl FnOnce() -> String) -> bool {
        let kind = self.kinds.entry(event.callsite()).or_insert_with(|| Kind {
            shown: 0,
            held: 0,
            until: now + FIRST,
            span: FIRST,
            level: *event.level(),
            like: String::new(),
        });
        if now >= kind.until && kind.held == 0 {
            // Nothing was held back for a whole span: the flood is over.
            (kind.shown, kind.span, kind.until) = (0, FIRST, now + FIRST);
        }
        if kind.shown < SHOWN {
            kind.shown += 1;
            kind.like = text();
            return true;
        }
        kind.held += 1;
        false
    }

    /// Counts that are due at `now`, or all of them, each with its level and what it is a count of.
    fn due(&mut self, now: Option<Instant>) -> Vec<(Level, u64, String)> {
        let mut due = Vec::new();
        for kind in self.kinds.values_mut() {
            if kind.held > 0 && now.is_none_or(|now| now >= kind.until) {
                due.push((kind.level, std::mem::take(&mut kind.held), kind.like.clone()));
                kind.span = (kind.span * 2).min(LAST);
                kind.until += kind.span;
            }
        }
        due
    }
}

fn tell(due: Vec<(Level, u64, String)>) {
    for (level, count, like) in due {
        let count = grouped(count);
        match level {
            Level::ERROR => tracing::error!(target: COUNTS, "… {count} more like this: {like}"),
            _ => tracing::warn!(target: COUNTS, "… {count} more like this: {like}"),
        }
    }
}

/// The text of an event.
fn message(event: &Event<'_>) -> String {
    struct Message(String);
    impl Visit for Message {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            if field.name() == "message" {
                // Writing to a string cannot fail.
                let _ = write!(self.0, "{value:?}");
            }
        }
    }
    let mut message = Message(String::new());
    event.record(&mut message);
    message.0
}

/// `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use std::io;

    use tracing_subscriber::fmt::MakeWriter;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Text(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Text {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Text {
        type Writer = Text;
        fn make_writer(&'a self) -> Text {
            self.clone()
        }
    }

    /// The lines of what `work` logs.
    fn lines(libraries: LevelFilter, work: impl FnOnce()) -> Vec<String> {
        let text = Text::default();
        let shown = Shown::new(Levels { ours: LevelFilter::WARN, asked: LevelFilter::WARN, libraries });
        let layer =
            tracing_subscriber::fmt::layer().with_writer(text.clone()).without_time().with_target(false);
        let subscriber = tracing_subscriber::registry().with(layer.with_ansi(false)).with(shown.clone());
        tracing::subscriber::with_default(subscriber, || {
            work();
            shown.tell_all();
        });
        let bytes = text.0.lock().clone();
        String::from_utf8(bytes).unwrap().lines().map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn a_flood_is_a_few_lines_and_a_count() {
        let found = lines(LevelFilter::OFF, || {
            for number in 0..1239 {
                tracing::warn!("no place for {number}");
            }
            tracing::warn!("another matter");
            tracing::info!("not asked for");
        });
        assert_eq!(found.len(), 7, "{found:?}");
        assert_eq!(found[4], "WARN no place for 4");
        assert_eq!(found[5], "WARN another matter");
        assert_eq!(found[6], "WARN … 1,234 more like this: no place for 4");
    }

    #[test]
    fn libraries_speak_to_those_who_ask() {
        let flood = || {
            for _ in 0..1000 {
                tracing::warn!(target: "h2::proto::ping_pong", "recv PING ack that we never sent");
            }
        };
        assert_eq!(lines(LevelFilter::OFF, flood).len(), 0);
        assert_eq!(lines(LevelFilter::WARN, flood).len(), 6);
    }

    #[test]
    fn counts_are_told_less_and_less_often_until_it_is_quiet() {
        let mut counts = Counts::default();
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut shown = 0;
        let mut told = Vec::new();
        let metadata = flooding();
        for at in 0..200 {
            for _ in 0..100 {
                shown += u32::from(counts.pass(metadata, start + second * at, String::new));
            }
            told.extend(counts.due(Some(start + second * at)).iter().map(|_| at));
        }
        assert_eq!((shown, told), (SHOWN, vec![10, 30, 70, 150]));
        counts.due(None);
        assert!(counts.pass(metadata, start + second * 4000, String::new), "it was quiet for an hour");
    }

    /// Any callsite's metadata.
    fn flooding() -> &'static Metadata<'static> {
        struct Keep(Mutex<Option<&'static Metadata<'static>>>);
        impl Subscriber for Keep {
            fn enabled(&self, metadata: &Metadata<'_>) -> bool {
                let _ = metadata;
                true
            }
            fn register_callsite(
                &self,
                metadata: &'static Metadata<'static>,
            ) -> tracing::subscriber::Interest {
                *self.0.lock() = Some(metadata);
                tracing::subscriber::Interest::always()
            }
            fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
                tracing::span::Id::from_u64(1)
            }
            fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
            fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
            fn event(&self, event: &Event<'_>) {
                *self.0.lock() = Some(event.metadata());
            }
            fn enter(&self, _: &tracing::span::Id) {}
            fn exit(&self, _: &tracing::span::Id) {}
        }
        let keep = Arc::new(Keep(Mutex::new(None)));
        tracing::subscriber::with_default(keep.clone(), || tracing::warn!("x"));
        let found = *keep.0.lock();
        found.unwrap()
    }
}
