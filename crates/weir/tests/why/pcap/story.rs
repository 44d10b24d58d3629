//! A transfer over an emulated path with one cause, and tcpdump at both of its ends.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
use weir_lab::bed::{Bed, too_late};
use weir_lab::congestion;
use weir_lab::path::{self, Direction, Loss, Share};
use weir_units::Rate;

use super::tcpdump::Recorder;

/// A cause and how it is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Story {
    pub(crate) name: &'static str,
    seconds: f64,
    congestion: &'static str,
    /// Random loss, a share of the packets.
    loss: f64,
    /// SO_RCVBUF and SO_SNDBUF as asked for.
    receive_buffer: Option<usize>,
    send_buffer: Option<usize>,
    writer: Writer,
    /// Bytes per second that the reader takes; `None` for all.
    reads: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
enum Writer {
    /// Pieces of this size as fast as they are taken.
    Bulk(usize),
    /// So many bytes a second.
    Paced(f64),
    /// Answers of this size, one for each request.
    Answers(usize),
}

/// The captures of a story, and what went through it.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) sender: PathBuf,
    pub(crate) receiver: PathBuf,
    pub(crate) bytes: u64,
    /// The emulator did not get its processor in time: the path was another than the story's.
    pub(crate) is_late: bool,
}

/// 40 Mbit/s and 40 ms, which hold 200 KB.
const RATE: Rate = Rate(5e6);
const ONE_WAY: Duration = Duration::from_millis(20);

/// Nothing in the way but the path.
const PLAIN: Story = Story {
    name: "a full link",
    seconds: 3.5,
    congestion: "cubic",
    loss: 0.0,
    receive_buffer: None,
    send_buffer: None,
    writer: Writer::Bulk(64 << 10),
    reads: None,
};

pub(crate) const FULL_LINK: Story = PLAIN;
pub(crate) const RECEIVE_WINDOW: Story =
    Story { name: "a receive window", receive_buffer: Some(64 << 10), ..PLAIN };
pub(crate) const READER: Story = Story { name: "a reader", reads: Some(2e6), ..PLAIN };
pub(crate) const LOSS: Story = Story { name: "loss", loss: 0.01, ..PLAIN };
/// Long enough that its beginning, in which what is paced may as well be the path, is no quarter of it.
pub(crate) const APPLICATION: Story =
    Story { name: "an application", seconds: 5.0, writer: Writer::Paced(2e6), ..PLAIN };
pub(crate) const SMALL_REQUESTS: Story =
    Story { name: "small requests", writer: Writer::Answers(8000), ..PLAIN };
pub(crate) const SEND_BUFFER: Story =
    Story { name: "a send buffer", send_buffer: Some(64 << 10), writer: Writer::Bulk(4096), ..PLAIN };

impl Story {
    /// Plays it; an error says what this machine does not allow.
    pub(crate) fn play(&self, folder: &Path) -> anyhow::Result<Ends> {
        let _allowed = congestion::allow()?;
        let down = Direction {
            rate: Some(RATE),
            delay: ONE_WAY,
            loss: if self.loss > 0.0 { Loss::Random(Share(self.loss)) } else { Loss::None },
            ..Direction::default()
        };
        let up = Direction { delay: ONE_WAY, ..Direction::default() };
        let bed = Bed::new(&path::Path { up, down, seed: 7, ..path::Path::default() })?;
        bed.far().set_sysctl("net.ipv4.tcp_wmem", "4096 16384 67108864")?;
        if self.reads.is_some() {
            // A buffer that a slow reader soon lets fill.
            bed.near().set_sysctl("net.ipv4.tcp_rmem", "4096 131072 800000")?;
        }
        let (sender, receiver) = (folder.join("sender.pcap"), folder.join("receiver.pcap"));
        let recorders = [Recorder::start(bed.far(), &sender)?, Recorder::start(bed.near(), &receiver)?];
        let before = bed.counters();
        let bytes = self.transfer(&bed)?;
        let is_late = too_late(bed.counters().late_since(&before), 2 * ONE_WAY);
        for recorder in recorders {
            recorder.stop()?;
        }
        Ok(Ends { sender, receiver, bytes, is_late })
    }

    /// Returns the bytes that were read.
    fn transfer(&self, bed: &Bed) -> anyhow::Result<u64> {
        let far = bed.far_address();
        let listener = bed.far().run(|| self.listen(far))??;
        let port = listener.local_addr()?.port();
        let near = bed.near().run(|| self.dial(SocketAddrV4::new(far, port)))??;
        let (far, _) = listener.accept()?;
        far.set_nodelay(true)?;
        near.set_nodelay(true)?;
        let story = *self;
        let ends = (far.try_clone()?, near.try_clone()?);
        let writer = spawn(move || story.write(far));
        let reader = spawn(move || story.read(near));
        sleep(Duration::from_secs_f64(self.seconds));
        let _ = ends.0.shutdown(Shutdown::Both);
        // What is still under way comes to its end by itself; a reader that sleeps has hung up with that.
        let _ = ends.1.shutdown(Shutdown::Both);
        let _ = writer.join();
        reader.join().map_err(|_| anyhow::anyhow!("the reader panicked"))
    }

    fn listen(&self, address: Ipv4Addr) -> anyhow::Result<TcpListener> {
        let listener = TcpListener::bind((address, 0))?;
        sockopt::set_tcp_congestion(&listener, self.congestion)?;
        if let Some(size) = self.send_buffer {
            sockopt::set_socket_send_buffer_size(&listener, size)?;
        }
        Ok(listener)
    }

    fn dial(&self, address: SocketAddrV4) -> anyhow::Result<TcpStream> {
        let fd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        if let Some(size) = self.receive_buffer {
            sockopt::set_socket_recv_buffer_size(&fd, size)?;
        }
        connect(&fd, &SocketAddr::V4(address))?;
        Ok(TcpStream::from(fd))
    }

    fn write(&self, mut socket: TcpStream) {
        let mut due = Instant::now();
        match self.writer {
            Writer::Bulk(piece) => {
                let bytes = vec![7; piece];
                while socket.write_all(&bytes).is_ok() {}
            }
            Writer::Paced(rate) => {
                // Neither a part nor a multiple of the round trip.
                let slice = Duration::from_millis(13);
                let bytes = vec![7; (rate * slice.as_secs_f64()) as usize];
                while socket.write_all(&bytes).is_ok() {
                    due = due.max(Instant::now() - slice) + slice;
                    sleep(due.saturating_duration_since(Instant::now()));
                }
            }
            Writer::Answers(size) => {
                let bytes = vec![7; size];
                while socket.read_exact(&mut [0; 64]).is_ok() && socket.write_all(&bytes).is_ok() {}
            }
        }
    }

    fn read(&self, mut socket: TcpStream) -> u64 {
        let mut all = 0;
        if let Writer::Answers(size) = self.writer {
            let mut bytes = vec![0; size];
            while socket.write_all(&[b'?'; 64]).is_ok() && socket.read_exact(&mut bytes).is_ok() {
                all += size as u64;
            }
            return all;
        }
        let slice = Duration::from_millis(13);
        let most = self.reads.map_or(1 << 20, |rate| (rate * slice.as_secs_f64()) as usize);
        let mut bytes = vec![0; most];
        let mut due = Instant::now();
        while let Ok(count @ 1..) = socket.read(&mut bytes) {
            all += count as u64;
            if let Some(rate) = self.reads {
                due = due.max(Instant::now()) + Duration::from_secs_f64(count as f64 / rate);
                sleep(due.saturating_duration_since(Instant::now()));
            }
        }
        all
    }
}
