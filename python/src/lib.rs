//! The native half of the Python module `weir`: runs weir's commands in a thread of their own, while the one
//! that called waits without the interpreter's lock, listens to Python's signals and tells of the progress.
//! Names, types and exceptions are python/weir's.

use std::any::Any;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use weir::library::{self, Ended, Handle};

/// How often signals are looked for: a person does not notice a twentieth of a second.
const LISTEN: Duration = Duration::from_millis(50);

/// The least time between two calls of `progress`: ten a second, and one more at the end.
const BETWEEN: Duration = Duration::from_millis(100);

/// The stack of a program's main thread on Linux, in which the commands run otherwise.
const STACK: usize = 8 << 20;

/// What a command came to: exit code, record, what is said of a failure, and what a signal handler or
/// `progress` raised meanwhile.
type Came = (u8, Option<String>, Option<String>, Option<Py<PyAny>>);

/// A thread's end: the command's, or the text of a panic.
type Outcome = Result<Ended, String>;

/// Runs a command of weir, `get`, `put` or `why`, by its words. `progress` is called with a tuple: seconds,
/// bytes, all bytes or None, bytes a second, connections, files finished, files, limit or None.
#[pyfunction]
#[pyo3(signature = (words, progress=None))]
fn run(py: Python<'_>, words: Vec<OsString>, progress: Option<Py<PyAny>>) -> PyResult<Came> {
    let handle = Arc::new(Handle::default());
    let ended = start(words, &handle)?;
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
        if let Some(progress) = progress.as_ref().filter(|_| is_due)
            && let Some(error) = tell(py, progress, &handle, &mut told)
        {
            handle.stop();
            raised = Some(error);
        }
    };
    if let Some(progress) = progress.as_ref().filter(|_| raised.is_none()) {
        raised = tell(py, progress, &handle, &mut told);
    }
    let raised = raised.map(|error| error.into_value(py).into_any());
    Ok((ended.code, ended.record, ended.error, raised))
}

/// Starts the command in a thread; what it comes to is received.
fn start(words: Vec<OsString>, handle: &Arc<Handle>) -> PyResult<Receiver<Outcome>> {
    let (sender, receiver) = mpsc::channel();
    let handle = Arc::clone(handle);
    let work = move || {
        let work = std::panic::AssertUnwindSafe(|| library::run(&words, &handle));
        let ended = std::panic::catch_unwind(work).map_err(|panic| panic_words(&*panic));
        // Nobody listens any more after a second signal.
        let _ = sender.send(ended);
    };
    let thread = std::thread::Builder::new().name("weir".to_owned()).stack_size(STACK).spawn(work);
    thread.map_err(|error| PyRuntimeError::new_err(format!("cannot start a thread: {error}")))?;
    Ok(receiver)
}

/// What the command came to, if it ends soon.
fn wait(ended: &Receiver<Outcome>) -> Option<Outcome> {
    match ended.recv_timeout(LISTEN) {
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
    let tuple =
        (look.elapsed, look.bytes, look.total, look.rate, look.connections, done, files, look.limit);
    progress.call1(py, (tuple,)).err()
}

/// The page of `weir report` of a record, called `name`.
#[pyfunction]
fn page(py: Python<'_>, record: &str, name: &str) -> PyResult<String> {
    py.detach(|| library::page(record, name)).map_err(PyValueError::new_err)
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
    module.add_function(wrap_pyfunction!(page, module)?)?;
    module.add_function(wrap_pyfunction!(log_to_stderr, module)?)
}
