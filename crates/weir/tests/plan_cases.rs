//! Is `weir plan` right? Ten copies over links of 10 to 1000 Mbit/s, each planned first: within 15 % in nine
//! of them.
//!
//! Takes minutes and a quiet machine, so only `make plan-check` runs it (`WEIR_PLAN_CASES=all`, or a number
//! for one case). Not within six minutes of the run before: ext4 passes over inodes that were freed of late
//! (`recently_deleted`, fs/ext4/ialloc.c), and making a small file then takes ten times as long.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use support::{Sandbox, Sshd, pattern};
use weir_bench::corpus::{Corpus, Kind};
use weir_lab::bed::Bed;
use weir_lab::netns::Namespace;
use weir_lab::path::{Direction, Loss, Path, Share};
use weir_units::Rate;

/// What a plan may be off.
const WITHIN: f64 = 0.15;

/// What is copied.
#[derive(Debug, Clone, Copy)]
enum Data {
    Text,
    Random,
    Tree,
}

/// Over what.
#[derive(Debug, Clone, Copy)]
enum Link {
    /// A token bucket at either end of a cable.
    Bucket { mbit: u32 },
    /// An emulated path.
    Path { mbit: f64, one_way: u64, loss: f64 },
}

/// A case: size in MB.
struct Case(Data, Link, usize);

const CASES: [Case; 10] = [
    Case(Data::Text, Link::Bucket { mbit: 10 }, 32),
    Case(Data::Text, Link::Bucket { mbit: 100 }, 240),
    Case(Data::Random, Link::Bucket { mbit: 100 }, 96),
    Case(Data::Tree, Link::Bucket { mbit: 100 }, 160),
    Case(Data::Text, Link::Bucket { mbit: 300 }, 640),
    Case(Data::Text, Link::Bucket { mbit: 1000 }, 700),
    Case(Data::Random, Link::Bucket { mbit: 1000 }, 700),
    Case(Data::Tree, Link::Bucket { mbit: 1000 }, 240),
    Case(Data::Random, Link::Path { mbit: 200.0, one_way: 50, loss: 0.0 }, 200),
    Case(Data::Text, Link::Path { mbit: 50.0, one_way: 10, loss: 0.0001 }, 120),
];

/// The two ends of a case.
struct Ends {
    sshd: Sshd,
    place: EndsBed,
}

/// Where they are: in two namespaces with a cable between them, or at the ends of an emulated path.
enum EndsBed {
    Cable { near: Namespace, _far: Namespace },
    Bed(Bed),
}

impl Ends {
    /// Where weir is started.
    fn near(&self) -> &Namespace {
        match &self.place {
            EndsBed::Cable { near, .. } => near,
            EndsBed::Bed(bed) => bed.near(),
        }
    }
}

impl Link {
    fn ends(self) -> Option<Ends> {
        match self {
            Link::Bucket { mbit } => {
                let (near, far) = (Namespace::new().ok()?, Namespace::new().ok()?);
                connect(&near, &far);
                let rate = format!("{mbit}mbit");
                // A bucket of one tick of the kernel's timer, a queue of 50 ms.
                let burst = (mbit as usize * 125_000 / 250).max(3200).to_string();
                for (place, name, address) in [(&near, "near", "10.77.0.1"), (&far, "far", FAR_END)] {
                    tc(place, &["ip", "address", "add", &format!("{address}/24"), "dev", name]);
                    tc(place, &["ip", "link", "set", name, "up"]);
                    let qdisc =
                        ["tc", "qdisc", "add", "dev", name, "root", "tbf", "rate", &rate, "burst", &burst];
                    tc(place, &[&qdisc[..], &["latency", "50ms"]].concat());
                }
                let sshd = Sshd::start_in(&far, FAR_END)?;
                Some(Ends { sshd, place: EndsBed::Cable { near, _far: far } })
            }
            Link::Path { mbit, one_way, loss } => {
                let direction = Direction {
                    rate: Some(Rate(mbit * 125e3)),
                    delay: Duration::from_millis(one_way),
                    loss: if loss > 0.0 { Loss::Random(Share(loss)) } else { Loss::None },
                    ..Direction::default()
                };
                let bed = Bed::new(&Path::symmetric(direction)).ok()?;
                let sshd = Sshd::start_in(bed.far(), &bed.far_address().to_string())?;
                Some(Ends { sshd, place: EndsBed::Bed(bed) })
            }
        }
    }
}

/// The far end of a cable.
const FAR_END: &str = "10.77.0.2";

/// A cable between two namespaces, `near` at one end of it and `far` at the other. `ip` knows a namespace by
/// a process in it.
fn connect(near: &Namespace, far: &Namespace) {
    let mut inside = Command::new("cat");
    inside.stdin(std::process::Stdio::piped());
    far.enter(&mut inside).unwrap();
    let mut inside = inside.spawn().unwrap();
    let pid = inside.id().to_string();
    tc(near, &["ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", &pid]);
    // It reads the end of its input.
    drop(inside.stdin.take());
    inside.wait().unwrap();
}

