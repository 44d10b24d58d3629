//! SOCKS, versions 4, 4a and 5 (RFC 1928, with the login of RFC 1929): what is said to such a proxy before
//! its connection is one to the host that was asked for.

use std::io::{self, Read};
use std::net::{IpAddr, TcpStream};

use crate::error::GetError;
use crate::http::connection::{POLL_INTERVAL, is_timeout, send_all};
use crate::http::proxy::{Kind, Proxy};
use weir_http::netrc::Login;

/// Whom the proxy is to connect to: the address, or the name where it is to look that up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An address.
    Address(IpAddr),
    /// A name.
    Name(String),
}

/// A name's length is one byte (RFC 1928 section 5).
const MAX_NAME: usize = 255;

/// Asks the proxy at the other end of `socket` for a connection to `target`, and waits for its word. `go_on`
/// says whether to wait on.
pub fn ask(
    socket: &TcpStream,
    proxy: &Proxy,
    target: &Target,
    port: u16,
    go_on: &dyn Fn() -> bool,
) -> Result<(), GetError> {
    let to = match target {
        Target::Address(IpAddr::V6(address)) => format!("[{address}]:{port}"),
        Target::Address(address) => format!("{address}:{port}"),
        Target::Name(name) => format!("{name}:{port}"),
    };
    let failed = |failure: Failure| failure.error(proxy, &to);
    let io = |error: io::Error| failed(Failure::Broken(error));
    socket.set_read_timeout(Some(POLL_INTERVAL)).map_err(io)?;
    socket.set_write_timeout(Some(POLL_INTERVAL)).map_err(io)?;
    let mut wire = Wire { socket, go_on };
    let asked = match proxy.kind {
        Kind::Socks4 { .. } => wire.ask_4(target, port, proxy.login.as_ref()),
        _ => wire.ask_5(target, port, proxy.login.as_ref()),
    };
    asked.map_err(failed)
}

/// Why a proxy did not connect.
enum Failure {
    Broken(io::Error),
    /// It speaks something else.
    Foreign,
    /// It refused; trying again cannot help where the second is true.
    Refused(String, bool),
}

impl Failure {
    fn error(self, proxy: &Proxy, to: &str) -> GetError {
        let at = proxy.address();
        let (detail, permanent) = match self {
            Failure::Broken(error) if is_timeout(&error) => ("it does not answer".to_owned(), false),
            Failure::Broken(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                ("it closed the connection".to_owned(), false)
            }
            Failure::Broken(error) => (weir_units::plain(&error), false),
            Failure::Foreign => {
                (format!("it does not speak SOCKS; if it is an http proxy, say http://{at}"), true)
            }
            Failure::Refused(why, permanent) => (why, permanent),
        };
        GetError::Socks { proxy: at, named_by: proxy.named_by.clone(), to: to.to_owned(), detail, permanent }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Broken(error)
    }
}

fn refused(why: &str) -> Failure {
    Failure::Refused(why.to_owned(), true)
}

struct Wire<'a> {
    socket: &'a TcpStream,
    go_on: &'a dyn Fn() -> bool,
}

