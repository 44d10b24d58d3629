//! A server on a free port, and the plainest client there can be: std sockets, HTTP read by hand.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use socket2::{Domain, Socket, Type};
use weir_serve::{Config, Content, Handle, Server};
use weir_units::Bytes;

/// A test that waits this long for anything has failed.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Waits for something that comes by itself.
pub fn wait_for(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < TIMEOUT, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

/// Serves a directory on a free port of the loopback.
pub(crate) fn serve_dir(root: &Path) -> Handle {
    serve(Config::new(Content::Dir(root.to_owned())))
}

/// Serves with this configuration, but on a free port of the loopback.
pub(crate) fn serve(config: Config) -> Handle {
    let address = "127.0.0.1:0".parse().unwrap();
    Server::bind(config.listen(address)).unwrap().spawn().unwrap()
}

/// Bytes of a file that no two kernels hold between them.
pub(crate) const LARGE: u64 = 64 << 20;

/// A folder with a file `large` in it, which was last written an hour ago, and how it is served.
pub(crate) fn large() -> (tempfile::TempDir, PathBuf, Config) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("large");
    let file = fs::File::create(&path).unwrap();
    file.set_len(LARGE).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    let content = Content::Dir(root.path().to_owned());
    (root, path, Config { send_buffer: Some(Bytes(64 * 1024)), ..Config::new(content) })
}

/// Does something to a file while it is sent.
pub(crate) type Change = fn(&Path);

/// What may happen to a file while it is sent, and whether all that was promised is to arrive.
pub(crate) const CHANGES: [(&str, Change, bool); 8] = [
    ("rewritten", |path| write_at(path, LARGE / 2, b"other"), false),
    ("rewritten, and longer", |path| [0, LARGE].iter().for_each(|at| write_at(path, *at, b"other")), false),
    ("rewritten within, and longer", rewrite_within, false),
    ("rewritten, and its date put back", rewrite_and_redate, false),
    ("unlinked", |path| fs::remove_file(path).unwrap(), true),
    ("replaced", replace, true),
    ("appended to", |path| write_at(path, LARGE, b"more"), true),
    ("given another mode", |path| fs::set_permissions(path, PermissionsExt::from_mode(0o640)).unwrap(), true),
];

fn rewrite_within(path: &Path) {
    write_at(path, LARGE / 2, &vec![b'o'; LARGE as usize / 10]);
    write_at(path, LARGE, b"more");
}

/// As `cp -p` does with other bytes of the same size and date.
fn rewrite_and_redate(path: &Path) {
    let before = fs::metadata(path).unwrap();
    let touched = |stat: &fs::Metadata| (stat.ctime(), stat.ctime_nsec());
    wait_for("the next tick of the file system's clock", || {
        write_at(path, LARGE / 2, b"other");
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(before.modified().unwrap()).unwrap();
        touched(&file.metadata().unwrap()) != touched(&before)
    });
}

fn replace(path: &Path) {
    let other = path.with_extension("new");
    fs::write(&other, "other").unwrap();
    fs::rename(other, path).unwrap();
}

fn write_at(path: &Path, offset: u64, bytes: &[u8]) {
    fs::File::options().write(true).open(path).unwrap().write_all_at(bytes, offset).unwrap();
}

/// A connection to a server whose kernel takes little ahead of what is read.
pub(crate) fn connect_narrow(server: &Handle) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(32 * 1024).unwrap();
    socket.connect(&server.addresses()[0].into()).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket.into()
}

/// One connection.
pub(crate) struct Client(BufReader<TcpStream>);

/// One answer, taken apart.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The value of a header field, which must be written as `name` is.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Client {
    pub(crate) fn new(server: &Handle) -> Client {
        let socket = TcpStream::connect(server.addresses()[0]).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        Client(BufReader::new(socket))
    }

    /// One that takes little ahead of what is read.
    pub(crate) fn narrow(server: &Handle) -> Client {
        Client(BufReader::new(connect_narrow(server)))
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    /// Half-closes, as `nc` does at the end of its input.
    pub(crate) fn finish(&mut self) {
        self.0.get_mut().shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Sends a request for a target, with further header lines, and reads the answer.
    pub(crate) fn ask(&mut self, method: &str, target: &str, lines: &[&str]) -> Reply {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        self.send(format!("{method} {target} HTTP/1.1\r\nHost: test\r\n{lines}\r\n"));
        self.read_reply(method != "HEAD")
    }

    pub(crate) fn get(&mut self, target: &str, lines: &[&str]) -> Reply {
        self.ask("GET", target, lines)
    }

    pub(crate) fn read_reply(&mut self, has_body: bool) -> Reply {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.0.read_line(&mut head).unwrap(), 0, "the server hung up after {head:?}");
        }
        let status = head[9..12].parse().unwrap();
        let mut reply = Reply { status, head, body: Vec::new() };
        if let Some(length) = reply.field("Content-Length").filter(|_| has_body) {
            reply.body = vec![0; length.parse().unwrap()];
            self.0.read_exact(&mut reply.body).unwrap();
        }
        reply
    }

    /// Everything up to the end of the connection.
    pub(crate) fn read_rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).unwrap();
        rest
    }
}

/// The bytes of a generated file.
pub(crate) fn pattern(offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    weir_serve::fill_pattern(offset, &mut bytes);
    bytes
}
