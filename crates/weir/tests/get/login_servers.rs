//! Logins at the servers and proxies that people run: Apache, nginx, lighttpd; squid, tinyproxy, microsocks.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::time::{Duration, SystemTime};

use support::http_servers::{Apache, Nginx, lighttpd, microsocks, sandbox_with_www, squid, tinyproxy};
use support::{MIB, Sandbox, pattern, skip};

const SIZE: usize = 4 * MIB;

/// A sandbox with `www/x`, and what is in it.
fn published() -> (Sandbox, Vec<u8>) {
    let sandbox = sandbox_with_www();
    let bytes = pattern(SIZE, 1);
    let path = sandbox.write("www/x", &bytes);
    // The validator of a file that has just been written is a weak one, by which nothing can be resumed.
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(48 * 3600)).unwrap();
    (sandbox, bytes)
}

/// The file comes whole, over several lanes and after an interruption.
#[track_caller]
fn brings(sandbox: &Sandbox, url: &str, args: &[&str], bytes: &[u8]) {
    for lanes in ["1", "3"] {
        let run = sandbox.get([url, "-o", "out", "-c", lanes, "-vv"]).args(args).run();
        run.succeeds().hides("geheim");
        assert!(sandbox.read("out") == bytes, "{url} {args:?}");
        std::fs::remove_file(sandbox.path("out")).unwrap();
    }
    sandbox.begin_and_interrupt(url, &[&["-c", "2"], args].concat());
    let run = sandbox.get([url, "-o", "out", "--json"]).args(args).run();
    run.succeeds();
    assert!(run.json()["files"][0]["resumed_from"].as_u64().unwrap() > 0, "{url} began again");
    assert!(sandbox.read("out") == bytes, "{url} {args:?}");
    std::fs::remove_file(sandbox.path("out")).unwrap();
}

