//! The native half of the Python module `weir`: runs weir's commands in a thread of their own, while the one
//! that called waits without the interpreter's lock, listens to Python's signals and tells of the progress.
//! Names, types and exceptions are python/weir's.

use std::any::Any;
use std::ffi::OsString;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use weir::library::{self, Described, Handle};

/// How often signals are looked for: a person does not notice a twentieth of a second.
const LISTEN: Duration = Duration::from_millis(50);

/// The least time between two calls of `progress`: ten a second, and one more at the end.
const BETWEEN: Duration = Duration::from_millis(100);

/// The stack of a program's main thread on Linux, in which the commands run otherwise.
const STACK: usize = 8 << 20;

/// What a command came to: exit code, record, what is said of a failure, and what a signal handler or
/// `progress` raised meanwhile.
type Came = (u8, Option<String>, Option<String>, Option<Py<PyAny>>);

/// The version of an object: ETag or None, Last-Modified or None.
type Version = (Option<String>, Option<String>);

/// Runs a command of weir, `get`, `put` or `why`, by its words. `progress` is called with a tuple: seconds,
/// bytes, all bytes or None, bytes a second, connections, files finished, files, limit or None. A `get`
/// brings no other `version` than this.
#[pyfunction]
#[pyo3(signature = (words, progress=None, version=None))]
fn run(
    py: Python<'_>,
    words: Vec<OsString>,
    progress: Option<Py<PyAny>>,
    version: Option<Version>,
) -> PyResult<Came> {
    let handle = Arc::new(Handle::default());
    let known = version.map(|(etag, modified)| Described { etag, modified, ..Described::default() });
    let work = move |handle: &Handle| library::run(&words, known.as_ref(), handle);
    let (ended, raised) = while_it_runs(py, &handle, progress.as_ref(), work)?;
    Ok((ended.code, ended.record, ended.error, raised))
}

/// What a server says of an object: size or None, ETag or None, Last-Modified or None, whether it has ranges.
type Facts = (Option<u64>, Option<String>, Option<String>, bool);

/// Asks what the server says of the one object that the words of a `get` name. Returns as [`run`] does, with
/// what was said in place of the record; None without an error where there is no such object.
#[pyfunction]
fn describe(
    py: Python<'_>,
    words: Vec<OsString>,
) -> PyResult<(u8, Option<Facts>, Option<String>, Option<Py<PyAny>>)> {
    let handle = Arc::new(Handle::default());
    let look = move |handle: &Handle| library::describe(&words, handle);
    let (said, raised) = while_it_runs(py, &handle, None, look)?;
    let facts = |said: Described| (said.size, said.etag, said.modified, said.has_ranges);
    Ok(match said {
        Ok(said) => (0, said.map(facts), None, raised),
        Err(ended) => (ended.code, None, ended.error, raised),
    })
}

/// Does `work` in a thread of its own. Returns its outcome, and what was raised meanwhile; an error where
/// that was raised twice, or there is no outcome.
fn while_it_runs<T: Send + 'static>(
    py: Python<'_>,
    handle: &Arc<Handle>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&Handle) -> T + Send + 'static,
) -> PyResult<(T, Option<Py<PyAny>>)> {
    let ended = start(handle, work)?;
    let mut told = Instant::now();
    let mut raised: Option<PyErr> = None;
    let ended = loop {
        if let Some(ended) = py.detach(|| wait(&ended)) {
            break ended.map_err(PyRuntimeError::new_err)?;
        }
        if let Err(error) = py.check_signals() {
            // Whoever asks twice does not want to wait; the thread comes to its end without being waited for.
            if raised.is_some() {
                return Err(error);
            }
            handle.stop();
            raised = Some(error);
        }
        let is_due = raised.is_none() && told.elapsed() >= BETWEEN;
        if let Some(progress) = progress.filter(|_| is_due)
            && let Some(error) = tell(py, progress, handle, &mut told)
        {
            handle.stop();
            raised = Some(error);
        }
    };
    if let Some(progress) = progress.filter(|_| raised.is_none()) {
        raised = tell(py, progress, handle, &mut told);
    }
    Ok((ended, raised.map(|error| error.into_value(py).into_any())))
}

/// How the work of a thread ends. Behind a lock, since PyO3 lets no channel into what waits without the
/// interpreter's; nobody else takes it.
type Ending<T> = Mutex<Receiver<Result<T, String>>>;

/// Starts `work` in a thread; its outcome is received, or the text of its panic.
fn start<T: Send + 'static>(
    handle: &Arc<Handle>,
    work: impl FnOnce(&Handle) -> T + Send + 'static,
) -> PyResult<Ending<T>> {
    let (sender, receiver) = mpsc::channel();
    let handle = Arc::clone(handle);
    let guarded = move || {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&handle)));
        // Nobody listens any more after a second signal.
        let _ = sender.send(ended.map_err(|panic| panic_words(&*panic)));
    };
    let thread = std::thread::Builder::new().name("weir".to_owned()).stack_size(STACK).spawn(guarded);
    thread.map_err(|error| PyRuntimeError::new_err(format!("cannot start a thread: {error}")))?;
    Ok(Mutex::new(receiver))
}

/// The outcome, if it comes soon.
fn wait<T>(ended: &Ending<T>) -> Option<Result<T, String>> {
    match ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LISTEN) {
        Ok(ended) => Some(ended),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(Err("internal error: its thread has gone".to_owned())),
    }
}

fn panic_words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("internal error: {}; please report it with this line", text.unwrap_or("a panic"))
}

/// Calls `progress`, if there is news. Returns what that raised.
fn tell(py: Python<'_>, progress: &Py<PyAny>, handle: &Handle, told: &mut Instant) -> Option<PyErr> {
    let look = handle.news()?;
    *told = Instant::now();
    let (done, files) = look.files;
    let tuple = (look.elapsed, look.bytes, look.total, look.rate, look.connections, done, files, look.limit);
    progress.call1(py, (tuple,)).err()
}

/// The page of `weir report` of a record.
#[pyfunction]
fn page(py: Python<'_>, record: &str) -> PyResult<String> {
    py.detach(|| library::page(record)).map_err(PyValueError::new_err)
}

/// Sends weir's log to stderr from now on.
#[pyfunction]
fn log_to_stderr(verbose: u8) {
    library::log_to_stderr(verbose);
}

/// The module.
#[pymodule]
fn _weir(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("version", library::VERSION)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(describe, module)?)?;
    module.add_function(wrap_pyfunction!(page, module)?)?;
    module.add_function(wrap_pyfunction!(log_to_stderr, module)?)
}