impl Wire<'_> {
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        send_all(self.socket, bytes, self.go_on)
    }

    /// Exactly this many bytes: what follows belongs to the host.
    fn receive<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let mut got = 0;
        while got < bytes.len() {
            match (&mut &*self.socket).read(&mut bytes[got..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => got += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) && (self.go_on)() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// RFC 1928.
    fn ask_5(&mut self, target: &Target, port: u16, login: Option<&Login>) -> Result<(), Failure> {
        let greeting: &[u8] = if login.is_some() { &[5, 2, 0, 2] } else { &[5, 1, 0] };
        self.send(greeting)?;
        match (self.receive()?, login) {
            ([5, 0], _) => {}
            ([5, 2], Some(login)) => self.log_in(login)?,
            ([5, 0xff], None) => {
                return Err(refused("it requires a login; give it as socks5h://USER:PASSWORD@HOST:PORT"));
            }
            ([5, _], _) => {
                return Err(refused("it takes none of the logins that weir knows (none, user and password)"));
            }
            _ => return Err(Failure::Foreign),
        }
        let mut request = vec![5, 1, 0];
        match target {
            Target::Address(IpAddr::V4(address)) => {
                request.push(1);
                request.extend(address.octets());
            }
            Target::Address(IpAddr::V6(address)) => {
                request.push(4);
                request.extend(address.octets());
            }
            Target::Name(name) if name.len() <= MAX_NAME => {
                request.extend([3, name.len() as u8]);
                request.extend(name.as_bytes());
            }
            Target::Name(_) => return Err(refused("the name is longer than 255 bytes")),
        }
        request.extend(port.to_be_bytes());
        self.send(&request)?;
        let [version, code, _, kind] = self.receive()?;
        if version != 5 {
            return Err(Failure::Foreign);
        }
        if code != 0 {
            return Err(refusal_5(code));
        }
        // The address that it connected from: nobody here needs it, but it stands before the host's bytes.
        let length = match kind {
            1 => 4,
            4 => 16,
            3 => usize::from(self.receive::<1>()?[0]),
            _ => return Err(Failure::Foreign),
        };
        self.fill(&mut vec![0; length + 2])?;
        Ok(())
    }

    /// RFC 1929.
    fn log_in(&mut self, login: &Login) -> Result<(), Failure> {
        let (user, password) = (login.login.as_bytes(), login.password.as_bytes());
        let (Ok(user_length), Ok(password_length)) = (u8::try_from(user.len()), u8::try_from(password.len()))
        else {
            return Err(refused("its user or password is longer than 255 bytes"));
        };
        let words = [&[1, user_length], user, &[password_length], password].concat();
        self.send(&words)?;
        match self.receive()? {
            [_, 0] => Ok(()),
            _ => Err(refused("it did not accept the user and password in its URL")),
        }
    }

    /// `SOCKS: A protocol for TCP proxy across firewalls`, and 4a's name behind an address that cannot be.
    fn ask_4(&mut self, target: &Target, port: u16, login: Option<&Login>) -> Result<(), Failure> {
        let user = login.map(|login| login.login.as_str()).unwrap_or_default();
        let (address, name) = match target {
            Target::Address(IpAddr::V4(address)) => (address.octets(), None),
            Target::Address(IpAddr::V6(_)) => {
                return Err(refused("SOCKS 4 knows no IPv6; socks5h:// does"));
            }
            Target::Name(name) => ([0, 0, 0, 1], Some(name)),
        };
        if user.contains('\0') || name.is_some_and(|name| name.contains('\0') || name.len() > MAX_NAME) {
            return Err(refused("the user or the name cannot be written in SOCKS 4"));
        }
        let mut request = vec![4, 1];
        request.extend(port.to_be_bytes());
        request.extend(address);
        request.extend(user.as_bytes());
        request.push(0);
        if let Some(name) = name {
            request.extend(name.as_bytes());
            request.push(0);
        }
        self.send(&request)?;
        let [version, code, ..] = self.receive::<8>()?;
        match (version, code) {
            (0, 90) => Ok(()),
            (0, 91) => Err(Failure::Refused("it cannot connect to that host, or may not".to_owned(), false)),
            (0, 92 | 93) => Err(refused("it requires ident; socks5h:// takes a login")),
            (0, code) => Err(refused(&format!("it refused with code {code}"))),
            _ => Err(Failure::Foreign),
        }
    }
}

/// RFC 1928 section 6.
fn refusal_5(code: u8) -> Failure {
    let (why, permanent) = match code {
        1 => ("it failed, and says no more (general failure)", false),
        2 => ("its rules do not allow that", true),
        3 => ("it cannot reach that network", false),
        4 => ("it cannot reach that host, or knows no address of it", false),
        5 => ("that host refused the connection", false),
        6 => ("the way to that host is too long for it", false),
        7 => ("it does not know the command", true),
        8 => {
            ("it does not know that kind of address; socks5h:// leaves names to it, socks5:// does not", true)
        }
        code => return Failure::Refused(format!("it refused with code {code}"), true),
    };
    Failure::Refused(why.to_owned(), permanent)
}
