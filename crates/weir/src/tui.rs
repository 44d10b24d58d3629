//! `--tui`: the terminal of the live view. What it shows is weir-report's; here are its modes, its keys, and
//! how it is given back: when the run is over, on an error, on a panic, on SIGINT, SIGTERM and SIGHUP. So is
//! a terminal that only keys are read from ([`take_keys`]).
//!
//! The view has a thread of its own, so that a terminal which is slow, or stopped, holds no byte. It is drawn
//! on /dev/tty, and keys are read from there: stdin, which may be data, is left alone.

mod keys;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ratatui_core::layout::Rect;
use ratatui_core::terminal::{Terminal, TerminalOptions, Viewport};
use ratatui_crossterm::CrosstermBackend;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::Signal;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcgetwinsize,
    tcsetattr,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTTOU};
use signal_hook::iterator::Signals;
use weir_report::tui::state::LiveState;
use weir_report::tui::{Look, Scene};

use crate::interrupt::{self, INTERRUPTED};
use crate::terminal;
use keys::Keys;

/// Ten pictures a second at most: eyes do not follow faster, and all of them together cost a hundredth of one
/// processor.
const BETWEEN: Duration = Duration::from_millis(100);

/// The alternate screen, pastes between marks, without a cursor, empty.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?2004h\x1b[?25l\x1b[2J";

/// Plain text, the cursor, pastes as they are, and the screen as it was before.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?2004l\x1b[?1049l";

/// Lines of the log that are kept to be printed after the view.
const LINES: usize = 1000;

/// What Ctrl-Z sends, and Ctrl-L.
const CTRL_Z: u8 = 0x1a;
const CTRL_L: u8 = 0x0c;

/// What a special key is that does nothing (_POSIX_VDISABLE).
const DISABLED: u8 = 0;

/// The terminal while the view has it, or its keys are read.
static HELD: Mutex<Option<Held>> = Mutex::new(None);

/// The log while the view is there.
static LOG: Mutex<Option<Log>> = Mutex::new(None);

struct Held {
    terminal: File,
    before: Termios,
    /// What it is sent when it is given back.
    leave: &'static [u8],
}

/// Lines that would have gone to stderr.
#[derive(Default)]
struct Log {
    /// For the view.
    fresh: Vec<String>,
    /// For afterwards.
    kept: Vec<String>,
    dropped: usize,
}

/// The live view. It is there until it is dropped.
pub struct Screen<S: Scene = LiveState> {
    shared: Arc<Shared<S>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<S: Scene> {
    news: Mutex<S::News>,
    over: AtomicBool,
    /// Wakes the view's thread.
    bell: OwnedFd,
}

/// Why there can be no live view here; `None` where there can.
fn obstacle() -> Option<&'static str> {
    if !io::stdout().is_terminal() {
        return Some("stdout is not a terminal");
    }
    if !io::stderr().is_terminal() {
        return Some("stderr is not a terminal");
    }
    if !terminal::is_named() {
        return Some("TERM names a terminal that cannot move its cursor");
    }
    match terminal() {
        Err(_) => Some("there is no controlling terminal"),
        Ok(terminal) if !is_foreground(&terminal) => Some("weir runs in the background"),
        Ok(_) => None,
    }
}

/// Whether there will be a live view. Where it was asked for and cannot be, that is told.
pub fn is_possible(wanted: bool) -> bool {
    let why = if wanted { obstacle() } else { return false };
    if let Some(why) = why {
        tracing::warn!("no live view: {why}");
    }
    why.is_none()
}

impl Screen {
    /// Takes the terminal for a transfer. `None` where that cannot be had: the caller goes on without.
    pub fn open(title: &str, keys: &str) -> Option<Screen> {
        Screen::of(LiveState::new(title, keys))
    }
}

