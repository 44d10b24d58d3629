//! What did one lane's thread and socket do between two looks at them?
//!
//! The probe belongs to whoever watches, not to the lane: the lane's thread does nothing for it but say its
//! number and hand over a copy of each socket it opens.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use weir_model::evidence::{Reading, TcpInterval, ThreadInterval};

use crate::error::{ObserveError, reading};
use crate::mean::Mean;
use crate::tcp_info::{self, TcpInfo};
use crate::thread::{ThreadClock, ThreadTimes, Tid, WaitChannel, wait_channel};
use weir_units::plain;

/// The start of the kernel function's name in which a writer sleeps when its writes are paced to the disk.
const DIRTY_THROTTLE: &str = "balance_dirty_pages";

/// Watches one lane. Cheap to [`look`](LaneProbe::look) through every 20 ms, a little dearer at an interval's
/// end.
///
/// Measured on a 2-core Linux 6.18 machine (`cargo test --release -p weir-observe -- --ignored --nocapture
/// cost`): a look costs 0.9 us of CPU a lane and an interval 1.1 us in a tight loop. Sixteen lanes at 50
/// looks and 10 intervals a second, with the machine's own interval, took 0.54 to 0.73 % of one core; the
/// same wake-ups without any reading 0.2 %. Reading after a sleep thus costs several times what it does in a
/// loop, presumably for cold caches.
#[derive(Debug)]
pub struct LaneProbe {
    clock: Result<ThreadClock, ObserveError>,
    channel: Result<WaitChannel, ObserveError>,
    before: Result<ThreadTimes, String>,
    looks: u32,
    in_dirty_throttle: u32,
    socket: Option<Socket>,
    /// From sockets that were replaced in this interval.
    replaced: Segments,
    queue: Mean,
}

#[derive(Debug)]
struct Socket {
    fd: OwnedFd,
    /// Does not change unless the application asks for it, so it is read once.
    congestion_control: Option<String>,
    before: Segments,
}

/// The counters whose differences an interval reports.
#[derive(Debug, Clone, Copy, Default)]
struct Segments {
    data: u32,
    out_of_order: u32,
    /// Of this end's own, sent again.
    resent: u32,
}

impl LaneProbe {
    /// Starts the first interval for the thread `tid` of this process, without a socket yet.
    pub fn new(tid: Tid) -> LaneProbe {
        let clock = ThreadClock::open(tid);
        LaneProbe {
            before: times(&clock),
            clock,
            channel: wait_channel(tid),
            looks: 0,
            in_dirty_throttle: 0,
            socket: None,
            replaced: Segments::default(),
            queue: Mean::default(),
        }
    }

    /// From now on watches this socket, a duplicate of the lane's; `None` while the lane has none.
    ///
    /// A duplicate keeps the connection open, so the lane must shut its socket down, or this be called,
    /// before the peer sees its end. Segments that arrived before the call are not counted; those of a
    /// replaced socket are.
    pub fn set_socket(&mut self, socket: Option<OwnedFd>) {
        if let Some(old) = self.socket.take() {
            // A failure here loses the count of one interval's last segments, which no rule depends on.
            if let Ok(info) = tcp_info::read(old.fd.as_fd()) {
                self.replaced = self.replaced.plus(Segments::of(&info).since(old.before));
            }
        }
        self.socket = socket.map(|fd| Socket {
            congestion_control: tcp_info::congestion_control(fd.as_fd()).ok(),
            before: tcp_info::read(fd.as_fd()).map(|info| Segments::of(&info)).unwrap_or_default(),
            fd,
        });
    }

    /// Sees where the thread sleeps and how much waits in the receive queue: two system calls, no allocation.
    pub fn look(&mut self) {
        // A look that fails is not counted: the interval says why through the clock, which fails for the same
        // reasons.
        if let Ok(channel) = &mut self.channel
            && let Ok(symbol) = channel.read()
        {
            self.looks += 1;
            self.in_dirty_throttle += u32::from(symbol.is_some_and(|name| name.starts_with(DIRTY_THROTTLE)));
        }
        self.look_at_queue();
    }

    /// What changed since the last call, or since [`LaneProbe::new`]. Looks at the receive queue once more,
    /// so that an interval without a look still has its depth.
    pub fn interval(&mut self) -> (Reading<ThreadInterval>, Reading<TcpInterval>) {
        self.look_at_queue();
        let thread = reading(self.thread_interval());
        let tcp = reading(self.tcp_interval());
        (self.looks, self.in_dirty_throttle) = (0, 0);
        (self.replaced, self.queue) = (Segments::default(), Mean::default());
        (thread, tcp)
    }

