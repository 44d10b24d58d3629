//! What version 0.1 left of a copy is taken up: `../kept/0.1` has the log behind a part as it wrote it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use support::{MIB, Sandbox, WEIR, pattern};

/// Of a file of 16 MiB and the time below, interrupted.
const LOG: &[u8] = include_bytes!("../kept/0.1/part-log");

const SIZE: usize = 16 * MIB;
const TIME: Duration = Duration::from_secs(1_700_000_000);

#[test]
fn a_copy_that_0_1_left_unfinished_is_resumed() {
    let sandbox = Sandbox::new();
    let bytes = pattern(SIZE, 1);
    let source = sandbox.write("a", &bytes);
    File::options().write(true).open(source).unwrap().set_modified(SystemTime::UNIX_EPOCH + TIME).unwrap();
    let part = sandbox.write(".b.weir-part", [&bytes[..], LOG].concat());
    fs::set_permissions(part, fs::Permissions::from_mode(0o600)).unwrap();
    let run = sandbox.weir(WEIR, ["cp", "--json", "a", "b"]).run();
    let resumed = run.succeeds().json()["resumed"].as_u64().unwrap_or(0);
    assert!(resumed >= 2 * MIB as u64, "{resumed} bytes: {}", run.stderr);
    assert!(sandbox.read("b") == bytes);
    assert_eq!(sandbox.names(), ["a", "b"]);
}
