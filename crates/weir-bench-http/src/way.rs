//! Connections that take more than a connect: someone else makes them (through a proxy, from an interface),
//! blocking, on a thread beside the loop that waits for it.
//!
//! A thread for each connection: a kept one is made once in a run, and a proxy that is asked for another
//! connection for each request costs round trips beside which a thread's start (20 us) is nothing.

use std::fmt::Debug;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Makes connections to one server.
pub trait Way: Debug + Send + Sync {
    /// A connection to the server, ready for TLS or for a request, within `timeout`.
    fn dial(&self, timeout: Duration) -> io::Result<TcpStream>;

    /// Where the sockets lead, for a message: `h:80`, `the proxy p:3128`.
    fn place(&self) -> String;

    /// What stands between, as in "it is behind SOCKS": the process at the other end of the socket is not the
    /// server then.
    fn hides_server(&self) -> Option<String>;
}

/// A proxy did not connect, and said why: the inner error of an [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ProxyFailure(pub String);

/// What threads of connections may need: a resolver's modules have stacks of their own.
const STACK: usize = 512 << 10;

/// Dials on a thread of its own, which hands the result to `done`.
pub(crate) fn dial_beside(
    way: &Arc<dyn Way>,
    timeout: Duration,
    done: impl FnOnce(io::Result<TcpStream>) + Send + 'static,
) -> io::Result<()> {
    let way = Arc::clone(way);
    let builder = std::thread::Builder::new().name("dial".to_owned()).stack_size(STACK);
    builder.spawn(move || done(way.dial(timeout))).map(drop)
}

/// Dials once, to know whether somebody is there, and where the socket leads.
pub(crate) fn try_way(way: &Arc<dyn Way>, timeout: Duration) -> io::Result<SocketAddr> {
    way.dial(timeout)?.peer_addr()
}
