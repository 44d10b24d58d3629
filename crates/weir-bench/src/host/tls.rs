//! What does a TLS handshake cost, in time and on this end's processor?
//!
//! Full handshakes without a word of earlier ones, then resumed ones. The time runs from the ClientHello to
//! the last word of the handshake that this end needs, without the TCP connect before it. The processor's
//! time is this thread's: the server's is its own.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind};
use weir_observe::thread::thread_cpu_now;
use weir_units::stats::low;

/// How many, and how.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Full handshakes, and as many resumed ones.
    pub count: usize,
    /// For each connect and each handshake.
    pub timeout: Duration,
}

impl Default for Plan {
    /// Five: their median stands against two that met something else.
    fn default() -> Plan {
        Plan { count: 5, timeout: Duration::from_secs(2) }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// `TLSv1_3`, the cipher suite and the key exchange, as the library names them.
    pub agreed: String,
    /// Full handshakes.
    pub full: Cost,
    /// Resumed ones, or why there is none.
    pub resumed: Result<Cost, String>,
}

/// Medians.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Wall time.
    pub span: Duration,
    /// Of it, on this end's processor, the check of the certificates included.
    pub cpu: Duration,
    /// Handshakes.
    pub count: usize,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No connection.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The certificate is not trusted: with another configuration there would be figures.
    #[error("{0}")]
    Untrusted(String),
    /// It spoke something else, or nothing.
    #[error("the port does not speak TLS: {0}")]
    NotTls(String),
    /// The time was over.
    #[error("no answer to the ClientHello in {secs} s", secs = .0.as_secs_f64())]
    Silent(Duration),
    /// Nobody waits for it any more.
    #[error("interrupted")]
    Interrupted,
}

/// Full handshakes, then resumed ones.
pub fn run(
    address: SocketAddr,
    host: &str,
    config: &ClientConfig,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<Found, TlsError> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| TlsError::Untrusted(format!("'{host}' is not a name that a certificate can have")))?;
    let mut forgetful = config.clone();
    forgetful.resumption = Resumption::disabled();
    let dial = Dial { address, name, timeout: plan.timeout, stop };
    let forgetful = Arc::new(forgetful);
    let mut full = Vec::new();
    let mut agreed = String::new();
    for _ in 0..plan.count {
        let (shake, tls, _) = dial.handshake(&forgetful)?;
        agreed = describe(&tls);
        full.push(shake);
    }
    let resumed = resumed(&dial, config, plan);
    Ok(Found { agreed, full: median(&full), resumed })
}

fn resumed(dial: &Dial<'_>, config: &ClientConfig, plan: &Plan) -> Result<Cost, String> {
    let mut remembering = config.clone();
    // A store of its own, so that nothing of an earlier run is in it.
    remembering.resumption = Resumption::in_memory_sessions(8);
    let remembering = Arc::new(remembering);
    let mut resumed = Vec::new();
    for turn in 0..=plan.count {
        let (shake, mut tls, mut stream) = dial.handshake(&remembering).map_err(|error| error.to_string())?;
        if tls.handshake_kind() == Some(HandshakeKind::Resumed) {
            resumed.push(shake);
        } else if turn > 0 {
            return Err("the server does not resume sessions".to_owned());
        }
        dial.take_ticket(&mut tls, &mut stream);
    }
    Ok(median(&resumed))
}

/// One handshake's costs.
#[derive(Debug, Clone, Copy)]
struct Shake {
    span: Duration,
    cpu: Duration,
}

struct Dial<'a> {
    address: SocketAddr,
    name: ServerName<'static>,
    timeout: Duration,
    stop: &'a AtomicBool,
}

impl Dial<'_> {
    fn handshake(
        &self,
        config: &Arc<ClientConfig>,
    ) -> Result<(Shake, ClientConnection, TcpStream), TlsError> {
        if self.stop.load(Relaxed) {
            return Err(TlsError::Interrupted);
        }
        let words = |error: &io::Error| TlsError::Connect(weir_units::plain(error));
        let mut stream = TcpStream::connect_timeout(&self.address, self.timeout).map_err(|e| words(&e))?;
        let ready = stream.set_nodelay(true).and_then(|()| stream.set_write_timeout(Some(self.timeout)));
        ready.map_err(|error| words(&error))?;
        let (start, cpu) = (Instant::now(), thread_cpu_now());
        let mut tls = ClientConnection::new(Arc::clone(config), self.name.clone())
            .map_err(|error| TlsError::Untrusted(error.to_string()))?;
        while tls.is_handshaking() {
            let left = self.timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(TlsError::Silent(self.timeout));
            }
            stream.set_read_timeout(Some(left)).map_err(|error| words(&error))?;
            turn(&mut tls, &mut stream, self.timeout)?;
        }
        // The last word, without which the server hands out no ticket.
        flush(&mut tls, &mut stream, self.timeout)?;
        let shake = Shake { span: start.elapsed(), cpu: thread_cpu_now().saturating_sub(cpu) };
        Ok((shake, tls, stream))
    }

    /// TLS 1.3 hands its tickets over after the handshake: reads until something came, or half a second of
    /// nothing.
    fn take_ticket(&self, tls: &mut ClientConnection, stream: &mut TcpStream) {
        let _ = stream.set_read_timeout(Some(self.timeout.min(Duration::from_millis(500))));
        if tls.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3) && tls.read_tls(stream).is_ok() {
            let _ = tls.process_new_packets();
        }
        tls.send_close_notify();
        let _ = tls.write_tls(stream);
    }
}

/// Writes what is to be written, and reads once.
fn turn(tls: &mut ClientConnection, stream: &mut TcpStream, timeout: Duration) -> Result<(), TlsError> {
    flush(tls, stream, timeout)?;
    if tls.read_tls(stream).map_err(|error| broken(&error, timeout))? == 0 {
        return Err(TlsError::NotTls("it closed the connection".to_owned()));
    }
    match tls.process_new_packets() {
        Ok(_) => Ok(()),
        Err(error @ (rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented)) => {
            Err(TlsError::Untrusted(error.to_string()))
        }
        Err(error) => Err(TlsError::NotTls(error.to_string())),
    }
}

fn flush(tls: &mut ClientConnection, stream: &mut TcpStream, timeout: Duration) -> Result<(), TlsError> {
    while tls.wants_write() {
        tls.write_tls(stream).map_err(|error| broken(&error, timeout))?;
    }
    Ok(())
}

fn broken(error: &io::Error, timeout: Duration) -> TlsError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => TlsError::Silent(timeout),
        _ => TlsError::NotTls(weir_units::plain(error)),
    }
}

fn describe(tls: &ClientConnection) -> String {
    let version = tls.protocol_version().map(|version| format!("{version:?}"));
    let suite = tls.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite()));
    let exchange = tls.negotiated_key_exchange_group().map(|group| format!("{:?}", group.name()));
    [version, suite, exchange].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The lower middle of each, on its own.
fn median(shakes: &[Shake]) -> Cost {
    let middle = |mut of: Vec<Duration>| {
        of.sort_unstable();
        low(&of, 1, 2).unwrap_or_default()
    };
    Cost {
        span: middle(shakes.iter().map(|shake| shake.span).collect()),
        cpu: middle(shakes.iter().map(|shake| shake.cpu).collect()),
        count: shakes.len(),
    }
}
