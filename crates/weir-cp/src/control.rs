//! The control connection's writing end, shared by all threads of an end. What is said on it goes through
//! an [`Outlet`], which lets messages of one direction out.

use std::fmt;
use std::io::{self, IoSlice, Write};
use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

use crate::wire::frame::{self, Kind};
use crate::wire::messages::Message;
use crate::wire::record::HEADER;

/// Writes frames, one at a time.
pub struct Control {
    out: Mutex<Option<Box<dyn Write + Send>>>,
}

/// Where whoever says messages of this direction says them.
pub struct Outlet<M> {
    control: Arc<Control>,
    says: PhantomData<fn(M)>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Control")
    }
}

impl Control {
    /// Over `out`.
    pub fn new(out: impl Write + Send + 'static) -> Control {
        Control { out: Mutex::new(Some(Box::new(out))) }
    }

    /// Over two others: what is said goes to both, to `first` first.
    pub fn both(first: Arc<Control>, second: Arc<Control>) -> Control {
        Control::new(Both(first, second))
    }

    /// Sends a lane's record.
    pub(crate) fn send_record(&self, header: &[u8; HEADER], sealed: &[u8]) -> io::Result<()> {
        let head = frame::head(Kind::Record, HEADER + sealed.len());
        self.write(|out| {
            out.write_all(&[&head[..], &header[..]].concat())?;
            out.write_all(sealed)
        })
    }

    /// Forwards a frame as it came.
    pub fn forward(&self, kind: Kind, body: &[u8]) -> io::Result<()> {
        let head = frame::head(kind, body.len());
        self.write(|out| {
            out.write_all(&head)?;
            out.write_all(body)
        })
    }

    /// Nothing more is sent: the other end reads its end.
    pub fn close(&self) {
        *self.lock() = None;
    }

    fn write(&self, action: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let mut out = self.lock();
        let written = match out.as_mut() {
            Some(out) => action(out).and_then(|()| out.flush()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        // What was cut off in the middle of a frame cannot be gone on with, and nobody else is to wait for
        // it.
        if written.is_err() {
            *out = None;
        }
        written
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Write + Send>>> {
        self.out.lock()
    }
}

impl<M: Message + Serialize> Outlet<M> {
    /// On this connection.
    pub fn new(control: &Arc<Control>) -> Outlet<M> {
        Outlet { control: Arc::clone(control), says: PhantomData }
    }

    /// The connection, for what is no message.
    pub fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// Sends a message. A connection that broke is noticed by whoever reads from it; nobody else need care.
    pub fn send(&self, message: &M) {
        if let Err(error) = self.try_send(message) {
            tracing::debug!("control: {error}");
        }
    }

    /// Sends a message, and says how that went.
    pub(crate) fn try_send(&self, message: &M) -> io::Result<()> {
        let frame = frame::to_frame(message);
        self.control.write(|out| out.write_all(&frame))
    }
}

impl<M> Clone for Outlet<M> {
    fn clone(&self) -> Outlet<M> {
        Outlet { control: Arc::clone(&self.control), says: PhantomData }
    }
}

impl<M> fmt::Debug for Outlet<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outlet")
    }
}

/// Two control connections that hear the same. A frame that is written at once stays whole among theirs.
struct Both(Arc<Control>, Arc<Control>);

impl Write for Both {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let [first, second] = [&self.0, &self.1].map(|control| control.write(|out| out.write_all(bytes)));
        // One that broke keeps nothing from the other.
        first.and(second).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        self.0.close();
        self.1.close();
    }
}

/// Writes all of both slices, in one system call where the kernel takes it.
pub(crate) fn write_both(out: &mut impl Write, first: &[u8], second: &[u8]) -> io::Result<()> {
    let mut slices = [IoSlice::new(first), IoSlice::new(second)];
    let mut slices = &mut slices[..];
    while !slices.is_empty() {
        match out.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
