//! The link between two real namespaces. What time does is judged by the emulator's own clock and counters
//! and by bounds that hold on a busy machine: a packet is never early, a link never too fast.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use weir_lab::bed::Bed;
use weir_lab::path::{Direction, Fidelity, Loss, Path, Queue, QueueLimit, Share};
use weir_lab::{LabError, congestion};
use weir_units::{Bytes, Rate};

/// A test that waits this long for anything has failed.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A bed, or a word on why there is none; on CI its absence is a failure.
fn bed(path: &Path) -> Option<Bed> {
    match Bed::new(path) {
        Ok(bed) => Some(bed),
        Err(error @ LabError::Refused { .. }) => skip(&error.to_string()),
        Err(error) => panic!("{error:?}"),
    }
}

fn skip<T>(why: &str) -> Option<T> {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "needed on CI: {why}");
    println!("skipped: {why}");
    None
}

/// Sends `bytes` from far to near on one connection; returns how long the near end took to read them.
fn download(bed: &Bed, bytes: usize) -> Duration {
    let far = bed.far_address();
    let listener = bed.far().run(|| TcpListener::bind((far, 7000)).unwrap()).unwrap();
    let server = bed.far().spawn(move || listener.accept().unwrap().0.write_all(&vec![7; bytes]).unwrap());
    let span = bed.near().run(|| {
        let mut stream = TcpStream::connect((far, 7000)).unwrap();
        let (start, mut got) = (Instant::now(), Vec::new());
        stream.read_to_end(&mut got).unwrap();
        assert!(got.len() == bytes && got.iter().all(|byte| *byte == 7), "{} bytes came", got.len());
        start.elapsed()
    });
    server.unwrap().join().unwrap();
    span.unwrap()
}

/// Sends so many datagrams from the near end to the far one, and returns when the link has taken them all in.
fn send_up(bed: &Bed, count: u64, bytes: usize) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let (data, start) = (vec![0; bytes], Instant::now());
    for number in 1..=count {
        // Where nobody listens the answer may be an error to the next send, and the wire has carried it all
        // the same.
        let _ = socket.send_to(&data, (bed.far_address(), 9));
        // The device keeps 500 packets for the link's thread and drops what comes beyond.
        while (number % 250 == 0 || number == count) && bed.counters().up.link.packets_in < number {
            assert!(start.elapsed() < TIMEOUT, "packets that never came in");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_link_is_never_too_fast() {
    let slow = Direction { rate: Some(Rate(2.5e6)), ..Direction::default() };
    for fidelity in [Fidelity::Packet, Fidelity::Gso] {
        let Some(bed) = bed(&Path { down: slow.clone(), fidelity, ..Path::default() }) else { return };
        download(&bed, 1_000_000);
        let before = bed.counters().down.link.bytes_out;
        let span = download(&bed, 2_500_000);
        let wire = bed.counters().down.link.bytes_out - before;
        // The first bytes may be out before the clock starts; nothing else can make it faster.
        let rate = wire as f64 / span.as_secs_f64();
        assert!(rate < 2.5e6 * 1.03, "{fidelity:?}: {rate} bytes/s");
        assert_eq!(bed.counters().down.refused, 0);
    }
}

/// What waits in the queue leaves at the link's rate however late its thread gets a processor: only the last
/// packets' lateness can be seen. A transfer over TCP would not do here, since it slows down with the
/// processors.
#[test]
fn a_link_with_a_full_queue_carries_its_rate() {
    let queue = Queue { limit: QueueLimit::Bytes(Bytes(10_000_000)), ..Queue::default() };
    let slow = Direction { rate: Some(Rate(2.5e6)), queue, ..Direction::default() };
    let Some(bed) = bed(&Path { up: slow, ..Path::default() }) else { return };
    let seen = || bed.counters().up.link;
    let (wire, span) = bed
        .near()
        .run(|| {
            let start = Instant::now();
            send_up(&bed, 3500, 1400);
            let wire = seen().bytes_in;
            while seen().bytes_out < wire {
                std::thread::sleep(Duration::from_millis(1));
            }
            (wire, start.elapsed())
        })
        .unwrap();
    let (rate, seen) = (wire as f64 / span.as_secs_f64(), seen());
    assert!((2.5e6 * 0.80..2.5e6 * 1.01).contains(&rate), "{rate} bytes/s: {seen:?}");
    assert!(wire > 3500 * 1400 && seen.overflowed == 0, "{seen:?}");
}

#[test]
fn a_round_trip_takes_at_least_its_delay() {
    let delay = Duration::from_millis(20);
    let Some(bed) = bed(&Path::symmetric(Direction { delay, ..Direction::default() })) else { return };
    let far = bed.far_address();
    let echo = bed.far().run(|| UdpSocket::bind((far, 7)).unwrap()).unwrap();
    let server = bed.far().spawn(move || {
        let mut buffer = [0; 8];
        // An empty one is the end.
        while let (length @ 1.., from) = echo.recv_from(&mut buffer).unwrap() {
            echo.send_to(&buffer[..length], from).unwrap();
        }
    });
    let times = bed.near().run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect((far, 7)).unwrap();
        let trip = |number: u8| {
            let start = Instant::now();
            socket.send(&[number]).unwrap();
            let mut answer = [0; 8];
            assert_eq!(socket.recv(&mut answer).unwrap(), 1);
            assert_eq!(answer[0], number);
            start.elapsed()
        };
        let (start, mut times) = (Instant::now(), Vec::<Duration>::new());
        // One of them finds the machine awake; 5 ms would be an error of the emulator.
        while times.len() < 20 || times.iter().all(|time| *time >= 2 * delay + Duration::from_millis(5)) {
            assert!(start.elapsed() < TIMEOUT, "{times:?}");
            times.push(trip(times.len() as u8));
        }
        socket.send(&[]).unwrap();
        times
    });
    let times = times.unwrap();
    server.unwrap().join().unwrap();
    assert!(times.iter().all(|time| *time >= 2 * delay), "{times:?}");
}

