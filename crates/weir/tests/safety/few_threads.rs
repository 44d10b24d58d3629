//! What becomes of commands that the system gives no further thread: a cause and a way out, neither a panic
//! nor a wait without an end.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::os::unix::fs::PermissionsExt;

use support::{Sandbox, WEIR, skip};

#[test]
fn who_may_have_no_thread_is_told_so() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root becomes another user, whose processes are counted");
    }
    let sandbox = Sandbox::new();
    // Where everybody may run the binary and write.
    support::copy_program(WEIR, sandbox.path("weir"));
    std::fs::set_permissions(sandbox.path("."), std::fs::Permissions::from_mode(0o777)).unwrap();
    sandbox.write("a", "text");
    for words in [
        "serve . --listen 127.0.0.1:0",
        "get http://127.0.0.1:9/x -o x --retries 0",
        "put a http://127.0.0.1:9/a",
        "ls s3://bucket/",
        "bench mem",
        "bench codec --generate text --size 1M --codec none",
    ] {
        let script = format!("ulimit -u 0; exec ./weir {words}");
        // A number of its own, of which no other process is.
        let ids = ["--reuid=64124", "--regid=64124", "--clear-groups", "bash", "-c", &script];
        let run = sandbox.weir("setpriv", ids).run();
        run.fails(1, &["cannot start a thread: resource temporarily unavailable", "ulimit -u"]);
        assert!(run.stdout.is_empty(), "{words}: it announced what it does not do");
    }
}
