//! A SOCKS proxy, versions 4, 4a and 5, that connects to one place whatever it is asked for, and keeps what
//! that was.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The proxy; it ends with the test.
pub(crate) struct Socks {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Socks {
    /// Connects to `far`; wants `user:password` if there is one; answers with `code` in place of success.
    pub(crate) fn start(far: SocketAddr, login: Option<&'static str>, code: u8) -> Socks {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let log = Arc::clone(&log);
                std::thread::spawn(move || converse(near, far, login, code, &log));
            }
        });
        Socks { address, asked }
    }

    /// Whom it was asked for, as `4 host:port` or `5 host:port`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("an unpoisoned log").clone()
    }
}

fn converse(
    mut near: TcpStream,
    far: SocketAddr,
    login: Option<&str>,
    code: u8,
    log: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let version = take(&mut near, 1)?[0];
    let asked = if version == 4 { version_4(&mut near)? } else { version_5(&mut near, login)? };
    log.lock().expect("an unpoisoned log").push(format!("{version} {asked}"));
    match (version, code) {
        (4, 0) => near.write_all(&[0, 90, 0, 0, 0, 0, 0, 0])?,
        (4, _) => return near.write_all(&[0, 91, 0, 0, 0, 0, 0, 0]),
        // The bound address as a name, which few proxies send and any may.
        (_, 0) => near.write_all(&[5, 0, 0, 3, 1, b'x', 0, 0])?,
        (_, code) => return near.write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0]),
    }
    let far = TcpStream::connect(far)?;
    let (mut near_in, mut far_out) = (near.try_clone()?, far.try_clone()?);
    let there = std::thread::spawn(move || {
        let _ = io::copy(&mut near_in, &mut far_out);
        let _ = far_out.shutdown(std::net::Shutdown::Write);
    });
    let _ = io::copy(&mut &far, &mut near);
    let _ = near.shutdown(std::net::Shutdown::Both);
    let _ = there.join();
    Ok(())
}

fn version_4(near: &mut TcpStream) -> io::Result<String> {
    let head = take(near, 7)?;
    let port = u16::from_be_bytes([head[1], head[2]]);
    until_zero(near)?;
    let host = match head[3..7] {
        [0, 0, 0, last] if last > 0 => until_zero(near)?,
        _ => head[3..7].iter().map(u8::to_string).collect::<Vec<_>>().join("."),
    };
    Ok(format!("{host}:{port}"))
}

fn version_5(near: &mut TcpStream, login: Option<&str>) -> io::Result<String> {
    let count = take(near, 1)?[0];
    let methods = take(near, count.into())?;
    let method = if login.is_some() { 2 } else { 0 };
    if !methods.contains(&method) {
        near.write_all(&[5, 0xff])?;
        return super::over();
    }
    near.write_all(&[5, method])?;
    if let Some(login) = login {
        take(near, 1)?;
        let user = counted(near)?;
        let password = counted(near)?;
        let is_it = format!("{user}:{password}") == login;
        near.write_all(&[1, u8::from(!is_it)])?;
        if !is_it {
            return super::over();
        }
    }
    let kind = take(near, 4)?[3];
    let host = match kind {
        1 => take(near, 4)?.iter().map(u8::to_string).collect::<Vec<_>>().join("."),
        3 => counted(near)?,
        _ => format!("{:?}", take(near, 16)?),
    };
    let port = take(near, 2)?;
    Ok(format!("{host}:{}", u16::from_be_bytes([port[0], port[1]])))
}

fn take(near: &mut TcpStream, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    near.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn counted(near: &mut TcpStream) -> io::Result<String> {
    let length = take(near, 1)?[0];
    Ok(String::from_utf8_lossy(&take(near, length.into())?).into_owned())
}

fn until_zero(near: &mut TcpStream) -> io::Result<String> {
    let mut text = Vec::new();
    loop {
        match take(near, 1)?[0] {
            0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
            byte => text.push(byte),
        }
    }
}