    fn look_at_queue(&mut self) {
        if let Some(socket) = &self.socket
            && let Ok(depth) = tcp_info::receive_queue(socket.fd.as_fd())
        {
            self.queue.add(depth);
        }
    }

    fn thread_interval(&mut self) -> Result<ThreadInterval, String> {
        let before = std::mem::replace(&mut self.before, times(&self.clock));
        let (then, now) = (before?, self.before.clone()?);
        Ok(ThreadInterval {
            cpu: now.run.saturating_sub(then.run),
            runqueue: now.wait.saturating_sub(then.wait),
            looks: self.looks,
            in_dirty_throttle: self.in_dirty_throttle,
            ..ThreadInterval::default()
        })
    }

    fn tcp_interval(&mut self) -> Result<TcpInterval, String> {
        let Some(socket) = &mut self.socket else {
            return Err("no connection at the window's end".to_owned());
        };
        let fd = socket.fd.as_fd();
        let info = tcp_info::read(fd).map_err(|cause| unreadable("TCP_INFO", fd, &cause))?;
        let now = Segments::of(&info);
        let passed = self.replaced.plus(now.since(socket.before));
        socket.before = now;
        Ok(TcpInterval {
            receiver_rtt: info.rcv_rtt,
            min_rtt: info.min_rtt,
            receive_window: info.rcv_wnd.map(u64::from),
            window_clamp: info.rcv_ssthresh.map(u64::from),
            receive_queue: self.queue.value(),
            receive_buffer: tcp_info::receive_buffer(socket.fd.as_fd()).ok(),
            out_of_order: passed.out_of_order.into(),
            segments: passed.data.into(),
            resent: info.total_retrans.map(|_| passed.resent.into()),
            congestion_control: socket.congestion_control.clone(),
        })
    }
}

fn times(clock: &Result<ThreadClock, ObserveError>) -> Result<ThreadTimes, String> {
    match clock {
        Ok(clock) => clock.read().map_err(|err| err.to_string()),
        Err(why) => Err(why.to_string()),
    }
}

fn unreadable(option: &str, fd: BorrowedFd<'_>, cause: &std::io::Error) -> String {
    format!("cannot read {option} of descriptor {}: {}", fd.as_raw_fd(), plain(cause))
}

impl Segments {
    /// Before 5.4 there is no count of out-of-order segments; the model's field has no way to say so but 0.
    fn of(info: &TcpInfo) -> Segments {
        Segments {
            data: info.data_segs_in.unwrap_or_default(),
            out_of_order: info.rcv_ooopack.unwrap_or_default(),
            resent: info.total_retrans.unwrap_or_default(),
        }
    }

    /// The kernel's counters are 32 bits wide and wrap, data segments after 6 TB.
    fn since(self, before: Segments) -> Segments {
        Segments {
            data: self.data.wrapping_sub(before.data),
            out_of_order: self.out_of_order.wrapping_sub(before.out_of_order),
            resent: self.resent.wrapping_sub(before.resent),
        }
    }

