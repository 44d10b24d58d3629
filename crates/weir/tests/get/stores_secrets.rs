//! What is secret about a store is nowhere: not in what is printed, at whichever loudness, not in records and
//! pages, not in journals and states, not in the words of the process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;

use rustix::process::Signal;
use support::bucket::{Bucket, Fault};
use support::listed::{ListedBucket, Manner};
use support::{MIB, Run, Sandbox, Server, Weir, base64, pattern, wait_for};

const KEY: &str = "secret-key-of-tests-0123456789";
const TOKEN: &str = "session-token-of-tests-0123456789";
const PASSWORD: &str = "password-of-a-proxy";

/// Files of the user's own in the sandbox: those with secrets, and what is sent.
const OWN: [&str; 3] = ["sse-key", ".aws/credentials", "large"];

/// Of what the server was sent: signatures and tokens.
fn sent(servers: &[&Server]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for seen in servers.iter().flat_map(|server| server.requests()) {
        let authorization = seen.request.field("authorization").unwrap_or_default().to_owned();
        if let Some((_, signature)) = authorization.split_once("Signature=") {
            found.insert(signature.to_owned());
        }
        if let Some((_, token)) = authorization.split_once("Bearer ") {
            found.insert(token.to_owned());
        }
        if let Some((_, signature)) =
            authorization.split_once("SharedKey ").and_then(|(_, rest)| rest.split_once(':'))
        {
            found.insert(signature.to_owned());
        }
        if let Some((_, query)) = seen.request.target.split_once('?') {
            let of = |pair: &str| pair.split_once("sig=").map(|(_, value)| value.to_owned());
            found.extend(query.split('&').filter_map(of));
        }
    }
    found
}

/// Nothing that the runs printed or left holds any of `secrets`.
#[track_caller]
fn nowhere(sandbox: &Sandbox, runs: &[Run], secrets: &BTreeSet<String>) {
    assert!(!secrets.is_empty());
    let mut texts: Vec<(String, Vec<u8>)> = Vec::new();
    for run in runs {
        texts.push((format!("stdout of {}", run.shown), run.stdout.clone()));
        texts.push((format!("stderr of {}", run.shown), run.stderr.clone().into_bytes()));
    }
    for name in sandbox.names().into_iter().filter(|name| !name.ends_with('/')) {
        if !OWN.contains(&name.as_str()) {
            let bytes = std::fs::read(sandbox.path(&name)).unwrap_or_default();
            texts.push((name, bytes));
        }
    }
    for (name, text) in &texts {
        let text = String::from_utf8_lossy(text);
        for secret in secrets {
            assert!(!text.contains(secret.as_str()), "'{secret}' is in {name}: {text}");
        }
    }
}

/// Interrupts a download and a list, so that the journals of both stay, and those of their files.
fn interrupted(sandbox: &Sandbox, bucket: &Bucket) -> Vec<Run> {
    let urls = (0..9).map(|number| format!("s3://b/q/{number}\n"));
    sandbox.write("list", urls.collect::<String>() + "s3://b/slow\n");
    let works =
        [(&["get", "s3://b/slow", "-o", "slow"][..], ""), (&["get", "-i", "list", "-o", "some/"], "some/")];
    let runs = works.map(|(command, folder)| {
        let args = [command, &["-vvv", "-c", "1", "--sse-c-key", "sse-key"]].concat();
        let weir = sandbox.weir(support::WEIR, args).env("RUST_LOG", "trace");
        let before = bucket.server.sent();
        let running = weir.env("AWS_ENDPOINT_URL", bucket.server.url("").trim_end_matches('/')).spawn();
        bucket.server.wait_sent(before + MIB as u64 / 2);
        wait_for("its handler", || running.catches(Signal::INT));
        running.signal(Signal::INT);
        let run = running.wait();
        run.exits(130);
        assert!(sandbox.path(format!("{folder}slow.weir")).exists(), "{:?}", sandbox.names());
        // Bytes of the object, and many of them.
        std::fs::remove_file(sandbox.path(format!("{folder}slow.part"))).unwrap();
        run
    });
    let is_of_a_list = |name: &String| name.starts_with("some/list-") && name.ends_with(".weir");
    assert!(sandbox.names().iter().any(is_of_a_list), "{:?}", sandbox.names());
    runs.into()
}

/// Each command, at every loudness and with every output that it has.
fn loud(sandbox: &Sandbox, command: &[&str], dress: impl Fn(Weir) -> Weir) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut all: Vec<Vec<&str>> = vec![vec!["-vvv"]];
    if command[0] != "ls" {
        all.push(vec!["-vv", "--json", "--report", "page.html", "--evidence", "evidence.json"]);
        all.push(vec!["-q"]);
    } else {
        all.push(vec!["--json"]);
    }
    for flags in all {
        let weir = sandbox.weir(support::WEIR, command.iter().chain(&flags)).env("RUST_LOG", "trace");
        runs.push(dress(weir).run());
    }
    runs
}