#[test]
fn the_share_asked_for_is_lost_and_the_rest_arrives() {
    let lossy = Direction { loss: Loss::Random(Share(0.1)), ..Direction::default() };
    let Some(bed) = bed(&Path { up: lossy, seed: 7, ..Path::default() }) else { return };
    let far = bed.far_address();
    let sink = bed.far().run(|| UdpSocket::bind((far, 9)).unwrap()).unwrap();
    bed.near().run(|| send_up(&bed, 2000, 4)).unwrap();
    let seen = bed.counters().up.link;
    // 200 expected, 13 the standard deviation.
    assert!((140..260).contains(&seen.lost), "{seen:?}");
    assert_eq!(seen.packets_in, seen.lost + seen.packets_out + seen.under_way);
    sink.set_nonblocking(true).unwrap();
    let arrived = std::iter::from_fn(|| sink.recv(&mut [0; 8]).ok()).count() as u64;
    // 64 bytes of payload count as a page fragment: its receive buffer may hold fewer than all.
    assert!(arrived > 0 && arrived <= seen.packets_out, "{arrived} of {seen:?}");
}

#[test]
fn a_path_can_change_under_way() {
    let fast = Direction { rate: Some(Rate(10e6)), ..Direction::default() };
    let slow = Direction { rate: Some(Rate(1e6)), ..Direction::default() };
    let Some(bed) = bed(&Path { down: fast, ..Path::default() }) else { return };
    download(&bed, 1_000_000);
    bed.set_path(&Path { down: slow, ..Path::default() }).unwrap();
    assert!(download(&bed, 1_000_000) > Duration::from_millis(950));
}

#[test]
fn a_short_queue_overflows_and_everything_still_arrives() {
    let shallow = Direction {
        rate: Some(Rate(2e6)),
        delay: Duration::from_millis(10),
        queue: Queue { limit: QueueLimit::Bytes(Bytes(6000)), ..Queue::default() },
        ..Direction::default()
    };
    let Some(bed) = bed(&Path { down: shallow, ..Path::default() }) else { return };
    download(&bed, 1_000_000);
    let seen = bed.counters().down.link;
    assert!(seen.overflowed > 0 && seen.lost == 0 && seen.policed == 0, "{seen:?}");
}

#[test]
fn a_child_begins_inside_and_finds_the_way() {
    let Some(bed) = bed(&Path::default()) else { return };
    let mut command = Command::new("cat");
    command.args(["/proc/net/dev", "/proc/net/route"]);
    bed.near().enter(&mut command).unwrap();
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let devices: Vec<&str> =
        text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim()).collect();
    assert!(devices.contains(&"lo") && devices.contains(&"weir0"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("weir0\t00000000")), "no default route: {text}");
}

/// What namespaces may choose where no lab has added to it: other tests' labs keep the old list in a record.
fn allowed_without_labs() -> String {
    let record = || std::fs::read_to_string("/run/weir/tcp_allowed_congestion_control").unwrap_or_default();
    loop {
        let before = record();
        let now = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control").unwrap();
        if record() == before {
            return before.lines().next().map_or(now, str::to_owned);
        }
    }
}

#[test]
fn congestion_controls_can_be_chosen() {
    let Some(bed) = bed(&Path::default()) else { return };
    let allowed = match congestion::allow() {
        Ok(allowed) => allowed,
        Err(error) => return skip(&error.to_string()).unwrap_or_default(),
    };
    let before = allowed_without_labs();
    let second = congestion::allow().unwrap();
    drop(allowed);
    for name in ["reno", "cubic"] {
        bed.set_sysctl("net.ipv4.tcp_congestion_control", name).unwrap();
        assert_eq!(bed.far().sysctl("net.ipv4.tcp_congestion_control").unwrap(), name);
    }
    drop(second);
    let error = bed.set_sysctl("net.ipv4.tcp_congestion_control", "nonesuch").unwrap_err().to_string();
    assert!(error.contains("'nonesuch'") && error.contains("sysctl -w"), "{error}");
    assert!(bed.set_sysctl("vm.dirty_bytes", "1").unwrap_err().to_string().contains("only net.*"));
    let after = allowed_without_labs();
    assert!(before.split_whitespace().all(|name| after.contains(name)), "{before} became {after}");
}

#[test]
fn nothing_is_left_behind() {
    let Some(bed) = bed(&Path::default()) else { return };
    let namespace = bed.near().run(|| std::fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
    drop(bed);
    // No file descriptor, and no thread of this process, holds it any more.
    let holds = |folder: &str| {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.flatten().any(|entry| {
            [entry.path(), entry.path().join("ns/net")]
                .iter()
                .any(|link| std::fs::read_link(link).is_ok_and(|target| target == namespace))
        })
    };
    assert!(!holds("/proc/self/fd") && !holds("/proc/self/task"));
}