    fn plus(self, other: Segments) -> Segments {
        Segments {
            data: self.data.saturating_add(other.data),
            out_of_order: self.out_of_order.saturating_add(other.out_of_order),
            resent: self.resent.saturating_add(other.resent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::{current_tid, thread_cpu_now};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        (near, far)
    }

    fn duplicate(socket: &impl AsFd) -> Option<OwnedFd> {
        Some(socket.as_fd().try_clone_to_owned().unwrap())
    }

    #[test]
    fn the_probe_can_be_watched_from_another_thread() {
        fn send<T: Send>() {}
        send::<LaneProbe>();
        send::<crate::Sampler>();
    }

    #[test]
    fn a_replaced_socket_keeps_its_segments_and_loses_its_past() {
        let mut probe = LaneProbe::new(current_tid());
        let (mut first, mut first_far) = pair();
        probe.set_socket(duplicate(&first));
        first_far.write_all(b"one").unwrap();
        first.read_exact(&mut [0; 3]).unwrap();

        let (mut second, mut second_far) = pair();
        second_far.write_all(b"before the probe saw it").unwrap();
        second.read_exact(&mut [0; 23]).unwrap();
        probe.set_socket(duplicate(&second));
        second_far.write_all(b"two").unwrap();
        second.read_exact(&mut [0; 1]).unwrap();

        let (_, tcp) = probe.interval();
        let tcp = tcp.value().unwrap();
        assert_eq!(tcp.segments, 2, "one of each socket");
        assert_eq!(tcp.resent, Some(0));
        assert_eq!(tcp.receive_queue, Some(2), "what is left of 'two'");
        assert!(tcp.congestion_control.is_some());

        let (_, tcp) = probe.interval();
        assert_eq!(tcp.value().unwrap().segments, 0);
        probe.set_socket(None);
        let (_, tcp) = probe.interval();
        assert_eq!(tcp.missing(), Some("no connection at the window's end"));
        // The duplicate is closed with the probe's socket, so the far end sees the lane's own close.
        drop(second);
        let end = second_far.read(&mut [0; 1]);
        assert!(matches!(end, Ok(0)) || end.is_err_and(|err| err.raw_os_error() == Some(libc::ECONNRESET)));
    }

    #[test]
    fn a_socket_that_is_not_tcp_is_missing_with_its_reason() {
        let (one, _other) = UnixStream::pair().unwrap();
        let mut probe = LaneProbe::new(current_tid());
        probe.set_socket(duplicate(&one));
        probe.look();
        let (thread, tcp) = probe.interval();
        assert_eq!(thread.value().unwrap().looks, 1);
        assert!(tcp.missing().unwrap().starts_with("cannot read TCP_INFO of descriptor"), "{tcp:?}");
    }

    #[test]
    fn a_thread_that_ended_is_missing_not_idle() {
        let tid = std::thread::spawn(current_tid).join().unwrap();
        let mut probe = LaneProbe::new(tid);
        let start = Instant::now();
        // The kernel wakes the joiner a moment before the task leaves /proc.
        let why = loop {
            probe.look();
            if let (Reading::Missing(why), _) = probe.interval() {
                break why;
            }
            assert!(start.elapsed() < Duration::from_secs(10), "never ended");
            std::thread::yield_now();
        };
        assert_eq!(why, format!("thread {tid} has ended"));
    }

    /// What sixteen lanes cost their watcher. Prints, so that the doc above can be brought up to date.
    #[test]
    #[ignore = "a measurement, run by hand in release"]
    fn cost_of_sixteen_lanes() {
        let (near, mut far) = pair();
        far.write_all(&[0; 1000]).unwrap();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (send, tid) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            send.send(current_tid()).unwrap();
            let _ = stopped.recv();
        });
        let tid = tid.recv().unwrap();
        let mut lanes: Vec<LaneProbe> = (0..16).map(|_| LaneProbe::new(tid)).collect();
        lanes.iter_mut().for_each(|lane| lane.set_socket(duplicate(&near)));
        let mut host = crate::Sampler::new(Some(std::path::Path::new(".")));

        let timed = |what: &str, rounds: u32, work: &mut dyn FnMut()| {
            let start = thread_cpu_now();
            (0..rounds).for_each(|_| work());
            println!("{what}: {:?} of CPU each", (thread_cpu_now() - start) / rounds);
        };
        timed("look() of 16 lanes", 2000, &mut || lanes.iter_mut().for_each(LaneProbe::look));
        timed("window() of 16 lanes", 2000, &mut || {
            lanes.iter_mut().for_each(|lane| drop(lane.interval()));
        });
        timed("host_window()", 2000, &mut || drop(host.host_interval()));

        // As a transfer does it: a look every 20 ms, an interval after every fifth. First the same sleeps
        // without work.
        let paced = |what: &str, work: &mut dyn FnMut(u32)| {
            let (start, cpu) = (Instant::now(), thread_cpu_now());
            for turn in 1..=200_u32 {
                work(turn);
                let next = start + turn * Duration::from_millis(20);
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
            let share = (thread_cpu_now() - cpu).as_secs_f64() / start.elapsed().as_secs_f64();
            println!("{what}: {:.3} % of one core", share * 100.0);
        };
        paced("50 wake-ups a second", &mut |_| {});
        paced("and 16 lanes, 50 looks and 10 windows a second", &mut |turn| {
            lanes.iter_mut().for_each(LaneProbe::look);
            if turn % 5 == 0 {
                lanes.iter_mut().for_each(|lane| drop(lane.interval()));
                drop(host.host_interval());
            }
        });
        drop(stop);
        sleeper.join().unwrap();
    }
}