impl<S: Scene> Screen<S> {
    /// The same for any scene.
    pub fn of(scene: S) -> Option<Screen<S>> {
        let opened = open(scene);
        if let Err(error) = &opened {
            tracing::warn!("no live view: {error}");
        }
        opened.ok()
    }

    /// Tells what is new.
    pub fn tell(&self, tell: impl FnOnce(&mut S::News)) {
        tell(&mut self.shared.news.lock());
    }
}

impl<S: Scene> Drop for Screen<S> {
    /// Gives the terminal back, then prints what was logged.
    fn drop(&mut self) {
        self.shared.over.store(true, Relaxed);
        // If the bell does not ring, the next picture's time comes.
        let _ = rustix::io::write(&self.shared.bell, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // Its panic was told when it happened.
            let _ = thread.join();
        }
        restore();
        let Some(log) = LOG.lock().take() else { return };
        let mut stderr = io::stderr().lock();
        // A terminal that went away is of no concern.
        for line in &log.kept {
            let _ = writeln!(stderr, "{line}");
        }
        if log.dropped > 0 {
            let _ = writeln!(stderr, "{} lines before these are left out", log.dropped);
        }
    }
}

/// What SIGINT and SIGTERM set from now on, for a command that may change the modes of the terminal, for a
/// live view or to read keys: where it does SIGHUP counts too, and the terminal is given back first.
pub fn stop_beside(changes_modes: bool) -> anyhow::Result<Arc<AtomicBool>> {
    if !changes_modes {
        return interrupt::stop();
    }
    let stop = Arc::new(AtomicBool::new(false));
    on_interrupt(&stop)?;
    Ok(stop)
}

/// SIGINT, SIGTERM and SIGHUP set `stop`; a second one gives the terminal back and ends the program at once.
fn on_interrupt(stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
    let asked_again = Arc::new(AtomicBool::new(false));
    let at_once = Arc::clone(&asked_again);
    interrupt::on_signals(&SIGNALS, stop, move || asked_again.store(true, Relaxed))?;
    // Registered behind it: what a signal meant is known when this wakes.
    let mut signals = Signals::new(SIGNALS.iter().filter(|signal| interrupt::is_heeded(signal)))?;
    std::thread::Builder::new().name("signals".to_owned()).stack_size(256 << 10).spawn(move || {
        let mut told = false;
        for _ in signals.forever() {
            if at_once.load(Relaxed) {
                restore_in_time();
                signal_hook::low_level::exit(INTERRUPTED.into());
            }
            if !std::mem::replace(&mut told, true) {
                take_line("ending; asked once more it ends at once", false);
            }
        }
    })?;
    Ok(())
}

/// Gives the terminal back, unless a picture that the terminal does not take holds it: an end is asked for,
/// then, not order.
fn restore_in_time() {
    for _ in 0..10 {
        if let Some(held) = HELD.try_lock() {
            drop(held);
            return restore();
        }
        std::thread::sleep(BETWEEN / 5);
    }
}

/// Takes a line of the log, if there is a view; `asked`: it would have been printed without one, too.
pub fn take_line(line: &str, asked: bool) -> bool {
    let mut log = LOG.lock();
    let Some(log) = log.as_mut() else { return false };
    log.fresh.push(line.to_owned());
    if asked {
        if log.kept.len() == LINES {
            log.kept.remove(0);
            log.dropped += 1;
        }
        log.kept.push(line.to_owned());
    }
    true
}

/// Gives the terminal back as it was. Whoever comes second finds nothing to do.
pub fn restore() {
    if let Some(Held { mut terminal, before, leave }) = HELD.lock().take() {
        // The signal would stop a job in the background, and one may go there between question and call.
        interrupt::while_blocked(&[SIGTTOU], || {
            // A terminal that went away needs nothing back.
            let _ = terminal.write_all(leave);
            // In the background the modes are those of the shell, or of another job.
            if is_foreground(&terminal) {
                let _ = tcsetattr(&terminal, OptionalActions::Now, &before);
            }
        });
    }
}

