//! A far end of `weir cp` that the test plays itself, and a near end for `weir peer`: both speak the protocol
//! by hand, and may lie.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use serde::Serialize;
use weir_cp::wire::driver::{FromDriver, ToDriver};
use weir_cp::wire::frame::{self, Kind};
use weir_cp::wire::message::{Hello, Listening, PROTOCOL, Start};
use weir_cp::wire::messages::Message;
use weir_cp::wire::record::{Footer, Header};
use weir_cp::wire::to_receiver::ToReceiver;
use weir_cp::wire::to_sender::ToSender;

use super::{Sandbox, WEIR};

/// One end of a control connection.
pub(crate) struct Talk {
    from: Box<dyn Read + Send>,
    to: Box<dyn Write + Send>,
    /// The test is the driver.
    drives: bool,
    /// Records sent.
    sequence: u64,
    /// Records heard, and whether they are acknowledged.
    heard: u64,
    pub(crate) acknowledges: bool,
}

/// What the other end says.
#[derive(Debug)]
pub(crate) enum Heard {
    FromDriver(FromDriver),
    ToDriver(ToDriver),
    ToReceiver(ToReceiver),
    ToSender(ToSender),
}

/// What a stranger says first.
pub(crate) fn hello() -> Hello {
    Hello {
        protocol: PROTOCOL,
        version: "0.0.0".into(),
        ciphers: Vec::new(),
        cpus: 1,
        boot: "of another machine".into(),
        network: 0,
        addresses: Vec::new(),
    }
}

impl Talk {
    /// Says bytes as they are. An end that has gone does not hear them.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> bool {
        self.to.write_all(bytes).and_then(|()| self.to.flush()).is_ok()
    }

    /// Says a message.
    pub(crate) fn say(&mut self, message: &(impl Message + Serialize)) -> bool {
        self.bytes(&frame::to_frame(message))
    }

    /// Hears the next message that is no sign of life; `None` at the end.
    pub(crate) fn hear(&mut self) -> Option<Heard> {
        let mut body = Vec::new();
        loop {
            match frame::read(&mut self.from, &mut body) {
                Ok(Some(Kind::Message)) => match self.read(&body) {
                    Heard::FromDriver(FromDriver::Alive) | Heard::ToDriver(ToDriver::Sample(_)) => {}
                    message => return Some(message),
                },
                Ok(Some(Kind::Record)) => {
                    self.heard += 1;
                    let _ = self.acknowledges && self.say(&ToSender::Ack(0, self.heard - 1));
                }
                _ => return None,
            }
        }
    }

    fn new(from: impl Read + Send + 'static, to: impl Write + Send + 'static, drives: bool) -> Talk {
        Talk { from: Box::new(from), to: Box::new(to), drives, sequence: 0, heard: 0, acknowledges: false }
    }

    fn read(&self, body: &[u8]) -> Heard {
        fn read<M: Message>(body: &[u8]) -> Option<M> {
            frame::parse_message(body).expect("a message")
        }
        let between = match self.drives {
            true => read(body).map(Heard::ToDriver),
            false => read(body).map(Heard::FromDriver),
        };
        // A lost lane is told in the same words both ways.
        let partner = || read(body).map(Heard::ToReceiver).or_else(|| read(body).map(Heard::ToSender));
        between.or_else(partner).expect("a message that an end of this kind is sent")
    }

    /// As a receiver: takes all records, and says that all is done when the sender does.
    pub(crate) fn take_all(&mut self) {
        self.acknowledges = true;
        while let Some(message) = self.hear() {
            if let Heard::ToReceiver(ToReceiver::Finish(totals, _)) = message {
                self.say(&ToSender::Finished(totals));
            }
        }
    }

    /// Hears everything up to the end.
    pub(crate) fn hear_out(&mut self) {
        while self.hear().is_some() {}
    }

    /// Plays a far end up to where the driver's own work begins; returns what it is to do.
    pub(crate) fn begin(&mut self) -> Start {
        self.bytes(b"\x1eweir-peer\n");
        self.say(&ToDriver::Hello(hello()));
        assert!(matches!(self.hear(), Some(Heard::FromDriver(FromDriver::Hello(_)))));
        let Some(Heard::FromDriver(FromDriver::Start(start))) = self.hear() else { panic!("no start") };
        *start
    }

    /// Tells that no lane is accepted here.
    pub(crate) fn listens_nowhere(&mut self) {
        self.say(&ToDriver::Listening(Listening { port: 0, addresses: Vec::new() }));
    }

    /// Sends a record inside the control connection.
    pub(crate) fn record(&mut self, payload: &[u8], footer: Footer) -> bool {
        let mut plain = payload.to_vec();
        footer.push_to(&mut plain);
        let header = Header { length: plain.len(), sequence: self.sequence }.to_bytes();
        self.sequence += 1;
        let head = frame::head(Kind::Record, header.len() + plain.len());
        self.bytes(&head) && self.bytes(&header) && self.bytes(&plain)
    }
}

/// A program to be given as `-S`, in place of ssh: it leads to `play`, which is the far end, on a thread of
/// its own.
pub(crate) fn far(sandbox: &Sandbox, play: impl FnOnce(&mut Talk) + Send + 'static) -> String {
    let folder = sandbox.path("ssh.strange");
    std::fs::create_dir(&folder).expect("a folder");
    let (heard, said) = (folder.join("heard"), folder.join("said"));
    let made = Command::new("mkfifo").args([&heard, &said]).status();
    assert!(made.expect("mkfifo runs").success());
    let program = folder.join("ssh");
    let (h, s) = (heard.display(), said.display());
    std::fs::write(&program, format!("#!/bin/sh\ncat '{s}' 2>/dev/null &\nexec cat >'{h}' 2>/dev/null\n"))
        .expect("a file");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("a program");
    std::thread::spawn(move || {
        // As the program opens them: each waits for the other side.
        let to = File::options().write(true).open(said).expect("a pipe");
        let from = File::open(heard).expect("a pipe");
        play(&mut Talk::new(from, to, false));
    });
    program.display().to_string()
}

/// `weir peer`, and the test as its driver.
pub(crate) fn peer() -> (Child, Talk) {
    let mut command = Command::new(WEIR);
    command.arg("peer").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("weir peer starts");
    let (to, mut from) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let mut ready = [0; 11];
    from.read_exact(&mut ready).expect("its first word");
    assert_eq!(&ready, b"\x1eweir-peer\n");
    (child, Talk::new(from, to, true))
}
