//! `weir cp --to-hosts` to hosts at two sites with 100 ms between them: each has a network of its own and an
//! sshd of its own behind its site's router, and the path between the routers is the lab's, which counts what
//! crosses it. The source is at the first site.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::time::Duration;

use serde_json::Value;
use support::wires::{cable, run};
use support::{MIB, Sandbox, Special, Sshd, WEIR, pattern, skip};
use weir_lab::bed::Bed;
use weir_lab::netns::Namespace;
use weir_lab::path::{Direction, Loss, Path, Share};
use weir_units::Rate;

/// Three hosts at each site.
const HOSTS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn site(host: &str) -> usize {
    HOSTS.iter().position(|other| *other == host).unwrap() / 3
}

/// 100 Mbit/s and 100 ms there and back.
fn path(loss: Loss) -> Path {
    let rate = Some(Rate(12.5e6));
    Path::symmetric(Direction { rate, delay: Duration::from_millis(50), loss, ..Direction::default() })
}

struct Sites {
    sandbox: Sandbox,
    bed: Bed,
    _hosts: Vec<(Namespace, Sshd)>,
}

impl Sites {
    fn make(path: &Path) -> Option<Sites> {
        if !rustix::process::geteuid().is_root() {
            skip("only root makes networks");
            return None;
        }
        let bed = match Bed::new(path) {
            Ok(bed) => bed,
            Err(error) => {
                skip(&error.to_string());
                return None;
            }
        };
        bed.set_sysctl("net.ipv4.ip_forward", "1").unwrap();
        // In memory: no disk is to take a part.
        let sandbox = Sandbox::new_in(std::path::Path::new("/dev/shm"));
        std::fs::create_dir(sandbox.path("there")).unwrap();
        let hosts = HOSTS.iter().map(|name| Sites::host(name, &bed, &sandbox));
        let hosts: Vec<(Namespace, Sshd)> = hosts.collect::<Option<_>>()?;
        let config: String = HOSTS.iter().zip(&hosts).map(|(name, (_, sshd))| of_ssh(name, sshd)).collect();
        sandbox.write("ssh_config", config);
        Some(Sites { sandbox, bed, _hosts: hosts })
    }

    /// A host behind its site's router, with a folder of its own where all have one of the same name.
    fn host(name: &str, bed: &Bed, sandbox: &Sandbox) -> Option<(Namespace, Sshd)> {
        let router = [bed.near(), bed.far()][site(name)];
        let host = Namespace::new().unwrap();
        let [own, way] = [1, 2].map(|end| address(name, end));
        cable((router, &format!("to-{name}"), &way), (&host, "router", &own)).unwrap();
        run(&host, &["ip", "route", "add", "default", "via", &way]).unwrap();
        let [folder, there] = [format!("hosts/{name}"), "there".to_owned()].map(|name| sandbox.path(name));
        std::fs::create_dir_all(&folder).unwrap();
        let script = format!("mount --bind {} {}", folder.display(), there.display());
        let special =
            Special { place: Some((&host, &own)), within: Some(("-m", &script)), ..Special::default() };
        let sshd = Sshd::special(special)?;
        Some((host, sshd))
    }

    /// Copies to all; the record, and how often the file crossed the way between the sites.
    fn copies(&self, source: &str, list: &str, name: &str, args: &[&str]) -> (Value, f64) {
        let crossed = || {
            let counted = self.bed.counters();
            [counted.up, counted.down].map(|direction| direction.link.bytes_out as f64)
        };
        let (size, before) = (self.sandbox.path("data").metadata().unwrap().len() as f64, crossed());
        let config = self.sandbox.path("ssh_config").display().to_string();
        let to = format!("{list}:{}/{name}", self.sandbox.path("there").display());
        let words = ["cp", "-F", &config, "--json", source, "--to-hosts", &to];
        let mut cp = self.sandbox.weir(WEIR, words).args(args);
        self.bed.near().enter(&mut cp.command).unwrap();
        let record = cp.spawn().wait_for(Duration::from_secs(300)).succeeds().json();
        let after = crossed();
        (record, (after[0] - before[0]).max(after[1] - before[1]) / size)
    }
}