/// Keys of this terminal come one by one and unseen from now on, until [`restore`]; Ctrl-C and Ctrl-Z stay
/// its own.
pub fn take_keys(terminal: impl AsFd) -> io::Result<()> {
    let terminal = File::from(terminal.as_fd().try_clone_to_owned()?);
    let mut held = HELD.lock();
    let before = tcgetattr(&terminal)?;
    tcsetattr(&terminal, OptionalActions::Now, &one_by_one(&before))?;
    *held = Some(Held { terminal, before, leave: b"" });
    Ok(())
}

fn open<S: Scene>(scene: S) -> io::Result<Screen<S>> {
    let terminal = terminal()?;
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let shared =
        Arc::new(Shared { news: Mutex::new(S::News::default()), over: AtomicBool::new(false), bell });
    restore_on_panic();
    enter(&terminal).inspect_err(|_| restore())?;
    *LOG.lock() = Some(Log::default());
    let view = Arc::clone(&shared);
    let thread =
        std::thread::Builder::new().name("view".to_owned()).spawn(move || show(&view, &terminal, scene));
    // Whatever comes now, the terminal goes back when this is dropped.
    let mut screen = Screen { shared, thread: None };
    screen.thread = Some(thread?);
    Ok(screen)
}

/// The controlling terminal.
pub fn terminal() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty")
}

fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
    });
}

/// These modes, but keys come one by one and unseen. Ctrl-\ does nothing: it would leave the terminal so.
fn one_by_one(before: &Termios) -> Termios {
    let mut modes = before.clone();
    modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    modes.special_codes[SpecialCodeIndex::VQUIT] = DISABLED;
    (modes.special_codes[SpecialCodeIndex::VMIN], modes.special_codes[SpecialCodeIndex::VTIME]) = (1, 0);
    modes
}

/// Takes keys and the screen. Ctrl-C stays the terminal's own; Ctrl-Z is handled, Ctrl-S does nothing: each
/// would leave the terminal as it is.
fn enter(terminal: &File) -> io::Result<()> {
    let mut held = HELD.lock();
    let before = tcgetattr(terminal)?;
    let mut modes = one_by_one(&before);
    modes.input_modes.remove(InputModes::IXON);
    modes.special_codes[SpecialCodeIndex::VSUSP] = DISABLED;
    let mut own = terminal.try_clone()?;
    tcsetattr(terminal, OptionalActions::Now, &modes)?;
    let entered = own.write_all(ENTER);
    *held = Some(Held { terminal: own, before, leave: LEAVE });
    entered
}