#[test]
fn what_signs_for_s3() {
    let sandbox = Sandbox::new();
    sandbox.write("sse-key", [0xa7; 32]);
    std::fs::create_dir(sandbox.path(".aws")).unwrap();
    let credentials = format!(
        "[default]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = {KEY}\naws_session_token = {TOKEN}\n"
    );
    sandbox.write(".aws/credentials", credentials);
    sandbox.write("large", pattern(9 * MIB, 1));
    sandbox.write("small", "content");
    let listed = ListedBucket::start(&[("k", b"abc"), ("p/x", b"def")], Manner::InOrder, 10);
    let filled = Bucket::start();
    filled.hold("slow", vec![7; 8 * MIB]);
    (0..9).for_each(|number| filled.hold(&format!("q/{number}"), b"x".to_vec()));
    // One part is refused each time: what is begun is kept.
    filled.hook(|request| {
        let xml = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>".to_owned();
        match request.path() {
            "/b/slow" => Some(Fault::Slow(2 * MIB as u64)),
            _ => request.target.contains("partNumber=2&").then_some(Fault::Answer("403 Forbidden", xml)),
        }
    });
    let refusing = Server::start(|request, wire| {
        let length = request.field("content-length").map_or(0, |text| text.parse().unwrap());
        wire.receive(length)?;
        // It repeats what it was sent, as some do.
        let said = request.field("authorization").unwrap_or_default();
        let token = request.field("x-amz-security-token").unwrap_or_default();
        let key = request.field("x-amz-server-side-encryption-customer-key").unwrap_or_default();
        let body = format!("<Error><Code>AccessDenied</Code><Message>{said} {token} {key}</Message></Error>");
        match request.method.as_str() {
            "HEAD" => wire.head("403 Forbidden", &[("Content-Length", "0")]),
            _ => wire.answer("403 Forbidden", &[("Content-Type", "application/xml")], body.as_bytes()),
        }
    });
    let mut runs = Vec::new();
    let commands: [&[&str]; 9] = [
        &["get", "s3://b/k", "-o", "out", "--force"],
        &["get", "s3://b/p/", "-o", "all/"],
        &["get", "s3://b/none", "-o", "none"],
        &["put", "small", "s3://b/new"],
        &["put", "large", "s3://b/large", "--retries", "0"],
        &["cp", "small", "s3://b/copied"],
        &["cp", "s3://b/p/", "tree"],
        &["cp", "s3://b/k", "s3://b/within"],
        &["ls", "s3://b/"],
    ];
    for command in commands {
        let answering = if command[0] == "put" { &filled.server } else { &listed.server };
        for server in [answering, &refusing] {
            runs.extend(loud(&sandbox, &[command, &["--sse-c-key", "sse-key"]].concat(), |weir| {
                weir.env("AWS_ENDPOINT_URL", server.url("").trim_end_matches('/'))
            }));
        }
    }
    assert!(runs.iter().any(|run| run.status.success()) && runs.iter().any(|run| !run.status.success()));
    runs.extend(interrupted(&sandbox, &filled));
    let kept = sandbox.names().into_iter().any(|name| name.ends_with(".upload"));
    assert!(kept, "an upload is kept: {:?}", sandbox.names());
    let mut secrets = sent(&[&listed.server, &filled.server, &refusing]);
    assert!(secrets.len() > 20, "{}", secrets.len());
    secrets.extend([KEY, TOKEN].map(str::to_owned));
    secrets.insert(base64(&[0xa7; 32]));
    nowhere(&sandbox, &runs, &secrets);
}

