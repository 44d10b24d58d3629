//! One command of weir on another host: started by ssh as the far end of a copy is, told its words over that
//! connection and not on a command line, and heard until it has ended. Both ends are the same version of
//! weir.

use std::io::{BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use weir_cp::CopyError;
use weir_cp::hand_over::{self, Purpose};
use weir_cp::overheard::Hears;
use weir_cp::ssh::{Far, Host};

use super::wire::{self, FleetMessage};

/// Words of a command, and bytes of all of them together: fields of a request take 1 MiB at most.
const MAX_WORDS: usize = 1024;
const MAX_TO_COMMAND: usize = 4 << 20;

/// Bytes of a message of the command: its record.
const MAX_FROM_COMMAND: usize = 16 << 20;

/// Bytes of a file's name (NAME_MAX).
const MAX_NAME: usize = 255;

/// Between two words of the command on how far it is.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// A command that says nothing for so long is lost.
const SILENT: Duration = Duration::from_secs(10);

/// How often a wait looks for a signal.
const TICK: Duration = Duration::from_millis(50);

/// Between two signs of life of the one who started it, whom the far end takes for gone after a minute.
const ALIVE: Duration = Duration::from_secs(6);

/// How long a command may take to end once it is to.
const STOPS: Duration = Duration::from_secs(5);

/// A command, and where what it brings is to lie.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOrder {
    /// Its words. They may hold secrets, so nothing prints them.
    pub words: Vec<String>,
    /// The target as the user wrote it: a file, or a folder.
    pub path: String,
    /// What the file is called in the folder.
    pub name: Option<String>,
    /// Folders on the way to it are made.
    pub makes_folders: bool,
}

/// How far a command is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CommandLook {
    /// Bytes that are there.
    pub bytes: u64,
    /// Of how many, if that is known.
    pub total: Option<u64>,
    /// Bytes per second.
    pub rate: f64,
    /// Connections.
    pub connections: u32,
}

/// The file that a command writes, once another process may follow it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandFile {
    /// What it will be called.
    pub name: String,
    /// The target is a folder, and it will be in that.
    pub is_folder: bool,
}

