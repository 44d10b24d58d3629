//! The ways to a store and a hub that are no straight line: through a proxy, behind an authority of one's
//! own, at an address of IPv6 alone. Each command that asks stores takes each of them, and so does whoever
//! gives it credentials.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io;
use std::net::SocketAddr;

use support::{Request, Run, Sandbox, Server, Weir, Wire, skip};

/// What signs, and must be seen nowhere.
const SECRET: &str = "a-secret-of-tests";

/// What each object is.
const BODY: &[u8] = b"the bytes of an object";

/// A store of any kind with one object, `k`, in the bucket `b`, that takes whatever is put; and a hub with
/// one model of one file.
fn store(request: &Request, wire: &mut Wire) -> io::Result<()> {
    let length = request.field("content-length").map_or(0, |text| text.parse().unwrap());
    wire.receive(length)?;
    // A proxy is sent whole URLs.
    let target = match request.target.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => request.target.trim_start_matches('/'),
    };
    let tag = [("ETag", "\"one\""), ("Last-Modified", "Thu, 26 Nov 2026 10:00:00 GMT")];
    let xml = [("Content-Type", "application/xml")];
    match (request.method.as_str(), target) {
        ("PUT", _) => wire.answer("200 OK", &tag, b""),
        ("HEAD", "b/k") => {
            let length = BODY.len().to_string();
            wire.head("200 OK", &[("Content-Length", length.as_str()), tag[0], tag[1]])
        }
        ("POST", target) if target.starts_with("sts") => wire.answer(
            "200 OK",
            &xml,
            format!(
                "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
                 <AccessKeyId>AKIDEXAMPLE</AccessKeyId><SecretAccessKey>{SECRET}</SecretAccessKey>\
                 <SessionToken>session-{SECRET}</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>\
                 </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
            )
            .as_bytes(),
        ),
        ("GET", target) if target.starts_with("b/?") || target.starts_with("b?") => wire.answer(
            "200 OK",
            &xml,
            format!(
                "<ListBucketResult><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated>{}</ListBucketResult>",
                if target.contains("prefix=copied") { String::new() } else { contents() }
            )
            .as_bytes(),
        ),
        ("GET", target) if target.starts_with("api/models/org/m/tree/") => wire.answer(
            "200 OK",
            &[("Content-Type", "application/json"), ("X-Repo-Commit", COMMIT)],
            format!("[{{\"type\":\"file\",\"path\":\"f\",\"size\":{},\"oid\":\"1\"}}]", BODY.len()).as_bytes(),
        ),
        ("GET", target) if target.starts_with("api/models/org/m") => wire.answer(
            "200 OK",
            &[("Content-Type", "application/json")],
            format!("{{\"id\":\"org/m\",\"sha\":\"{COMMIT}\"}}").as_bytes(),
        ),
        ("HEAD", target) if target.starts_with("org/m/resolve/") => {
            let length = BODY.len().to_string();
            wire.head("200 OK", &[("Content-Length", length.as_str()), tag[0], ("X-Repo-Commit", COMMIT)])
        }
        ("GET", target) if target == "b/k" || target.ends_with("/b/k") || target.starts_with("org/m/resolve/") => {
            wire.answer("200 OK", &[tag[0], ("X-Repo-Commit", COMMIT)], BODY)
        }
        _ => wire.answer("404 Not Found", &xml, b"<Error><Code>NoSuchKey</Code><Message>no</Message></Error>"),
    }
}

