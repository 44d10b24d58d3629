//! `weir put` to moto, which plays Amazon S3, read back by other means.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use support::bucket::put;
use support::http_servers::moto;
use support::{MIB, Sandbox, pattern, skip};

/// moto lets in whoever has any signature.
const SIGNED: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=600&X-Amz-Signature=of-tests";

#[test]
fn what_is_put_comes_back() {
    let Some(moto) = moto() else { return skip("no moto: scripts/need test") };
    let sandbox = Sandbox::new();
    let endpoint = format!("http://127.0.0.1:{}", moto.port);
    let curl = std::process::Command::new("curl")
        .args([
            "-sSf",
            "-X",
            "PUT",
            "-H",
            "Content-Length: 0",
            &format!("{endpoint}/bucket-of-tests?{SIGNED}"),
        ])
        .output()
        .unwrap();
    assert!(curl.status.success(), "{curl:?}");
    for (size, key) in [(0, "zero"), (1, "one"), (5 * MIB + 1, "a b/+%25"), (20 * MIB, "large")] {
        let bytes = pattern(size, 1);
        sandbox.write("x", &bytes);
        let target = format!("s3://bucket-of-tests/{key}");
        let args = ["x", &target, "--part-size", "5MiB", "--metadata", "owner=me", "--if-absent"];
        put(&sandbox, &endpoint, &args).run().succeeds();
        let path: String = key.replace('%', "%25").replace(' ', "%20").replace('+', "%2B");
        let url = format!("{endpoint}/bucket-of-tests/{path}?{SIGNED}");
        sandbox.get([&url, "-o", "back", "--force", "-q"]).run().succeeds();
        assert!(sandbox.read("back") == bytes, "{key}");
        let run = put(&sandbox, &endpoint, &args).run();
        run.fails(1, &["it exists already"]);
    }
    let run = put(&sandbox, &endpoint, &["x", "s3://no-such-bucket-here/k"]).run();
    run.fails(1, &["NoSuchBucket", "no-such-bucket-here"]);
    let uploads = format!("{endpoint}/bucket-of-tests?uploads&{SIGNED}");
    sandbox.get([&uploads, "-o", "uploads", "--any-type", "-q"]).run().succeeds();
    assert!(!String::from_utf8(sandbox.read("uploads")).unwrap().contains("<UploadId>"));
}
