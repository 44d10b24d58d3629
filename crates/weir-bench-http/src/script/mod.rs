//! Scripts of wrk's Lua interface, unchanged: setup, init, delay, request, response, done.
//!
//! One Lua state a thread, and one in which `setup` and `done` run; the script is executed in each. Lua is
//! LuaJIT with all its libraries, as in wrk: a script is its user's own program and may do what its user may.

mod spectrum;
mod state;
mod values;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use mlua::{Function, Lua, Table, Value};
use parking_lot::Mutex;

use crate::answer::{self, Kept};
use crate::error::LoadError;
use crate::settings::ScriptSettings;
use crate::tally::Errors;
use crate::target::{Address, Target};

pub use spectrum::Spectrum;
use state::{LuaState, ThreadHandle};

/// The longest `delay()`: beyond it the arithmetic of times would end.
const LONGEST_DELAY: f64 = 86_400_000.0;

/// A script, loaded in its main state.
#[derive(Debug)]
pub(crate) struct Script {
    main: Lua,
    settings: ScriptSettings,
    target: Target,
    /// The threads' states after the run: `done()` may ask them.
    threads: Vec<ScriptThread>,
}

/// What `done()` is told.
#[derive(Debug, Clone)]
pub(crate) struct Summary {
    pub(crate) duration: Duration,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) errors: Errors,
    pub(crate) latency: Spectrum,
    pub(crate) rates: Spectrum,
}

impl Script {
    /// Executes the file in the main state, and resolves the host unless its addresses are known
    /// (`--resolve`, a Unix socket).
    pub(crate) fn load(
        settings: &ScriptSettings,
        target: &Target,
        known: &[Address],
    ) -> Result<Script, LoadError> {
        let main = state::create(settings, target)?.lua;
        let script = Script { main, settings: settings.clone(), target: target.clone(), threads: Vec::new() };
        let wrk = script.wrk(&script.main)?;
        match known {
            [] => {
                let resolve: Function = wrk.get("resolve").map_err(script.said())?;
                resolve.call::<()>((target.host.as_str(), target.effective_port())).map_err(script.said())?;
                let found: Table = wrk.get("addrs").map_err(script.said())?;
                if found.raw_len() == 0 {
                    // Once more, for the reason.
                    let addresses = target.resolve()?;
                    let first = crate::target::first_reachable(target, &addresses, Duration::from_secs(5))?;
                    found.push(state::Addr(first)).map_err(script.said())?;
                }
            }
            // Only those where somebody is, as wrk.resolve has it.
            known => {
                let first = crate::target::first_reachable(target, known, Duration::from_secs(5))?;
                let addrs = script.main.create_sequence_from([state::Addr(first)]).map_err(script.said())?;
                wrk.set("addrs", addrs).map_err(script.said())?;
            }
        }
        Ok(script)
    }

    /// Its file.
    pub(crate) fn path(&self) -> &Path {
        &self.settings.path
    }

    /// Makes one thread's state: executes the file in it, then `setup` in the main state and `init` in the
    /// new one.
    pub(crate) fn thread(&self) -> Result<ScriptThread, LoadError> {
        let LuaState { lua, calls } = state::create(&self.settings, &self.target)?;
        let place = Arc::new(Mutex::new(Address::Tcp(([127, 0, 0, 1], 0).into())));
        let stop = Arc::new(AtomicBool::new(false));
        let handle =
            || ThreadHandle { lua: lua.weak(), address: Arc::clone(&place), stop: Arc::clone(&stop) };
        let said = self.said();
        self.wrk(&lua)?.set("thread", handle()).map_err(&said)?;
        let setup: Function = self.wrk(&self.main)?.get("setup").map_err(&said)?;
        setup.call::<()>(handle()).map_err(&said)?;
        let wrk = self.wrk(&lua)?;
        let args = lua.create_table().map_err(&said)?;
        // From 0 on, as wrk counts: `args[0]` is the URL.
        for (index, arg) in std::iter::once(&self.target.url).chain(&self.settings.args).enumerate() {
            args.raw_set(index, arg.as_str()).map_err(&said)?;
        }
        let init: Function = wrk.get("init").map_err(&said)?;
        init.call::<()>(args).map_err(&said)?;
        let globals = lua.globals();
        // Which of them there are is asked once, as in wrk; what they are, at each call.
        let is_there = |name: &str| matches!(globals.get::<Value>(name), Ok(Value::Function(_)));
        let call = |name: &str| calls.get::<Function>(name).map_err(&said);
        let wanted = |name: &str| is_there(name).then(|| call(name)).transpose();
        Ok(ScriptThread {
            path: self.settings.path.clone(),
            dynamic: is_there("request"),
            request: call("request")?,
            response: wanted("response")?,
            delay: wanted("delay")?,
            place,
            stop,
            lua,
        })
    }

    /// Keeps the threads' states for `done()`.
    pub(crate) fn with_threads(mut self, threads: Vec<Option<ScriptThread>>) -> Script {
        self.threads.extend(threads.into_iter().flatten());
        self
    }

