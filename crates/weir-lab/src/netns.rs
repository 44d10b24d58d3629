//! A network namespace without a name: it lives as long as something holds it, so that a crash leaves nothing
//! behind.

pub mod interface;
mod netlink;

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread::{self, JoinHandle};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::error::LabError;
use crate::slow_error::write_setting;

/// A network namespace of this process.
#[derive(Debug)]
pub struct Namespace {
    /// /proc/PID/task/TID/ns/net of a thread that was in it.
    handle: OwnedFd,
}

impl Namespace {
    /// Makes one; its loopback interface is up.
    pub fn new() -> Result<Namespace, LabError> {
        let made = in_thread(|| {
            // SAFETY: NEWNET changes nothing about the file descriptors of this thread.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            File::open("/proc/thread-self/ns/net")
        });
        let handle = made.map_err(|cause| LabError::Refused {
            attempt: "cannot make a network namespace".to_owned(),
            cause,
            way_out: crate::privilege::way_out(),
        })?;
        let namespace = Namespace { handle: handle.into() };
        namespace.run(|| interface::up("lo"))??;
        Ok(namespace)
    }

    /// Runs `work` on a thread inside the namespace and waits for it.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        in_thread(|| {
            self.join()?;
            Ok(work())
        })
        .map_err(LabError::system("cannot enter a network namespace"))
    }

    /// Starts a thread inside the namespace.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, LabError> {
        let attempt = "cannot start a thread in a network namespace";
        let handle = self.handle.try_clone().map_err(LabError::system(attempt))?;
        let (report, entered) = std::sync::mpsc::sync_channel(1);
        let thread = thread::spawn(move || {
            let joined = join(&handle);
            let inside = joined.is_ok();
            // The receiver waits below.
            let _ = report.send(joined);
            inside.then(work)
        });
        entered
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("its thread ended")))
            .map_err(LabError::system(attempt))?;
        // Another thread only to take the value out of its Option would cost more than this one line
        // explains.
        Ok(thread::spawn(move || match thread.join() {
            Ok(Some(value)) => value,
            Ok(None) => unreachable!("the thread said that it is inside"),
            Err(panic) => std::panic::resume_unwind(panic),
        }))
    }

    /// Makes the child that `command` starts begin its life inside the namespace.
    pub fn enter(&self, command: &mut Command) -> Result<(), LabError> {
        let handle = self.handle.try_clone().map_err(LabError::system("cannot share a network namespace"))?;
        // SAFETY: the closure only makes one system call, setns, which is allowed between fork and exec.
        unsafe { command.pre_exec(move || join(&handle)) };
        Ok(())
    }

    /// Sets a value of this namespace: `name` is one of net.*, with dots.
    pub fn set_sysctl(&self, name: &str, value: &str) -> Result<(), LabError> {
        let written = if name.starts_with("net.") && !name.contains('/') {
            // As sysctl(8) has it: dots separate folders.
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            self.run(|| write_setting(path.as_ref(), value))?
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "only net.* belongs to a namespace"))
        };
        written.map_err(|cause| LabError::Sysctl {
            name: name.to_owned(),
            value: value.to_owned(),
            cause,
            way_out: crate::congestion::advice(name),
        })
    }

    /// Reads a value of this namespace.
    pub fn sysctl(&self, name: &str) -> Result<String, LabError> {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let read = self.run(|| fs::read_to_string(&path))?;
        read.map(|text| text.trim().to_owned()).map_err(LabError::system(format!("cannot read {name}")))
    }

    fn join(&self) -> io::Result<()> {
        join(&self.handle)
    }
}

fn join(handle: &OwnedFd) -> io::Result<()> {
    Ok(move_into_link_name_space(handle.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Runs `work` on a thread of its own, whose namespace it may change.
fn in_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("weir-netns".to_owned()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