/// Whether keys of this terminal are for us.
pub fn is_foreground(terminal: impl AsFd) -> bool {
    tcgetpgrp(terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// What the view's thread does until it is over, or the terminal is gone.
fn show<S: Scene>(shared: &Shared<S>, terminal: &File, mut scene: S) {
    let start = Instant::now();
    let look = look();
    let mut pressed = Keys::default();
    let mut paper = None;
    let mut due = start;
    // After a panic anywhere the terminal is no longer ours.
    while !shared.over.load(Relaxed) && HELD.lock().is_some() {
        let sent = match wait(shared, terminal, due.saturating_duration_since(Instant::now())) {
            Ok(sent) => sent,
            Err(_) => return restore(),
        };
        for key in pressed.of(&sent) {
            match key {
                b'q' | b'Q' => interrupt(),
                CTRL_L => paper = None,
                CTRL_Z => {
                    suspend(shared, terminal);
                    paper = None;
                }
                _ => {}
            }
        }
        let now = Instant::now();
        if now < due || shared.over.load(Relaxed) {
            continue;
        }
        due = now + BETWEEN;
        let news = std::mem::take(&mut *shared.news.lock());
        let log = LOG.lock().as_mut().map(|log| std::mem::take(&mut log.fresh)).unwrap_or_default();
        scene.hear(news, log, start.elapsed());
        let Some(paper) = Paper::of(&mut paper, size(terminal)) else { return restore() };
        if paper.terminal.draw(|frame| scene.draw(frame, look)).is_err() {
            return restore();
        }
    }
}

/// Sleeps until the terminal sends something, which is returned, the bell rings, or it is time. An error
/// means that the terminal is gone.
fn wait<S: Scene>(shared: &Shared<S>, terminal: &File, timeout: Duration) -> io::Result<Vec<u8>> {
    let mut ready =
        [PollFd::new(terminal, PollFlags::IN), PollFd::from_borrowed_fd(shared.bell.as_fd(), PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.min(BETWEEN).subsec_nanos().into() };
    match poll(&mut ready, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let terminal_says = ready[0].revents();
    if terminal_says.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::ErrorKind::NotConnected.into());
    }
    if !terminal_says.contains(PollFlags::IN) {
        return Ok(Vec::new());
    }
    if !is_foreground(terminal) {
        // Another job's keys, which stay there: they must not wake us again and again.
        std::thread::sleep(BETWEEN);
        return Ok(Vec::new());
    }
    let mut sent = vec![0; 64];
    let count = rustix::io::read(terminal, &mut sent)?;
    if count == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    sent.truncate(count);
    Ok(sent)
}

/// As the terminal does it for Ctrl-C: all of the job in the foreground hears it.
fn interrupt() {
    let _ = rustix::process::kill_current_process_group(Signal::INT);
}

/// Gives the terminal to whoever started us, stops as Ctrl-Z does, and takes it again when we are in the
/// foreground again.
fn suspend<S: Scene>(shared: &Shared<S>, terminal: &File) {
    restore();
    let _ = rustix::process::kill_current_process_group(Signal::TSTP);
    loop {
        // The signal may take a moment until it has stopped all threads.
        std::thread::sleep(BETWEEN);
        if shared.over.load(Relaxed) {
            return;
        }
        if is_foreground(terminal) {
            // One that is not to be had is found gone at the next picture.
            let _ = enter(terminal);
            return;
        }
    }
}

/// What is drawn on: pictures of one size.
struct Paper {
    size: (u16, u16),
    terminal: Terminal<CrosstermBackend<Sheet>>,
}

impl Paper {
    /// The same, or a fresh one where the size is another.
    fn of(paper: &mut Option<Paper>, size: (u16, u16)) -> Option<&mut Paper> {
        if paper.as_ref().is_none_or(|paper| paper.size != size) {
            let mut sheet = Sheet(Vec::new());
            // What another size left there.
            sheet.0.extend_from_slice(b"\x1b[0m\x1b[2J");
            let viewport = Viewport::Fixed(Rect::new(0, 0, size.0, size.1));
            let terminal = Terminal::with_options(CrosstermBackend::new(sheet), TerminalOptions { viewport });
            *paper = terminal.ok().map(|terminal| Paper { size, terminal });
        }
        paper.as_mut()
    }
}

/// A picture on its way: it goes out in one piece, and only while the terminal is ours.
struct Sheet(Vec<u8>);

impl Write for Sheet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let drawn = match HELD.lock().as_mut() {
            Some(held) => held.terminal.write_all(&self.0),
            None => Ok(()),
        };
        self.0.clear();
        drawn
    }
}

/// Columns and rows; a terminal that does not know its size is taken for a usual one.
fn size(terminal: &File) -> (u16, u16) {
    match tcgetwinsize(terminal) {
        // Larger ones, which a broken terminal may claim, would cost memory.
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.min(1000), size.ws_row.min(500)),
        _ => (80, 24),
    }
}

/// Blocks where the locale's letters are UTF-8.
fn look() -> Look {
    let set =
        ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(std::env::var_os).find(|value| !value.is_empty());
    let name = set.unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    Look { colour: terminal::colours(&io::stdout()), blocks: name.contains("utf-8") || name.contains("utf8") }
}
