//! Real HTTP servers over the folder `www` of a sandbox: nginx, Apache, lighttpd. Real proxies: squid,
//! tinyproxy, microsocks. moto in the place of Amazon S3.

use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::net::free_port;
use super::{Sandbox, TIMEOUT};

/// A sandbox with a folder `www`, which a server that changes its user can read.
pub(crate) fn sandbox_with_www() -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::set_permissions(sandbox.path(""), PermissionsExt::from_mode(0o755)).expect("a mode");
    std::fs::create_dir(sandbox.path("www")).expect("a folder");
    sandbox
}

/// nginx, plain and over TLS with HTTP/2, with a certificate of its own.
pub(crate) struct Nginx {
    _child: Ended,
    pub(crate) http: u16,
    pub(crate) https: u16,
}

impl Nginx {
    /// With these directives in both servers. `None` when the machine has no nginx.
    pub(crate) fn start(sandbox: &Sandbox, directives: &str) -> Option<Nginx> {
        let binary = installed(&["/usr/sbin/nginx", "/usr/bin/nginx"])?;
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
               server {{ listen 127.0.0.1:{http}; root {here}/www; {directives} }}
               server {{ listen 127.0.0.1:{https} ssl http2; root {here}/www; {directives}
                 ssl_certificate {here}/cert.pem; ssl_certificate_key {here}/key.pem; }} }}"
        );
        let config = sandbox.write("nginx.conf", config);
        let child = Command::new(binary).arg("-c").arg(config).stderr(Stdio::null()).spawn().ok()?;
        let nginx = Nginx { _child: Ended(child), http, https };
        wait_until_it_listens("nginx", https);
        Some(nginx)
    }
}

/// Apache, plain.
pub(crate) struct Apache {
    _child: Ended,
    pub(crate) http: u16,
}

impl Apache {
    /// With these directives. `None` when the machine has no Apache.
    pub(crate) fn start(sandbox: &Sandbox, directives: &str) -> Option<Apache> {
        Apache::with(sandbox, &[], directives)
    }

    /// The same with further modules.
    pub(crate) fn with(sandbox: &Sandbox, further: &[&str], directives: &str) -> Option<Apache> {
        let binary = installed(&["/usr/sbin/apache2", "/usr/sbin/httpd"])?;
        let modules = installed(&["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules"])?;
        let http = free_port();
        let here = sandbox.path("");
        let here = here.display();
        let load = |name: &str| format!("LoadModule {name}_module {modules}/mod_{name}.so\n");
        let usual = ["mpm_event", "authz_core", "headers"];
        let loaded: String = usual.iter().chain(further).map(|name| load(name)).collect();
        let config = format!(
            "ServerRoot {here}\nDefaultRuntimeDir {here}\nPidFile {here}/apache.pid\nErrorLog {here}/apache.log\n\
             ServerName localhost\nListen 127.0.0.1:{http}\n{loaded}DocumentRoot {here}/www\n\
             User nobody\n{directives}\n"
        );
        let config = sandbox.write("apache.conf", config);
        let child = Command::new(binary).args(["-X", "-f"]).arg(config).stderr(Stdio::null()).spawn().ok()?;
        let apache = Apache { _child: Ended(child), http };
        wait_until_it_listens("apache", http);
        Some(apache)
    }
}

/// A server or proxy of one port, started as an ordinary program.
pub(crate) struct Program {
    _child: Ended,
    pub(crate) port: u16,
}

impl Program {
    pub(crate) fn start(name: &str, binary: &str, port: u16, args: &[&str]) -> Option<Program> {
        let mut command = Command::new(binary);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().ok()?;
        let program = Program { _child: Ended(child), port };
        wait_until_it_listens(name, port);
        Some(program)
    }
}