/// Of a host, which is 1 in its network; its router is 2.
fn address(host: &str, end: u8) -> String {
    format!("10.92.{}.{end}", HOSTS.iter().position(|other| *other == host).unwrap())
}

fn of_ssh(name: &str, sshd: &Sshd) -> String {
    format!(
        "Host {name}\n HostName {}\n Port {}\n IdentityFile {}\n IdentitiesOnly yes\n UserKnownHostsFile {}\n \
         StrictHostKeyChecking accept-new\n LogLevel ERROR\n BatchMode yes\n",
        address(name, 1),
        sshd.port(),
        sshd.path("key").display(),
        sshd.path("known").display(),
    )
}

/// Hosts that had it from the other site.
fn across(record: &Value) -> Vec<&Value> {
    let rows = record["cp"]["hosts"].as_array().unwrap().iter();
    let crosses = |row: &&Value| site(row["host"].as_str().unwrap()) != row["from"].as_str().map_or(0, site);
    rows.filter(crosses).collect()
}

#[test]
fn the_way_between_two_sites_is_crossed_once() {
    let Some(sites) = Sites::make(&path(Loss::None)) else { return };
    let data = sites.sandbox.write("data", pattern(12 * MIB, 1));
    std::fs::copy(&data, sites.sandbox.path("hosts/e/data")).unwrap();
    let far = format!("e:{}/data", sites.sandbox.path("there").display());
    // By groups, or else by how far hosts are from the source.
    for (name, source, list) in [
        ("groups", "data", "near: a b c; far: d e f"),
        ("mixed", "data", "a,d,b,e,c,f"),
        ("from_far", &far, "a,d,b,f"),
    ] {
        let (record, crossed) = sites.copies(source, list, name, &[]);
        println!("{name}: the file crossed {crossed:.3} times");
        let rows = record["cp"]["hosts"].as_array().unwrap();
        // Headers are 4 % of what crosses.
        assert!((1.0..1.2).contains(&crossed), "{name}: it crossed {crossed:.2} times: {record}");
        let crossing = across(&record);
        assert_eq!(crossing.len(), 1, "{name}: {record}");
        for row in rows {
            let host = row["host"].as_str().unwrap();
            assert_eq!((&row["outcome"], &row["verified"]), (&"complete".into(), &true.into()), "{row}");
            assert!(sites.sandbox.read(&format!("hosts/{host}/{name}")) == std::fs::read(&data).unwrap());
            // One whose path is long has more connections; on a busy machine others may have, too.
            let is_long = row["host"] == crossing[0]["host"];
            assert!(!is_long || row["lanes"].as_u64().unwrap() > 2, "{name}: {row}");
        }
    }
}

/// The figures of the guide. On a machine that rests: nothing is asserted by time in a test otherwise.
#[test]
fn six_hosts_at_two_sites_in_the_time_of_one() {
    if std::env::var_os("WEIR_SOAK").is_none() {
        return;
    }
    for (loss, share) in [(Loss::None, "none"), (Loss::Random(Share(0.001)), "0.1 %")] {
        let Some(sites) = Sites::make(&path(loss)) else { return };
        sites.sandbox.write("data", pattern(100 * MIB, 1));
        let seconds = |record: &Value| record["seconds"].as_f64().unwrap();
        let one = seconds(&sites.copies("data", "d", "one", &[]).0);
        let (two, _) = sites.copies("data", "a,d,b,e,c,f", "two", &["--lanes", "2"]);
        let (all, crossed) = sites.copies("data", "a,d,b,e,c,f", "all", &[]);
        println!(
            "loss {share}: one copy {one:.1} s, six {:.1} s over {} connections and crossed {crossed:.3} times, with two {:.1} s",
            seconds(&all),
            across(&all)[0]["lanes"],
            seconds(&two),
        );
        assert!(seconds(&all) < one * 1.35, "loss {share}: {} s where one takes {one} s", seconds(&all));
    }
}
