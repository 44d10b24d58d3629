//! Cables between network namespaces, and what they carry.

use std::process::{Command, Stdio};

use weir_lab::netns::Namespace;

/// A cable between two namespaces, each with the name of its interface and its address. `ip` knows a
/// namespace by a process in it.
pub(crate) fn cable(one: (&Namespace, &str, &str), other: (&Namespace, &str, &str)) -> anyhow::Result<()> {
    let mut inside = Command::new("cat");
    inside.stdin(Stdio::piped());
    other.0.enter(&mut inside)?;
    let mut inside = inside.spawn()?;
    let pid = inside.id().to_string();
    let made = run(
        one.0,
        &["ip", "link", "add", "name", one.1, "type", "veth", "peer", "name", other.1, "netns", &pid],
    );
    // It reads the end of its input.
    drop(inside.stdin.take());
    inside.wait()?;
    made?;
    for (place, name, address) in [one, other] {
        run(place, &["ip", "address", "add", &format!("{address}/24"), "dev", name])?;
        run(place, &["ip", "link", "set", name, "up"])?;
    }
    Ok(())
}

/// A bucket of one tick of the kernel's timer and a queue of 50 ms.
pub(crate) fn shape(place: &Namespace, name: &str, mbit: u32) -> anyhow::Result<()> {
    let (rate, burst) = (format!("{mbit}mbit"), (mbit * 125_000 / 250).max(3200).to_string());
    let words = ["tc", "qdisc", "add", "dev", name, "root", "tbf", "rate", &rate, "burst", &burst];
    run(place, &[&words[..], &["latency", "50ms"]].concat())
}

/// Runs a command inside.
pub(crate) fn run(place: &Namespace, words: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    place.enter(&mut command)?;
    let done = command.output()?;
    anyhow::ensure!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}
