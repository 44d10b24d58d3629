//! What version 0.1 left beside a target is taken up: `../kept/0.1` has a journal as it wrote it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use support::{MIB, Object, Sandbox, Server};
use weir_units::boot;

/// Of `http://kept.example/x`: 8 MiB, `ETag: "one"`, interrupted.
const JOURNAL: &str = include_str!("../kept/0.1/out.weir");

const SIZE: usize = 8 * MIB;

#[test]
fn a_download_that_0_1_left_unfinished_is_resumed() {
    let object = Object::new(SIZE);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| object.serve(request, wire));
    let journal: Value = serde_json::from_str(JOURNAL.lines().nth(1).unwrap()).unwrap();
    // What the journal is sure of, and else nothing: after another start of the machine what was on the disk.
    let sure = if journal["boot"] == boot::id() { "written" } else { "durable" };
    let mut part = vec![0; SIZE];
    let mut there = 0;
    for range in journal[sure].as_array().unwrap() {
        let [start, end] = [0, 1].map(|at| range[at].as_u64().unwrap() as usize);
        part[start..end].copy_from_slice(&bytes[start..end]);
        there += end - start;
    }
    assert!(there > MIB && there < SIZE, "{there} bytes");
    let sandbox = Sandbox::new();
    for (name, bytes) in [("out.part", &part[..]), ("out.weir", JOURNAL.as_bytes())] {
        fs::set_permissions(sandbox.write(name, bytes), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let way = format!("kept.example:80:{}", server.address());
    let run = sandbox.get(["http://kept.example/x", "-o", "out", "--json", "--connect-to", &way]).run();
    let record = run.succeeds().json();
    assert_eq!(record["files"][0]["resumed_from"], there, "{}", run.stderr);
    assert_eq!(record["bytes"], SIZE - there);
    assert!(sandbox.read("out") == *bytes);
}
