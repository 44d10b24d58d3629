//! How true is the emulated link? Prints asked against seen: rates, round trips, and what the emulator costs.
//!
//! `cargo run --release -p weir-lab --example link_speed -- [rates|delays|gso|one MBIT MS gso|packet]`
//!
//! With `WEIR_LAB_CC=cubic` in the environment by that congestion control; the machine's own is used without
//! it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_lab::bed::Bed;
use weir_lab::path::{Direction, Fidelity, Path};
use weir_lab::{LabError, congestion};
use weir_units::Rate;

fn main() -> Result<(), LabError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["rates"] => rates(),
        ["delays"] => delays(),
        ["gso"] => gso(),
        ["one", mbit, millis, fidelity] => one(
            mbit.parse().unwrap_or(0.0),
            millis.parse().unwrap_or(0.0),
            if fidelity == "gso" { Fidelity::Gso } else { Fidelity::Packet },
        ),
        _ => rates().and_then(|()| delays()).and_then(|()| gso()),
    }
}

fn rates() -> Result<(), LabError> {
    [1.0, 10.0, 100.0, 400.0, 1000.0, 2000.0]
        .into_iter()
        .try_for_each(|mbit| one(mbit, 1.0, Fidelity::Packet))
}

fn gso() -> Result<(), LabError> {
    [1000.0, 5000.0, 10000.0, 0.0].into_iter().try_for_each(|mbit| one(mbit, 0.5, Fidelity::Gso))
}

fn path(mbit: f64, one_way: f64, fidelity: Fidelity) -> Path {
    let direction = Direction {
        rate: (mbit > 0.0).then_some(Rate(mbit * 125_000.0)),
        delay: Duration::from_secs_f64(one_way / 1e3),
        ..Direction::default()
    };
    Path { fidelity, ..Path::symmetric(direction) }
}

/// One connection downloads for 4 s; the last 3 count.
fn one(mbit: f64, one_way: f64, fidelity: Fidelity) -> Result<(), LabError> {
    let bed = Bed::new(&path(mbit, one_way, fidelity))?;
    let chosen = std::env::var("WEIR_LAB_CC").ok();
    let _allowed = chosen.is_some().then(congestion::allow).transpose()?;
    if let Some(name) = chosen {
        bed.set_sysctl("net.ipv4.tcp_congestion_control", &name)?;
    }
    let far = bed.far_address();
    let listener = bed.far().run(|| TcpListener::bind((far, 7000)))?.expect("bind");
    let server = bed.far().spawn(move || {
        let (mut stream, _) = listener.accept().expect("accept");
        let piece = vec![7; 1 << 18];
        while stream.write_all(&piece).is_ok() {}
    })?;
    let seen = bed.near().run(|| {
        let mut stream = TcpStream::connect((far, 7000)).expect("connect");
        read_for(&mut stream, Duration::from_secs(1));
        let (start, before, busy) = (Instant::now(), bed.counters().down, cpu_of_link());
        let stop = AtomicBool::new(false);
        let (bytes, idle) = std::thread::scope(|scope| {
            let idle = scope.spawn(|| idle_share(&bed, &stop));
            let bytes = read_for(&mut stream, Duration::from_secs(3));
            stop.store(true, Relaxed);
            (bytes, idle.join().expect("looks"))
        });
        let span = start.elapsed().as_secs_f64();
        let after = bed.counters().down;
        let wire = (after.link.bytes_out - before.link.bytes_out) as f64 / span;
        (bytes as f64 / span, wire, after, (cpu_of_link() - busy).as_secs_f64() / span, idle)
    })?;
    let (goodput, wire, counters, cpu, idle) = seen;
    let mean = counters.lateness.mean(counters.link.packets_out);
    println!(
        "{fidelity:?} asked {mbit:7.0} Mbit/s wire {:9.3} ({:+.2} %) goodput {:9.3} cpu {:5.1} % nothing waits {:4.1} % late mean {mean:?} worst {:?} dropped {} refused {}",
        wire * 8e-6,
        (wire * 8e-6 / mbit - 1.0) * 100.0,
        goodput * 8e-6,
        cpu * 100.0,
        idle * 100.0,
        Duration::from_nanos(counters.lateness.worst_nanos),
        counters.link.dropped(),
        counters.refused,
    );
    // While the link still works: the client's reset ends the server's write.
    server.join().expect("server");
    Ok(())
}

/// The share of looks at which no packet waits for the link: the sender's fault, if the rate is missed then.
fn idle_share(bed: &Bed, stop: &AtomicBool) -> f64 {
    let (mut looks, mut idle) = (0, 0);
    while !stop.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
        looks += 1;
        idle += u32::from(bed.counters().down.link.queued_bytes == 0);
    }
    f64::from(idle) / f64::from(looks.max(1))
}

fn read_for(stream: &mut TcpStream, span: Duration) -> u64 {
    let mut buffer = vec![0; 1 << 18];
    let (start, mut bytes) = (Instant::now(), 0);
    while start.elapsed() < span {
        bytes += stream.read(&mut buffer).expect("read") as u64;
    }
    bytes
}

/// Processor time of the emulator's two threads so far.
fn cpu_of_link() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
    let ticks: u64 = tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok())
        .filter(|stat| stat.contains("(weir-up)") || stat.contains("(weir-down)"))
        .map(|stat| {
            let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
            fields[11].parse::<u64>().unwrap_or(0) + fields[12].parse::<u64>().unwrap_or(0)
        })
        .sum();
    Duration::from_millis(ticks * 10)
}

fn delays() -> Result<(), LabError> {
    for round_trip in [1.0, 20.0, 100.0] {
        let bed = Bed::new(&path(0.0, round_trip / 2.0, Fidelity::Packet))?;
        let far = bed.far_address();
        let echo = bed.far().run(|| UdpSocket::bind((far, 7))).expect("ns").expect("bind");
        let server = bed.far().spawn(move || {
            let mut buffer = [0; 64];
            while let Ok((length, from)) = echo.recv_from(&mut buffer) {
                if length == 0 {
                    break;
                }
                echo.send_to(&buffer[..length], from).expect("echo");
            }
        })?;
        let mut times = bed.near().run(|| ping(far))?;
        times.sort();
        println!(
            "round trip asked {round_trip} ms: min {:?} median {:?} p95 {:?} max {:?}",
            times[0],
            times[times.len() / 2],
            times[times.len() * 95 / 100],
            times[times.len() - 1]
        );
        server.join().expect("server");
    }
    Ok(())
}

fn ping(far: Ipv4Addr) -> Vec<Duration> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("bind");
    socket.connect((far, 7)).expect("connect");
    let times = (0..50)
        .map(|_| {
            let start = Instant::now();
            socket.send(&[1]).expect("send");
            socket.recv(&mut [0; 8]).expect("receive");
            start.elapsed()
        })
        .collect();
    socket.send(&[]).expect("send");
    times
}
