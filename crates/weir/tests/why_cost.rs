//! What looking costs: run by hand, in release, on a quiet machine.
#![allow(clippy::unwrap_used, reason = "clippy takes a test's helper functions for library code")]

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use support::{Sandbox, WEIR};

#[test]
#[ignore = "a measurement, run by hand in release"]
fn cost_of_many_sockets() {
    for count in [1, 100, 5_000] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut pairs: Vec<(TcpStream, TcpStream)> = (0..count)
            .map(|_| {
                let near = TcpStream::connect(("127.0.0.1", port)).unwrap();
                (near, listener.accept().unwrap().0)
            })
            .collect();
        let own = std::process::id().to_string();
        let watch = std::thread::spawn(move || {
            Sandbox::new().weir(WEIR, ["why", "--json", "--for", "5s", "--pid", &own]).run().json()
        });
        let mut room = [0; 1000];
        while !watch.is_finished() {
            for (near, far) in pairs.iter_mut().take(100) {
                near.write_all(&[7; 1000]).unwrap();
                far.read_exact(&mut room).unwrap();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let record = watch.join().unwrap();
        println!("{count} connections: {} of one core", record["why"]["own_cpu"]);
        println!("  {}", record["verdict"]["missing"]);
    }
}