fn tc(namespace: &Namespace, words: &[&str]) {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    namespace.enter(&mut command).unwrap();
    assert!(command.status().unwrap().success(), "{words:?}");
}

impl Data {
    fn write(self, sandbox: &Sandbox, mb: usize) {
        let size = mb * 1_000_000;
        let text = || Corpus::generate(Kind::Text, 64 << 20).blocks().flatten().copied().collect::<Vec<u8>>();
        match self {
            Data::Text => {
                sandbox.write("source", text().into_iter().cycle().take(size).collect::<Vec<u8>>());
            }
            Data::Random => {
                sandbox.write("source", pattern(size, 1));
            }
            Data::Tree => {
                // Sizes from 1 to 16 KB, a hundred files a folder.
                let (text, mut at, mut count) = (text(), 0, 0);
                while at < size {
                    let length = 1000 + (count * 7919) % 15_000;
                    let folder = format!("source/{}", count / 100);
                    if count % 100 == 0 {
                        std::fs::create_dir_all(sandbox.path(&folder)).unwrap();
                    }
                    let from = at % (text.len() - length);
                    sandbox.write(&format!("{folder}/{count}"), &text[from..from + length]);
                    at += length;
                    count += 1;
                }
            }
        }
    }
}

/// What the plan says and what the copy reaches.
fn play(Case(data, link, mb): &Case, sandbox: &Sandbox) -> Option<(Value, Value)> {
    let ends = link.ends()?;
    data.write(sandbox, *mb);
    let config = ends.sshd.path("ssh_config").display().to_string();
    let to = format!("far:{}", sandbox.path("target").display());
    let weir = |args: &[&str]| {
        let mut weir = sandbox.weir(support::WEIR, args);
        ends.near().enter(&mut weir.command).unwrap();
        weir.run().succeeds().json()
    };
    settle();
    let plan = weir(&["plan", "-F", &config, "--json", "source", &to]);
    settle();
    let copy = weir(&["cp", "-F", &config, "--json", "source", &to]);
    Some((plan, copy))
}

/// Raw records stay in target/plan, beside the figures that are made of them.
fn keep(number: usize, name: &str, record: &Value) {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("plan");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{number}-{name}.json")), record.to_string()).unwrap();
}

/// Both runs are to find the same machine: nothing on its way to the disk, and no free memory that was in use
/// a moment ago. A virtual machine's host takes free memory back after two seconds (mm/page_reporting.c), and
/// gives it again page by page when it is touched, which costs several times as much as writing to it.
fn settle() {
    rustix::fs::sync();
    std::thread::sleep(Duration::from_secs(3));
}

#[test]
fn plans_are_right_in_nine_of_ten() {
    let Ok(which) = std::env::var("WEIR_PLAN_CASES") else {
        return println!("not asked for: WEIR_PLAN_CASES=all, or make plan-check");
    };
    if !rustix::process::geteuid().is_root() {
        return support::skip("links can only be made by root");
    }
    let chosen = which.parse::<usize>().ok();
    let (mut right, mut all) = (0, 0);
    // Removed together at the end: for a minute after many files are gone, ext4 takes many times longer to
    // make one.
    let mut sandboxes = Vec::new();
    println!("data    link                  predicted   achieved      off  codec, limit of plan -> of copy");
    for (number, case) in CASES.iter().enumerate() {
        if chosen.is_some_and(|chosen| chosen != number) {
            continue;
        }
        sandboxes.push(Sandbox::new());
        let sandbox = &sandboxes[sandboxes.len() - 1];
        let Some((plan, copy)) = play(case, sandbox) else { return support::skip("no link or no sshd") };
        keep(number, "plan", &plan);
        keep(number, "copy", &copy);
        let predicted = &plan["copy"]["predicted"];
        let (rate, reached) = (predicted["rate"].as_f64().unwrap(), copy["rate"].as_f64().unwrap());
        let off = rate / reached - 1.0;
        all += 1;
        right += u32::from(off.abs() <= WITHIN);
        let Case(data, link, _) = case;
        println!(
            "{:7} {:20} {:>10} {:>10} {:+7.1} %  {} {} -> {}",
            format!("{data:?}").to_lowercase(),
            link.to_string(),
            Rate(rate).to_string(),
            Rate(reached).to_string(),
            100.0 * off,
            predicted["codec"].as_str().unwrap(),
            predicted["limit"].as_str().unwrap(),
            copy["verdict"]["limit"].as_str().unwrap_or("none"),
        );
    }
    println!("{right} of {all} within {:.0} %", 100.0 * WITHIN);
    assert!(10 * right >= 9 * all, "{right} of {all}");
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Link::Bucket { mbit } => f.pad(&format!("{mbit} Mbit/s")),
            Link::Path { mbit, one_way, loss } => {
                f.pad(&format!("{mbit} Mbit/s {} ms {} %", 2 * one_way, 100.0 * loss))
            }
        }
    }
}