#[test]
fn what_signs_for_azure_and_a_login_of_a_proxy() {
    let sandbox = Sandbox::new();
    sandbox.write("small", "content");
    let server = Server::start(|request, wire| {
        let length = request.field("content-length").map_or(0, |text| text.parse().unwrap());
        wire.receive(length)?;
        match request.target.contains("/k") && request.method == "GET" {
            true => wire.answer("200 OK", &[("ETag", "\"one\"")], b"abc"),
            false => {
                let said =
                    format!("{} {}", request.target, request.field("authorization").unwrap_or_default());
                let body =
                    format!("<Error><Code>AuthenticationFailed</Code><Message>{said}</Message></Error>");
                let body = if request.method == "HEAD" { String::new() } else { body };
                wire.answer("403 Forbidden", &[("Content-Type", "application/xml")], body.as_bytes())
            }
        }
    });
    let key = base64(KEY.as_bytes());
    let proxy = format!("http://me:{PASSWORD}@{}", server.address());
    let mut runs = Vec::new();
    for command in [
        &["get", "az://c/k", "-o", "out", "--force"][..],
        &["get", "az://c/p/", "-o", "all/"],
        &["cp", "small", "az://c/new"],
        &["cp", "az://c/k", "back"],
        &["ls", "az://c/"],
    ] {
        for (name, value) in [
            ("AZURE_STORAGE_KEY", key.as_str()),
            ("AZURE_STORAGE_SAS_TOKEN", &format!("sv=1&sig={TOKEN}%3D")),
        ] {
            runs.extend(loud(&sandbox, command, |weir| {
                let weir =
                    weir.env("AZURE_STORAGE_ACCOUNT", "acc").env(name, value).env("http_proxy", &proxy);
                weir.env("AZURE_STORAGE_ENDPOINT", "http://store.example")
                    .args(&["--endpoint", "http://store.example/acc"])
            }));
        }
    }
    assert!(runs.iter().any(|run| run.status.success()) && runs.iter().any(|run| !run.status.success()));
    let mut secrets = sent(&[&server]);
    assert!(secrets.len() > 5, "{secrets:?}");
    secrets.extend([KEY, TOKEN, PASSWORD, key.as_str()].map(str::to_owned));
    secrets.insert(base64(format!("me:{PASSWORD}").as_bytes()));
    nowhere(&sandbox, &runs, &secrets);
}

#[test]
fn tokens_of_google_and_of_a_hub() {
    let sandbox = Sandbox::new();
    sandbox.write("small", "content");
    let server = Server::start(|request, wire| {
        let length = request.field("content-length").map_or(0, |text| text.parse().unwrap());
        wire.receive(length)?;
        let said = request.field("authorization").unwrap_or_default();
        let body = serde_json::json!({"error": {"message": format!("said {said}")}}).to_string();
        match (request.method.as_str(), request.path().ends_with("/k")) {
            ("HEAD", true) => wire.head("200 OK", &[("Content-Length", "3"), ("ETag", "\"one\"")]),
            ("HEAD", false) => wire.head("403 Forbidden", &[("Content-Length", "0")]),
            ("GET", true) => wire.answer("200 OK", &[("ETag", "\"one\"")], b"abc"),
            _ => wire.answer("403 Forbidden", &[("Content-Type", "application/json")], body.as_bytes()),
        }
    });
    let mut runs = Vec::new();
    for command in [
        &["get", "gs://c/k", "-o", "out", "--force"][..],
        &["get", "gs://c/p/", "-o", "all/"],
        &["put", "small", "gs://c/new"],
        &["cp", "gs://c/p", "back"],
        &["ls", "gs://c/"],
        &["get", "hf://org/model/k", "-o", "out", "--force"],
        &["get", "hf://org/model", "-o", "model/"],
    ] {
        let endpoint = server.url("");
        let at = ["--endpoint", &endpoint];
        let at = if command[1].starts_with("hf:") { &[][..] } else { &at[..] };
        runs.extend(loud(&sandbox, &[command, at].concat(), |weir| {
            let weir = weir.env("GOOGLE_OAUTH_ACCESS_TOKEN", TOKEN).env("HF_TOKEN", KEY);
            weir.env("HF_ENDPOINT", &endpoint)
        }));
    }
    assert!(runs.iter().any(|run| run.status.success()) && runs.iter().any(|run| !run.status.success()));
    let secrets = sent(&[&server]);
    assert_eq!(secrets, BTreeSet::from([KEY, TOKEN].map(str::to_owned)));
    nowhere(&sandbox, &runs, &secrets);
}

/// A signed link, and a proxy's login, are overwritten where everybody could read them.
#[test]
fn words_of_the_process() {
    let server = Server::start(|_, wire| {
        wire.head("200 OK", &[("Content-Length", "10")])?;
        wire.wait_for_close()
    });
    let sandbox = Sandbox::new();
    let link = server.url(&format!("k?X-Amz-Date=1&versionId=3&X-Amz-Signature={KEY}"));
    let proxy = format!("http://me:{PASSWORD}@{}", server.address());
    for args in [&["get", link.as_str()][..], &["ls", "s3://b/", "--proxy", &proxy, "--endpoint", "http://h"]]
    {
        let weir = sandbox.weir(support::WEIR, args).env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
        let before = server.requests().len();
        let running = weir.env("AWS_SECRET_ACCESS_KEY", KEY).spawn();
        wait_for("a request", || server.requests().len() > before);
        let words = std::fs::read(format!("/proc/{}/cmdline", running.id())).unwrap();
        let words = std::ffi::OsStr::from_bytes(&words).to_string_lossy().into_owned();
        drop(running);
        assert!(!words.contains(KEY) && !words.contains(PASSWORD), "{words}");
        assert!(words.contains("versionId=3") || words.contains("s3://b/"), "{words}");
    }
}