/// MD5 of `user:realm:password`, as htdigest keeps it.
fn ha1(user: &str, realm: &str, password: &str) -> String {
    let hashed = weir_codec::digest::Algorithm::MD5.of(format!("{user}:{realm}:{password}").as_bytes());
    hashed.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn apache_asks_for_a_digest() {
    for further in ["", "AuthDigestNonceLifetime 1", "AuthDigestNonceLifetime 0"] {
        let (sandbox, bytes) = published();
        let here = sandbox.path("");
        sandbox.write("users", format!("me:the realm:{}\n", ha1("me", "the realm", "geheim: x")));
        let directives = format!(
            "<Directory {}/www>\nAuthType Digest\nAuthName \"the realm\"\nAuthDigestProvider file\n\
             AuthUserFile {}/users\nAuthDigestDomain /\n{further}\nRequire valid-user\n</Directory>",
            here.display(),
            here.display()
        );
        let modules = ["authn_core", "authn_file", "authz_user", "auth_digest"];
        let Some(apache) = Apache::with(&sandbox, &modules, &directives) else {
            return skip("no Apache here");
        };
        let url = format!("http://127.0.0.1:{}/x", apache.http);
        sandbox.write(".netrc", "machine 127.0.0.1 login me password \"geheim: x\"\n");
        brings(&sandbox, &url, &["-u", "me:geheim: x"], &bytes);
        brings(&sandbox, &url, &["--digest"], &bytes);
        let run = sandbox.get([&url, "-u", "me:falsch"]).run();
        run.fails(1, &["answered 401", "did not accept"]).hides("falsch");
        sandbox.get([&url, "-u", "me:geheim: x", "--basic"]).run().fails(1, &["answered 401"]);
    }
}

#[test]
fn lighttpd_asks_for_a_digest_or_basic() {
    for (method, file, line, args) in [
        ("digest", "htdigest", format!("me:r:{}\n", ha1("me", "r", "geheim")), &["-u", "me:geheim"][..]),
        (
            "digest",
            "htdigest",
            format!("me:r:{}\n", ha1("me", "r", "geheim")),
            &["-u", "me:geheim", "--digest"],
        ),
        ("basic", "plain", "me:geheim\n".to_owned(), &["-u", "me:geheim"]),
        ("basic", "plain", "me:geheim\n".to_owned(), &["-u", "me:geheim", "--anyauth"]),
        ("basic", "plain", format!("{}:geheim\n", "me"), &["-u", "me:geheim", "--basic"]),
    ] {
        let (sandbox, bytes) = published();
        let users = sandbox.write("users", line);
        let directives = format!(
            "server.modules = (\"mod_auth\", \"mod_authn_file\")\nauth.backend = \"{file}\"\n\
             auth.backend.{file}.userfile = \"{}\"\nauth.require = (\"/\" => (\"method\" => \"{method}\", \
             \"realm\" => \"r\", \"require\" => \"valid-user\"))",
            users.display()
        );
        let Some(server) = lighttpd(&sandbox, &directives) else { return skip("no lighttpd here") };
        brings(&sandbox, &format!("http://127.0.0.1:{}/x", server.port), args, &bytes);
    }
}

#[test]
fn nginx_wants_a_cookie_that_another_host_gives() {
    let (sandbox, bytes) = published();
    // Both hosts are this one; `localhost` is whose login it is.
    let directives = "
        location = /login { if ($http_authorization != 'Basic bWU6Z2VoZWlt') { return 401; }
          return 302 http://127.0.0.1:$server_port/back; }
        location = /back { add_header Set-Cookie 'session=geheim; Path=/'; return 302 /x; }
        location = /x { if ($cookie_session != 'geheim') { return 302 http://localhost:$server_port/login; } }";
    let Some(nginx) = Nginx::start(&sandbox, directives) else { return skip("no nginx here") };
    sandbox.write(".netrc", "machine localhost login me password geheim\n");
    brings(&sandbox, &format!("http://127.0.0.1:{}/x", nginx.http), &[], &bytes);
    let run = sandbox.get([&format!("http://127.0.0.1:{}/x", nginx.http), "--no-netrc"]).run();
    run.fails(1, &["localhost answered 401"]);
}

/// Through `proxy`, plain and by a tunnel.
#[track_caller]
fn through(sandbox: &Sandbox, nginx: &Nginx, proxy: &str, bytes: &[u8]) {
    let plain = format!("http://127.0.0.1:{}/x", nginx.http);
    let secure = format!("https://127.0.0.1:{}/x", nginx.https);
    brings(sandbox, &plain, &["--proxy", proxy, "-k"], bytes);
    brings(sandbox, &secure, &["--proxy", proxy, "-k"], bytes);
}

#[test]
fn tinyproxy_with_and_without_a_login() {
    for (directives, login) in [("", ""), ("BasicAuth me geheim", "me:geheim@")] {
        let (sandbox, bytes) = published();
        let Some(nginx) = Nginx::start(&sandbox, "") else { return skip("no nginx here") };
        let Some(proxy) = tinyproxy(&sandbox, directives) else { return skip("no tinyproxy here") };
        through(&sandbox, &nginx, &format!("http://{login}127.0.0.1:{}", proxy.port), &bytes);
    }
}

#[test]
fn microsocks_with_and_without_a_login() {
    for (login, prefix) in [(None, ""), (Some(("me", "geheim")), "me:geheim@")] {
        let (sandbox, bytes) = published();
        let Some(nginx) = Nginx::start(&sandbox, "") else { return skip("no nginx here") };
        let Some(proxy) = microsocks(login) else { return skip("no microsocks here") };
        for scheme in ["socks5", "socks5h"] {
            through(&sandbox, &nginx, &format!("{scheme}://{prefix}127.0.0.1:{}", proxy.port), &bytes);
        }
        if login.is_some() {
            let url = format!("http://127.0.0.1:{}/x", nginx.http);
            let run = sandbox.get([&*url, "--proxy", &format!("socks5://127.0.0.1:{}", proxy.port)]).run();
            run.fails(1, &["it requires a login"]);
        }
    }
}

#[test]
fn squid_plain_and_over_tls_with_and_without_a_login() {
    const BASIC: &str = "auth_param basic program /usr/lib/squid/basic_ncsa_auth USERS\nauth_param basic realm r\n\
                         acl known proxy_auth REQUIRED\nhttp_access deny !known";
    const DIGEST: &str = "auth_param digest program /usr/lib/squid/digest_file_auth -c USERS\n\
                          auth_param digest realm r\nacl known proxy_auth REQUIRED\nhttp_access deny !known";
    for (tls, directives, users, login) in [
        (false, "", String::new(), ""),
        (true, "", String::new(), ""),
        (false, BASIC, "me:geheim\n".to_owned(), "me:geheim@"),
        (false, DIGEST, format!("me:r:{}\n", ha1("me", "r", "geheim")), "me:geheim@"),
        (true, DIGEST, format!("me:r:{}\n", ha1("me", "r", "geheim")), "me:geheim@"),
    ] {
        let (sandbox, bytes) = published();
        let Some(nginx) = Nginx::start(&sandbox, "") else { return skip("no nginx here") };
        let users = match directives == BASIC {
            // NCSA's form: what crypt(3) makes of the password.
            true => sandbox.write("users", format!("me:{}\n", crypted("geheim"))),
            false => sandbox.write("users", users),
        };
        let directives = directives.replace("USERS", users.to_str().unwrap());
        let Some(proxy) = squid(&sandbox, tls, &directives) else { return skip("no squid here") };
        let scheme = if tls { "https" } else { "http" };
        let at = format!("{scheme}://{login}127.0.0.1:{}", proxy.port);
        through(&sandbox, &nginx, &at, &bytes);
        let far = sandbox.serve("www", &["--tls"]);
        let url = format!("https://{}/x", far.address());
        sandbox.get([&*url, "-k", "--http2", "--proxy", &at, "-o", "out2"]).run().succeeds();
        assert!(sandbox.read("out2") == bytes, "HTTP/2 through {scheme}");
    }
}

/// `$apr1$...`, which squid's helper knows.
fn crypted(password: &str) -> String {
    let output = std::process::Command::new("openssl").args(["passwd", "-apr1", password]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