/// What a command says before its end.
#[derive(Debug)]
pub enum CommandNews<'a> {
    /// How far it is.
    Look(&'a CommandLook),
    /// It writes this file.
    Grows(&'a CommandFile),
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandEnd {
    /// Its exit code.
    pub code: u8,
    /// What `--json` would print.
    pub record: Option<String>,
    /// What it would say of a failure.
    pub error: Option<String>,
    /// The target is a folder.
    pub is_folder: bool,
}

/// To a command.
#[derive(Serialize, Deserialize)]
pub enum ToCommand {
    /// The first one.
    Begin(CommandOrder),
    /// End; what can be resumed is kept.
    Stop,
    /// Somebody is there.
    Alive,
}

/// To the one who started it.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromCommand {
    /// It is there, and this far once something moves.
    Look(Option<CommandLook>),
    /// The last one.
    Ended(CommandEnd),
    /// What it writes; once.
    Grows(CommandFile),
}

impl FleetMessage for ToCommand {
    const MAX: usize = MAX_TO_COMMAND;

    fn is_sound(&self) -> bool {
        match self {
            ToCommand::Begin(order) => order.words.len() <= MAX_WORDS,
            ToCommand::Stop | ToCommand::Alive => true,
        }
    }
}

impl FleetMessage for FromCommand {
    const MAX: usize = MAX_FROM_COMMAND;

    fn is_sound(&self) -> bool {
        match self {
            FromCommand::Look(look) => look.is_none_or(|look| look.rate.is_finite() && look.rate >= 0.0),
            FromCommand::Grows(file) => file.name.len() <= MAX_NAME,
            FromCommand::Ended(_) => true,
        }
    }
}

/// Runs a command on `host` and waits for its end. `stop` is the user's wish to end it: then its end is
/// waited for, for 5 s.
///
/// # Errors
/// Whatever keeps ssh, or weir there, from running; [`CopyError::Lost`] where the host is lost meanwhile.
pub fn run(
    (host, version): (&Host, &str),
    order: CommandOrder,
    stop: &AtomicBool,
    hears: Hears,
    news: &mut dyn FnMut(CommandNews<'_>),
) -> Result<CommandEnd, CopyError> {
    let (cut, over): (Arc<AtomicBool>, AtomicBool) = Default::default();
    let far = std::thread::scope(|scope| {
        // Until the host is up there is nothing to keep.
        let watch = || {
            while !over.load(Relaxed) {
                if stop.load(Relaxed) {
                    cut.store(true, Relaxed);
                }
                std::thread::sleep(TICK);
            }
        };
        let watching = std::thread::Builder::new().name("stop".to_owned()).spawn_scoped(scope, watch);
        let far = watching
            .map_err(|source| CopyError::Threads { source })
            .and_then(|_| hand_over::start(host, version, Purpose::Command, &cut, hears));
        over.store(true, Relaxed);
        far
    });
    attend(far?, host, order, (stop, &cut), news)
}

/// Tells it what is to be done, and hears it to its end.
fn attend(
    mut far: Far,
    host: &Host,
    order: CommandOrder,
    (stop, cut): (&AtomicBool, &AtomicBool),
    news: &mut dyn FnMut(CommandNews<'_>),
) -> Result<CommandEnd, CopyError> {
    let lost = |why: &str| CopyError::Lost { host: host.shown().to_owned(), why: Some(why.to_owned()) };
    let (Some(mut input), Some(output)) = (far.input.take(), far.output.take()) else {
        return Err(lost("its connection is closed"));
    };
    let broke = |error: std::io::Error| lost(&weir_units::plain(&error));
    wire::write(&mut input, &ToCommand::Begin(order)).map_err(broke)?;
    let (tell, said) = channel();
    let listener = std::thread::Builder::new().name("command".to_owned());
    let _listening =
        listener.spawn(move || hear(output, &tell)).map_err(|source| CopyError::Threads { source })?;
    let (mut heard, mut told, mut stopping) = (Instant::now(), Instant::now(), None::<Instant>);
    let ended = loop {
        match said.recv_timeout(TICK) {
            Ok(Ok(FromCommand::Look(now))) => {
                heard = Instant::now();
                now.iter().for_each(|now| news(CommandNews::Look(now)));
            }
            Ok(Ok(FromCommand::Grows(file))) => {
                heard = Instant::now();
                news(CommandNews::Grows(&file));
            }
            Ok(Ok(FromCommand::Ended(end))) => break Ok(end),
            Ok(Err(why)) => break Err(why),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break Err("its connection is closed".to_owned()),
        }
        if stop.load(Relaxed) && stopping.is_none() {
            stopping = Some(Instant::now());
            drop(wire::write(&mut input, &ToCommand::Stop));
        }
        if stopping.is_some_and(|since| since.elapsed() > STOPS) {
            cut.store(true, Relaxed);
            return Err(CopyError::Interrupted);
        }
        if heard.elapsed() > SILENT {
            cut.store(true, Relaxed);
            break Err("it stopped answering".to_owned());
        }
        if told.elapsed() > ALIVE {
            told = Instant::now();
            // A connection that breaks is noticed by whoever reads from it.
            drop(wire::write(&mut input, &ToCommand::Alive));
        }
    };
    drop(input);
    ended.map_err(|why| match far.last_words() {
        Some(words) => lost(&format!("{why}; it said: {words}")),
        None => lost(&why),
    })
}

/// Hands on what a command says.
fn hear(mut output: impl Read, tell: &Sender<Result<FromCommand, String>>) {
    loop {
        let said = match wire::read(&mut output) {
            Ok(Some(said)) => Ok(said),
            Ok(None) => Err("weir was killed there, or its connection closed".to_owned()),
            Err(error) => Err(weir_units::plain(&error)),
        };
        let is_last = !matches!(said, Ok(FromCommand::Look(_) | FromCommand::Grows(_)));
        if tell.send(said).is_err() || is_last {
            return;
        }
    }
}

/// The command's end of the connection.
pub struct CommandLine<W> {
    out: Arc<Mutex<W>>,
    over: Arc<AtomicBool>,
}

impl<W: Write + Send + 'static> CommandLine<W> {
    /// Hears what is to be done, and listens from there on: `stop` is called once nobody wants it any more,
    /// `look` tells how far it is, if that is news, and `grows` what it writes, once that is known.
    ///
    /// # Errors
    /// In words.
    pub fn open<R: Read + Send + 'static>(
        mut input: BufReader<R>,
        output: W,
        stop: impl Fn() + Send + 'static,
        look: impl Fn() -> Option<CommandLook> + Send + 'static,
        grows: impl Fn() -> Option<CommandFile> + Send + 'static,
    ) -> Result<(CommandLine<W>, CommandOrder), String> {
        let order = match wire::read(&mut input) {
            Ok(Some(ToCommand::Begin(order))) => order,
            Ok(Some(_)) => return Err("something was said before what is to be done".to_owned()),
            Ok(None) => return Err("whoever started this command is gone".to_owned()),
            Err(error) => return Err(weir_units::plain(&error)),
        };
        let (out, over) = (Arc::new(Mutex::new(output)), Arc::new(AtomicBool::new(false)));
        let start = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
            started.map(drop).map_err(|error| format!("cannot start a thread: {}", weir_units::plain(&error)))
        };
        start(
            "driver",
            Box::new(move || {
                // Whatever else is said, and its end, mean the same.
                while let Ok(Some(ToCommand::Alive)) = wire::read(&mut input) {}
                stop();
                // Its streams stay open: what ends the process is the end of the command.
                while let Ok(Some(_)) = wire::read::<ToCommand>(&mut input) {}
            }),
        )?;
        let (says, ends) = (Arc::clone(&out), Arc::clone(&over));
        start(
            "look",
            Box::new(move || {
                let mut told = false;
                while !ends.load(Relaxed) {
                    let grows = if told { None } else { grows() };
                    let mut out = says.lock();
                    let mut say = |said| !ends.load(Relaxed) && wire::write(&mut *out, &said).is_ok();
                    told |= grows.is_some();
                    if !grows.is_none_or(|file| say(FromCommand::Grows(file)))
                        || !say(FromCommand::Look(look()))
                    {
                        return;
                    }
                    drop(out);
                    std::thread::sleep(LOOK_INTERVAL);
                }
            }),
        )?;
        Ok((CommandLine { out, over }, order))
    }

    /// The last words; whether they went out.
    pub fn end(&self, end: CommandEnd) -> bool {
        let mut out = self.out.lock();
        self.over.store(true, Relaxed);
        wire::write(&mut *out, &FromCommand::Ended(end)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> CommandOrder {
        let words = ["get", "http://host/x"].map(str::to_owned).to_vec();
        CommandOrder { words, path: "data/".to_owned(), name: None, makes_folders: true }
    }

    #[test]
    fn a_command_is_told_and_tells() {
        let mut told = Vec::new();
        wire::write(&mut told, &ToCommand::Begin(order())).unwrap();
        let (stopped, stops) = channel();
        let input = BufReader::new(std::io::Cursor::new(told));
        let (line, heard) =
            CommandLine::open(input, Vec::new(), move || stopped.send(()).unwrap(), || None, || None)
                .unwrap();
        assert!(heard == order());
        stops.recv().unwrap();
        let end = CommandEnd { code: 3, record: None, error: Some("no".to_owned()), is_folder: false };
        assert!(line.end(end.clone()));
        let (tell, said) = channel();
        let bytes = line.out.lock().clone();
        hear(&bytes[..], &tell);
        drop(tell);
        let last = said.iter().last().unwrap();
        assert!(matches!(last, Ok(FromCommand::Ended(heard)) if heard == end));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let many = CommandOrder { words: vec![String::new(); MAX_WORDS + 1], ..order() };
        assert!(!ToCommand::Begin(many).is_sound());
        let look = CommandLook { bytes: 1, total: None, rate: f64::NAN, connections: 1 };
        assert!(!FromCommand::Look(Some(look)).is_sound());
        let file = |name: String| FromCommand::Grows(CommandFile { name, is_folder: true });
        assert!(file("x".repeat(MAX_NAME)).is_sound() && !file("x".repeat(MAX_NAME + 1)).is_sound());
        let open = |bytes: Vec<u8>| {
            let input = BufReader::new(std::io::Cursor::new(bytes));
            CommandLine::open(input, Vec::new(), || {}, || None, || None).map(drop)
        };
        let mut stop = Vec::new();
        wire::write(&mut stop, &ToCommand::Stop).unwrap();
        for (bytes, why) in
            [(Vec::new(), "gone"), (stop, "before what is to be done"), (vec![1; 3], "whole buffer")]
        {
            let error = open(bytes).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
