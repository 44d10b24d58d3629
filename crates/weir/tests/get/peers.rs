//! Against servers that people run: nginx with its defaults, plain, TLS and HTTP/2.

use crate::support;

use support::http_servers::{Nginx, sandbox_with_www};
use support::{MIB, pattern, skip};

#[test]
fn a_large_file_from_nginx_plain_and_over_tls() {
    let sandbox = sandbox_with_www();
    let bytes = pattern(32 * MIB + 17, 1);
    sandbox.write("www/large", &bytes);
    let Some(nginx) = Nginx::start(&sandbox, "") else { return skip("no nginx here") };
    for (url, lanes) in [
        (format!("http://127.0.0.1:{}/large", nginx.http), "1"),
        (format!("http://127.0.0.1:{}/large", nginx.http), "4"),
        (format!("https://localhost:{}/large", nginx.https), "1"),
        (format!("https://localhost:{}/large", nginx.https), "4"),
    ] {
        let run = sandbox.get([url.as_str(), "-o", "out", "-c", lanes, "--cacert", "cert.pem"]).run();
        run.succeeds();
        assert!(sandbox.read("out") == bytes, "{url} with {lanes} lanes");
    }
}

/// nginx ends each connection after 1000 requests (keepalive_requests); more files than that come all the
/// same.
#[test]
fn more_small_files_than_nginx_serves_on_one_connection() {
    let sandbox = sandbox_with_www();
    const FILES: usize = 2100;
    for file in 0..FILES {
        sandbox.write(&format!("www/{file}.bin"), pattern(100 + file % 50, file as u64));
    }
    let Some(nginx) = Nginx::start(&sandbox, "") else { return skip("no nginx here") };
    for (base, how) in [
        (format!("http://127.0.0.1:{}", nginx.http), &["-j", "1"][..]),
        (format!("https://localhost:{}", nginx.https), &["--http2"][..]),
        (format!("https://localhost:{}", nginx.https), &[][..]),
    ] {
        let list: String = (0..FILES).map(|file| format!("{base}/{file}.bin\n")).collect();
        sandbox.write("list", list);
        let _ = std::fs::remove_dir_all(sandbox.path("got"));
        let mut args = vec!["-i", "list", "-o", "got/", "--cacert", "cert.pem", "--retries", "0"];
        args.extend(how);
        sandbox.get(args).run().succeeds();
        for file in 0..FILES {
            assert_eq!(sandbox.read(&format!("got/{file}.bin")), sandbox.read(&format!("www/{file}.bin")));
        }
    }
}