/// The object in a list.
fn contents() -> String {
    let size = BODY.len();
    format!(
        "<Contents><Key>k</Key><Size>{size}</Size><LastModified>2026-11-26T10:00:00.000Z</LastModified>\
         <ETag>\"one\"</ETag></Contents>"
    )
}

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Passes on what is sent to it through a tunnel, and answers what is asked of it in plain as the store.
fn proxy(far: Option<SocketAddr>) -> Server {
    Server::start(move |request, wire| match (request.method.as_str(), far) {
        ("CONNECT", Some(far)) => {
            wire.raw(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
            wire.tunnel(far)
        }
        _ if request.target.starts_with("http://") => store(request, wire),
        _ => wire.answer("400 Bad Request", &[], b"not for a proxy"),
    })
}

fn secure(names: &[&str]) -> Server {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    Server::start_with(rcgen::CertificateParams::new(names).unwrap(), store)
}

fn signed(weir: Weir) -> Weir {
    weir.env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE").env("AWS_SECRET_ACCESS_KEY", SECRET)
}

/// Every command that asks a store, to be run at `endpoint` with `more` in its environment and `flags`.
#[track_caller]
fn each_command(endpoint: &str, more: &[(&str, &str)], flags: &[&str]) {
    let commands: [&[&str]; 7] = [
        &["get", "s3://b/k", "-o", "out"],
        &["get", "s3://b/", "-o", "all/"],
        &["get", "-i", "list", "-o", "listed/"],
        &["put", "here", "s3://b/new"],
        &["cp", "here", "s3://b/copied"],
        &["cp", "s3://b/k", "back"],
        &["ls", "s3://b/"],
    ];
    let sandbox = Sandbox::new();
    sandbox.write("here", BODY);
    sandbox.write("list", "s3://b/k\n");
    for command in commands {
        let weir = sandbox.weir(support::WEIR, command.iter().chain(flags));
        let weir = more.iter().fold(signed(weir), |weir, (name, value)| weir.env(name, value));
        let run = weir.env("AWS_ENDPOINT_URL", endpoint).env("AWS_REGION", "us-east-1").run();
        run.succeeds().hides(SECRET);
    }
    for name in ["out", "all/k", "listed/k", "back"] {
        assert_eq!(sandbox.read(name), BODY, "{name}");
    }
}

#[test]
fn a_store_behind_a_proxy_and_an_authority_of_ones_own() {
    let far = secure(&["store.example"]);
    let near = proxy(Some(far.address()));
    let keys = Sandbox::new();
    let bundle = keys.write("bundle.pem", far.certificate()).display().to_string();
    let (through, endpoint) = (near.url(""), "https://store.example");
    each_command(endpoint, &[("HTTPS_PROXY", &through), ("AWS_CA_BUNDLE", &bundle)], &[]);
    each_command(endpoint, &[("https_proxy", &through), ("SSL_CERT_FILE", &bundle)], &[]);
    each_command(endpoint, &[], &["--proxy", &through, "--cacert", &bundle]);
    let tunnels = near.requests().iter().filter(|seen| seen.request.method == "CONNECT").count();
    assert!(tunnels >= 3 * 7, "{tunnels}");
    assert!(near.requests().iter().all(|seen| seen.request.field("authorization").is_none()));
    // Nobody is trusted who is not said to be.
    let sandbox = Sandbox::new();
    let get = signed(sandbox.get(["s3://b/k"])).env("AWS_ENDPOINT_URL", endpoint);
    get.env("HTTPS_PROXY", &through).run().fails(1, &["certificate", "--cacert"]).hides(SECRET);
}

#[test]
fn what_is_trusted_for_stores_is_not_for_others() {
    let far = secure(&["127.0.0.1"]);
    let sandbox = Sandbox::new();
    sandbox.write("bundle.pem", far.certificate());
    let run = sandbox.get([&far.url("b/k"), "-o", "out"]).env("AWS_CA_BUNDLE", "bundle.pem").run();
    run.fails(1, &["certificate", "--cacert"]);
    sandbox.get([&far.url("b/k"), "-o", "out", "--cacert", "bundle.pem"]).run().succeeds();
}

#[test]
fn a_plain_store_and_one_that_needs_no_proxy() {
    let near = proxy(None);
    each_command("http://store.example:9000", &[("http_proxy", &near.url(""))], &[]);
    each_command("http://store.example:9000", &[], &["--proxy", &near.url("")]);
    // With the bucket in its host, whose address only the proxy knows.
    let (before, sandbox, through) = (near.requests().len(), Sandbox::new(), near.url(""));
    let args = ["s3://b/b/k", "-o", "out", "--virtual-host", "--proxy", &through];
    signed(sandbox.get(args)).env("AWS_ENDPOINT_URL", "http://store.example:9000").run().succeeds();
    let asked = near.requests_from(before);
    assert!(!asked.is_empty());
    for request in asked {
        assert_eq!(request.target, "http://b.store.example:9000/b/k");
        assert_eq!(request.field("host"), Some("b.store.example:9000"));
    }
    // Its proxy would refuse.
    let own = Server::start(store);
    let nowhere = "http://127.0.0.1:1";
    each_command(&own.url(""), &[("http_proxy", nowhere), ("no_proxy", "127.0.0.1")], &[]);
    each_command(&own.url(""), &[("http_proxy", nowhere), ("NO_PROXY", "localhost,127.0.0.0/8")], &[]);
    each_command(&own.url(""), &[], &["--proxy", nowhere, "--noproxy", "127.0.0.1"]);
    each_command(&own.url(""), &[("http_proxy", nowhere)], &["--proxy", ""]);
    for command in [&["ls", "s3://b/"][..], &["get", "s3://b/k", "--retries", "0"]] {
        let sandbox = Sandbox::new();
        let run = signed(sandbox.weir(support::WEIR, command)).env("AWS_ENDPOINT_URL", own.url(""));
        run.env("http_proxy", nowhere).run().fails(1, &["127.0.0.1:1", "http_proxy"]).hides(SECRET);
    }
}

#[test]
fn an_address_of_ipv6_alone() {
    let Some(server) = Server::start_on("[::1]:0", store) else { return skip("no IPv6 here") };
    each_command(&server.url(""), &[], &[]);
    // In the place of the bucket's host too.
    let sandbox = Sandbox::new();
    let run = signed(sandbox.weir(support::WEIR, ["ls", "s3://b/", "--virtual-host"]));
    let run = run.env("AWS_ENDPOINT_URL", server.url("")).run();
    run.fails(2, &["it is no host", "--path-style"]).hides(SECRET);
}

/// Google's, Azure's, a hub's: by the same ways.
#[test]
fn other_stores_and_hubs_behind_a_proxy() {
    let far = secure(&["store.example"]);
    let near = proxy(Some(far.address()));
    let sandbox = Sandbox::new();
    sandbox.write("bundle.pem", far.certificate());
    let ways: [&[&str]; 3] = [
        &["gs://b/k", "--endpoint", "https://store.example"],
        &["az://b@acc/k", "--endpoint", "https://store.example"],
        &["hf://org/m/f"],
    ];
    for (index, url) in ways.iter().enumerate() {
        let name = format!("out{index}");
        let run = |weir: Weir| -> Run {
            let weir = weir.args(&["--no-sign", "-o", &name]).env("HF_ENDPOINT", "https://store.example");
            weir.env("HTTPS_PROXY", near.url("")).env("SSL_CERT_FILE", "bundle.pem").run()
        };
        run(sandbox.get(*url)).succeeds();
        assert_eq!(sandbox.read(&name), BODY, "{url:?}");
    }
    assert!(near.requests().len() >= ways.len());
}

/// Who gives credentials is behind them as well.
#[test]
fn credentials_come_by_the_same_ways() {
    let far = secure(&["store.example", "sts.example"]);
    let near = proxy(Some(far.address()));
    let sandbox = Sandbox::new();
    sandbox.write("bundle.pem", far.certificate());
    sandbox.write("token", format!("token-{SECRET}"));
    sandbox.write("here", BODY);
    let commands: [&[&str]; 5] = [
        &["ls", "s3://b/"],
        &["get", "s3://b/k", "-o", "out"],
        &["put", "here", "s3://b/new"],
        &["cp", "here", "s3://b/copied"],
        &["cp", "s3://b/k", "back"],
    ];
    for command in commands {
        for flags in [&[][..], &["--proxy", &near.url(""), "--cacert", "bundle.pem"]] {
            let weir = sandbox.weir(support::WEIR, command.iter().chain(flags));
            let mut weir = weir
                .env("AWS_ENDPOINT_URL_S3", "https://store.example")
                .env("AWS_ENDPOINT_URL_STS", "https://sts.example/sts")
                .env("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
                .env("AWS_WEB_IDENTITY_TOKEN_FILE", sandbox.path("token"));
            if flags.is_empty() {
                weir = weir.env("HTTPS_PROXY", near.url("")).env("AWS_CA_BUNDLE", "bundle.pem");
            }
            let run = weir.run();
            run.succeeds().hides(SECRET);
        }
    }
}
