//! Against servers that people run: nginx with its defaults, plain, TLS and HTTP/2. And a real slow disk.

mod support;

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use support::net::free_port;
use support::{MIB, PATIENCE, Sandbox, pattern, skip};

/// nginx over the folder `www` of a sandbox, with a certificate of its own.
struct Nginx {
    child: Child,
    http: u16,
    https: u16,
}

impl Nginx {
    /// `None` when the machine has no nginx.
    fn start(sandbox: &Sandbox) -> Option<Nginx> {
        let binary =
            ["/usr/sbin/nginx", "/usr/bin/nginx"].into_iter().find(|path| Path::new(path).exists())?;
        let made =
            rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).ok()?;
        sandbox.write("cert.pem", made.cert.pem());
        sandbox.write("key.pem", made.signing_key.serialize_pem());
        let (http, https) = (free_port(), free_port());
        let here = sandbox.path("");
        let here = here.display();
        // A master process would change its user to nobody, who may not read a private folder.
        let config = format!(
            "daemon off; master_process off; pid {here}/nginx.pid; error_log {here}/error.log;
             events {{ worker_connections 256; }}
             http {{ access_log off; sendfile on; client_body_temp_path {here}/t1; proxy_temp_path {here}/t2;
               fastcgi_temp_path {here}/t3; uwsgi_temp_path {here}/t4; scgi_temp_path {here}/t5;
               server {{ listen 127.0.0.1:{http}; root {here}/www; }}
               server {{ listen 127.0.0.1:{https} ssl http2; root {here}/www;
                 ssl_certificate {here}/cert.pem; ssl_certificate_key {here}/key.pem; }} }}"
        );
        let config = sandbox.write("nginx.conf", config);
        let child = Command::new(binary).arg("-c").arg(config).stderr(Stdio::null()).spawn().ok()?;
        let nginx = Nginx { child, http, https };
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, https)).is_err() {
            assert!(start.elapsed() < PATIENCE, "nginx does not answer");
            std::thread::yield_now();
        }
        Some(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sandbox_with_www() -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("www")).expect("a folder");
    sandbox
}

#[test]
fn a_large_file_from_nginx_plain_and_over_tls() {
    let sandbox = sandbox_with_www();
    let bytes = pattern(32 * MIB + 17, 1);
    sandbox.write("www/large", &bytes);
    let Some(nginx) = Nginx::start(&sandbox) else { return skip("no nginx here") };
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

/// nginx ends each connection after 1000 requests (keepalive_requests); more files than that come all the same.
#[test]
fn more_small_files_than_nginx_serves_on_one_connection() {
    let sandbox = sandbox_with_www();
    const FILES: usize = 2100;
    for file in 0..FILES {
        sandbox.write(&format!("www/{file}.bin"), pattern(100 + file % 50, file as u64));
    }
    let Some(nginx) = Nginx::start(&sandbox) else { return skip("no nginx here") };
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

/// The demo's slow disk: a loop device of 30 MB/s whose dirty pages are bounded. The verdict must name it, and the knee.
#[test]
fn a_disk_that_paces_its_writers_is_named() {
    let sandbox = Sandbox::new();
    let run = sandbox.weir(support::WEIR, ["demo", "disk"]).run();
    run.exits(0);
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), run.stderr);
    if let Some(why) = said.lines().find(|line| line.contains("skipped:")) {
        return skip(why);
    }
    let limit = said.lines().find(|line| line.starts_with("limit: ")).unwrap_or_default();
    assert!(limit.starts_with("limit: dirty-throttle"), "{said}");
    assert!(said.contains("memory took the first"), "no knee: {said}");
}