    /// Hands on what the scripts printed: it lies in C's buffer, which all states share, and comes before
    /// what is printed afterwards.
    pub(crate) fn flush(&self) {
        // A stdout that is closed is the report's matter.
        let _ = self.main.load("io.stdout:flush()").exec();
    }

    /// Whether the script wants to hear the end's figures.
    pub(crate) fn has_done(&self) -> bool {
        matches!(self.main.globals().get::<Value>("done"), Ok(Value::Function(_)))
    }

    /// Calls `done(summary, latency, requests)`.
    pub(crate) fn done(&self, summary: Summary) -> Result<(), LoadError> {
        let call = || {
            let errors = self.main.create_table()?;
            for (name, count) in [
                ("connect", summary.errors.connect),
                ("read", summary.errors.read),
                ("write", summary.errors.write),
                ("status", summary.errors.status),
                ("timeout", summary.errors.timeout),
            ] {
                errors.set(name, count)?;
            }
            let told = self.main.create_table()?;
            told.set("duration", summary.duration.as_micros() as u64)?;
            told.set("requests", summary.requests)?;
            told.set("bytes", summary.bytes)?;
            told.set("errors", errors)?;
            let done: Function = self.main.globals().get("done")?;
            done.call::<()>((told, summary.latency.clone(), summary.rates.clone()))
        };
        call().map_err(self.said())
    }

    fn wrk(&self, lua: &Lua) -> Result<Table, LoadError> {
        lua.globals().get("wrk").map_err(self.said())
    }

    fn said(&self) -> impl Fn(mlua::Error) -> LoadError + use<> {
        let path = self.settings.path.clone();
        move |error| LoadError::Script(state::words(&error, &path))
    }
}

/// One thread's state of a script.
#[derive(Debug)]
pub(crate) struct ScriptThread {
    path: PathBuf,
    /// The script has a `request()` of its own.
    pub(crate) dynamic: bool,
    request: Function,
    response: Option<Function>,
    delay: Option<Function>,
    place: Arc<Mutex<Address>>,
    stop: Arc<AtomicBool>,
    lua: Lua,
}

impl ScriptThread {
    /// Where `setup()` wants this thread's connections to go.
    pub(crate) fn address(&self) -> Address {
        self.place.lock().clone()
    }

    /// Puts the next request's text into `into`; false where the script has said stop and gives none.
    pub(crate) fn request(&self, into: &mut Vec<u8>) -> Result<bool, LoadError> {
        into.clear();
        let made: Value = self.request.call(()).map_err(|error| self.said(&error))?;
        let kind = made.type_name();
        // As lua_tolstring takes it: a number is its text.
        match self.lua.coerce_string(made).map_err(|error| self.said(&error))? {
            Some(text) => into.extend_from_slice(&text.as_bytes()),
            None if kind == "nil" && self.said_stop() => return Ok(false),
            None => {
                return Err(LoadError::Script(format!(
                    "{}: request() returned {kind} in place of a request's text; end it by 'return wrk.format(...)', \
                     or call wrk.thread:stop() before it returns nothing",
                    self.path.display()
                )));
            }
        }
        Ok(true)
    }

    /// Whether the script has a say in when requests go out.
    pub(crate) fn has_delay(&self) -> bool {
        self.delay.is_some()
    }

    /// Whether answers go to the script.
    pub(crate) fn wants_answers(&self) -> bool {
        self.response.is_some()
    }

    /// Hands an answer to the script.
    pub(crate) fn response(&self, status: u16, kept: &Kept) -> Result<(), LoadError> {
        let Some(response) = &self.response else { return Ok(()) };
        let call = || {
            let fields = self.lua.create_table()?;
            for (name, value) in answer::fields(&kept.head) {
                // The last value of a name wins.
                fields.raw_set(self.lua.create_string(name)?, self.lua.create_string(value)?)?;
            }
            response.call::<()>((status, fields, self.lua.create_string(&kept.body)?))
        };
        call().map_err(|error| self.said(&error))
    }

    /// How long to wait before the next request, if the script has a say in it.
    pub(crate) fn delay(&self) -> Result<Option<Duration>, LoadError> {
        let Some(delay) = &self.delay else { return Ok(None) };
        let millis: Option<f64> = delay.call(()).map_err(|error| self.said(&error))?;
        // Whole milliseconds, as wrk takes them; what is no number of them is no delay.
        let millis = millis.filter(|millis| millis.is_finite()).unwrap_or(0.0).clamp(0.0, LONGEST_DELAY);
        Ok(Some(Duration::from_millis(millis as u64)))
    }

    /// Whether the script called `thread:stop()`.
    pub(crate) fn said_stop(&self) -> bool {
        self.stop.load(Relaxed)
    }

    fn said(&self, error: &mlua::Error) -> LoadError {
        LoadError::Script(state::words(error, &self.path))
    }
}