/// lighttpd with these directives. What has no type gets no validator there.
pub(crate) fn lighttpd(sandbox: &Sandbox, directives: &str) -> Option<Program> {
    let binary = installed(&["/usr/sbin/lighttpd"])?;
    let port = free_port();
    let here = sandbox.path("");
    let here = here.display();
    let config = format!(
        "server.document-root = \"{here}/www\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
         server.errorlog = \"{here}/lighttpd.log\"\n\
         mimetype.assign = (\"\" => \"application/octet-stream\")\n{directives}\n"
    );
    let config = sandbox.write("lighttpd.conf", config);
    Program::start("lighttpd", binary, port, &["-D", "-f", config.to_str()?])
}

/// squid, plain or over TLS with `cert.pem` and `key.pem` of the sandbox, with these directives.
pub(crate) fn squid(sandbox: &Sandbox, tls: bool, directives: &str) -> Option<Program> {
    let binary = installed(&["/usr/sbin/squid"])?;
    let port = free_port();
    let here = sandbox.path("");
    let here = here.display();
    let listen = match tls {
        true => format!("https_port 127.0.0.1:{port} tls-cert={here}/cert.pem tls-key={here}/key.pem"),
        false => format!("http_port 127.0.0.1:{port}"),
    };
    let config = format!(
        "{listen}\n{directives}\nhttp_access allow all\ncache deny all\npid_filename none\naccess_log none\n\
         cache_log {here}/squid.log\ncoredump_dir {here}\nshutdown_lifetime 0 seconds\n\
         visible_hostname localhost\npinger_enable off\nnetdb_filename none\n"
    );
    let config = sandbox.write("squid.conf", config);
    // Started by root it becomes `proxy`, who has to write its log here.
    std::fs::set_permissions(sandbox.path(""), PermissionsExt::from_mode(0o777)).ok()?;
    Program::start("squid", binary, port, &["-N", "-f", config.to_str()?])
}

/// tinyproxy with these directives.
pub(crate) fn tinyproxy(sandbox: &Sandbox, directives: &str) -> Option<Program> {
    let binary = installed(&["/usr/bin/tinyproxy"])?;
    let port = free_port();
    let config =
        format!("Port {port}\nListen 127.0.0.1\nTimeout 60\nAllow 127.0.0.1\nMaxClients 50\n{directives}\n");
    let config = sandbox.write("tinyproxy.conf", config);
    Program::start("tinyproxy", binary, port, &["-d", "-c", config.to_str()?])
}

/// microsocks, with a login if there is one.
pub(crate) fn microsocks(login: Option<(&str, &str)>) -> Option<Program> {
    let binary = installed(&["/usr/bin/microsocks"])?;
    let port = free_port();
    let number = port.to_string();
    let mut args = vec!["-i", "127.0.0.1", "-p", &number];
    if let Some((user, password)) = login {
        args.extend(["-u", user, "-P", password]);
    }
    Program::start("microsocks", binary, port, &args)
}

/// `openssl s_server -www` with these arguments.
pub(crate) fn s_server(args: &[&str]) -> Option<Program> {
    let binary = installed(&["/usr/bin/openssl"])?;
    let port = free_port();
    let at = format!("127.0.0.1:{port}");
    Program::start("openssl s_server", binary, port, &[&["s_server", "-www", "-accept", &at], args].concat())
}

/// moto in the place of Amazon S3, from where scripts/need puts it. It starts empty.
pub(crate) fn moto() -> Option<Program> {
    let folder = Path::new(&std::env::var_os("HOME")?).join(".cache/weir-test/moto");
    if !folder.exists() {
        return None;
    }
    let port = free_port();
    let (number, folder) = (port.to_string(), format!("PYTHONPATH={}", folder.display()));
    let args = [folder.as_str(), "python3", "-m", "moto.server", "-H", "127.0.0.1", "-p", &number];
    Program::start("moto", "/usr/bin/env", port, &args)
}

fn installed(places: &[&'static str]) -> Option<&'static str> {
    places.iter().find(|path| Path::new(path).exists()).copied()
}

fn wait_until_it_listens(name: &str, port: u16) {
    let start = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(start.elapsed() < TIMEOUT, "{name} does not answer");
        std::thread::yield_now();
    }
}

/// A child that ends with its owner.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
