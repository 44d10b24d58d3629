//! The three ends that a download from a strange server may have.

use super::runner::{Run, Sandbox};
use super::server::Server;

/// `weir get URL -o out` must end with `bytes` in `out` and nothing beside it.
#[track_caller]
pub(crate) fn brings(server: &Server, args: &[&str], bytes: &[u8]) -> Run {
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out"]).args(args).run();
    run.succeeds();
    assert!(sandbox.read("out") == bytes, "wrong bytes: {} of {}", sandbox.read("out").len(), bytes.len());
    assert_eq!(sandbox.names(), ["out"]);
    run
}

/// `weir get URL -o out` must fail, say `texts` and leave nothing.
#[track_caller]
pub(crate) fn refuses(server: &Server, args: &[&str], code: i32, texts: &[&str]) -> Run {
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "--retries", "1"]).args(args).run();
    run.fails(code, texts);
    assert_eq!(sandbox.names(), [""; 0]);
    run
}

/// `weir get URL -o out` may fail or bring `bytes`, but never anything else.
#[track_caller]
pub(crate) fn never_brings_another(server: &Server, args: &[&str], bytes: &[u8]) -> Run {
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "--retries", "1"]).args(args).run();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    match run.status.code() {
        Some(0) => {
            assert!(sandbox.read("out") == bytes, "a wrong file of {} bytes", sandbox.read("out").len())
        }
        Some(1 | 4) => assert!(!sandbox.path("out").exists()),
        other => panic!("exit code {other:?}: {}", run.stderr),
    }
    run
}
