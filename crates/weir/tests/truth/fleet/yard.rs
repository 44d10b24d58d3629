//! The namespaces of a fleet: a server, a router, and hosts, each with a link to the router; and a plan.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_fleet::ledger::{LedgerPlace, Patience, PlanEnds, PlannedBatch};
use weir_fleet::object::{FleetObject, pack};
use weir_lab::leftovers::Folder;
use weir_lab::netns::Namespace;
use weir_lab::slow_disk::{SlowDisk, SlowDiskConfig};
use weir_units::{Bytes, Rate};

use super::cases::FleetCase;
use crate::support::wires::{cable, run, shape};
use crate::support::{Object, Sandbox, Server, WEIR, Weir};

/// Of each object.
const SIZE: usize = 128 << 10;

/// Objects of a batch: a second of a host.
const BATCH: usize = 24;

/// The server's address.
const SERVER: &str = "10.78.0.1";

/// See the module. The server ends before its namespace.
pub(crate) struct Yard {
    server: Server,
    hosts: Vec<Namespace>,
    _router: Namespace,
    _far: Namespace,
    disk: Option<(usize, SlowDisk)>,
    pub(crate) sandbox: Sandbox,
}

impl Yard {
    pub(crate) fn make(lab: &Folder, case: &FleetCase) -> anyhow::Result<Yard> {
        let (far, router) = (Namespace::new()?, Namespace::new()?);
        router.set_sysctl("net.ipv4.ip_forward", "1")?;
        cable((&far, "router", "10.78.0.1"), (&router, "server", "10.78.0.2"))?;
        run(&far, &["ip", "route", "add", "default", "via", "10.78.0.2"])?;
        shape(&far, "router", case.shared)?;
        let mut hosts = Vec::new();
        for (number, mbit) in case.links.iter().enumerate() {
            let (host, name) = (Namespace::new()?, format!("h{number}"));
            let net = |end| format!("10.78.{}.{end}", number + 1);
            cable((&router, &name, &net(2)), (&host, "router", &net(1)))?;
            run(&host, &["ip", "route", "add", "default", "via", &net(2)])?;
            shape(&router, &name, *mbit)?;
            hosts.push(host);
        }
        println!("{}: sent by {}", case.name, far.sysctl("net.ipv4.tcp_congestion_control")?.trim());
        let server = far.run(|| serve(case))?.ok_or_else(|| anyhow::anyhow!("no port for the server"))?;
        // In memory: no disk of this machine is to take a part in what it was not made for.
        let sandbox = Sandbox::new_in(Path::new("/dev/shm"));
        std::fs::create_dir(sandbox.path("out"))?;
        let disk = case.disk.map(|(host, rate)| {
            let config =
                SlowDiskConfig { rate: Rate(rate), dirty: Some(Bytes(1 << 20)), size: Bytes(256 << 20) };
            anyhow::Ok((host, SlowDisk::make(lab, "fleet-disk", &config)?))
        });
        let yard = Yard { server, hosts, _router: router, _far: far, disk: disk.transpose()?, sandbox };
        yard.plan(case.objects)?;
        Ok(yard)
    }

    fn plan(&self, count: usize) -> anyhow::Result<()> {
        let object = |number: usize| {
            let name = format!("{}/{number}.bin", number / 100).into_bytes();
            FleetObject {
                source: name.clone(),
                target: name,
                size: Some(SIZE as u64),
                ..FleetObject::default()
            }
        };
        let objects: Vec<FleetObject> = (0..count).map(object).collect();
        let planned = |objects: &[FleetObject]| PlannedBatch {
            objects: objects.len() as u64,
            bytes: (objects.len() * SIZE) as u64,
            lines: pack(objects),
        };
        let batches: Vec<PlannedBatch> = objects.chunks(BATCH).map(planned).collect();
        let patience = Patience { longest: Duration::from_secs(30), stop: Arc::default() };
        let mut ledger = LedgerPlace::File(self.sandbox.path("plan.db")).open_or_create(patience)?;
        let ends = PlanEnds {
            source: self.server.url("d/"),
            target: self.sandbox.path("out").display().to_string(),
        };
        let mut lease = ledger.begin(&ends, "a test", 2)?;
        ledger.append(&mut lease, &batches, &[])?;
        ledger.seal(&lease)?;
        Ok(())
    }

    /// A worker on a host.
    pub(crate) fn work(&self, host: usize) -> anyhow::Result<Weir> {
        let name = format!("h{host}");
        let own = self.disk.as_ref().filter(|(slow, _)| *slow == host).map(|(_, disk)| disk);
        let words = ["fleet", "work", "--ledger", "plan.db", "--name", &name];
        let mut weir = match own {
            None => self.sandbox.weir(WEIR, words),
            // On this host the folder of the plan is on another disk.
            Some(disk) => {
                let script = "mount --bind \"$0\" out && exec \"$@\"";
                let before = ["-m", "sh", "-c", script, &disk.path().display().to_string(), WEIR];
                self.sandbox.weir("unshare", before).args(&words)
            }
        };
        self.hosts[host].enter(&mut weir.command)?;
        if let Some(disk) = own {
            disk.join(&mut weir.command)?;
        }
        Ok(weir)
    }
}

fn serve(case: &FleetCase) -> Option<Server> {
    let (object, pace) = (Object::new(SIZE), case.source);
    let turn = Mutex::new(Instant::now());
    Server::start_on(&format!("{SERVER}:0"), move |request, wire| {
        if let Some(pace) = pace {
            let mut next = turn.lock().expect("an unpoisoned instant");
            *next = (*next).max(Instant::now()) + Duration::from_secs_f64(SIZE as f64 / pace as f64);
            let until = *next;
            drop(next);
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        object.serve(request, wire)
    })
}
