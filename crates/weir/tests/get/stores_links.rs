//! Links of https that lead to private objects of stores: a plain download is one as before, and where the
//! store refuses it, credentials that are there are used, at the store's own hosts alone.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io;
use std::sync::Arc;

use support::{MIB, Object, Request, Run, Sandbox, Server, Wire, base64};

const SECRET: &str = "a-secret-of-tests";

const AZURE: &str = "https://acc.blob.core.windows.net/c/in/a%20k";
const AMAZON: &str = "https://b.s3.eu-north-1.amazonaws.com/in/a%20k";
const AMAZON_BY_PATH: &str = "https://s3.eu-north-1.amazonaws.com/b/in/a%20k";
const GOOGLE: &str = "https://storage.googleapis.com/b/in/a%20k";

/// A store under all of these names that refuses as `refuses` does who has not said who they are.
fn store(refuses: impl Fn(&mut Wire) -> io::Result<()> + Send + Sync + 'static) -> (Server, Arc<Vec<u8>>) {
    let object = Object::new(6 * MIB);
    let bytes = Arc::clone(&object.bytes);
    let names = [AZURE, AMAZON, AMAZON_BY_PATH, GOOGLE, "https://other.example/"];
    let host = |link: &&str| link.split('/').nth(2).unwrap().to_owned();
    let params = rcgen::CertificateParams::new(names.iter().map(host).collect::<Vec<_>>()).unwrap();
    let server = Server::start_with(params, move |request: &Request, wire: &mut Wire| {
        match request.field("authorization") {
            None if request.path() != "/public" => refuses(wire),
            _ => object.serve(request, wire),
        }
    });
    (server, bytes)
}

fn denied(wire: &mut Wire) -> io::Result<()> {
    let xml = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";
    wire.answer("403 Forbidden", &[("Content-Type", "application/xml")], xml.as_bytes())
}

/// `weir get LINK -o out` with credentials for all stores, the way to which leads to `server`.
fn get(sandbox: &Sandbox, server: &Server, link: &str, args: &[&str]) -> Run {
    sandbox.write("ca.pem", server.certificate());
    let host = link.split('/').nth(2).unwrap();
    let way = format!("{host}:443:127.0.0.1:{}", server.address().port());
    let weir = sandbox.get([link, "-o", "out", "--force", "--connect-to", &way, "--cacert", "ca.pem", "-v"]);
    let weir = weir.args(args).env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE").env("AWS_SECRET_ACCESS_KEY", SECRET);
    let weir = weir.env("AZURE_STORAGE_ACCOUNT", "acc").env("AZURE_STORAGE_KEY", base64(SECRET.as_bytes()));
    weir.env("GOOGLE_OAUTH_ACCESS_TOKEN", SECRET).run()
}

fn authorizations(server: &Server) -> Vec<String> {
    let seen = server.requests();
    seen.iter().filter_map(|one| one.request.field("authorization").map(str::to_owned)).collect()
}

#[test]
fn a_private_object_is_asked_for_with_credentials_that_are_there() {
    for (link, shows) in [
        (AZURE, "SharedKey acc:"),
        (AMAZON, "AKIDEXAMPLE/"),
        (AMAZON_BY_PATH, "/eu-north-1/s3/aws4_request"),
        (GOOGLE, "Bearer "),
    ] {
        for lanes in [&["-c", "1"][..], &["-c", "3"]] {
            let (server, bytes) = store(denied);
            let sandbox = Sandbox::new();
            let run = get(&sandbox, &server, link, lanes);
            run.succeeds().says(&["asking with credentials"]).hides(SECRET);
            assert!(sandbox.read("out") == *bytes, "{link}");
            let shown = authorizations(&server);
            assert!(!shown.is_empty() && shown.iter().all(|one| one.contains(shows)), "{link}: {shown:?}");
            // Nobody was named before the store had refused nobody.
            assert!(server.requests()[0].request.field("authorization").is_none(), "{link}");
        }
    }
}

/// Azure hides what is private behind other words.
#[test]
fn azure_says_it_in_its_own_way() {
    for (status, code, comes) in [
        ("404 Not Found", "ResourceNotFound", true),
        ("409 Conflict", "PublicAccessNotPermitted", true),
        ("401 Unauthorized", "NoAuthenticationInformation", true),
        ("404 Not Found", "BlobNotFound", false),
        ("409 Conflict", "BlobArchived", false),
    ] {
        let (server, bytes) = store(move |wire| wire.answer(status, &[("x-ms-error-code", code)], b""));
        let sandbox = Sandbox::new();
        let run = get(&sandbox, &server, AZURE, &["--retries", "0"]);
        match comes {
            true => {
                run.succeeds();
                assert!(sandbox.read("out") == *bytes);
            }
            false => {
                run.exits(1);
                assert!(authorizations(&server).is_empty(), "{code}");
            }
        }
    }
}

#[test]
fn a_plain_download_is_one_as_before() {
    let object = Object::new(3 * MIB);
    let bytes = Arc::clone(&object.bytes);
    let names = ["acc.blob.core.windows.net", "b.s3.eu-north-1.amazonaws.com", "storage.googleapis.com"];
    let params = rcgen::CertificateParams::new(names.map(str::to_owned).to_vec()).unwrap();
    let server = Server::start_with(params, move |request, wire| object.serve(request, wire));
    for link in [AZURE, AMAZON, GOOGLE] {
        let sandbox = Sandbox::new();
        let run = get(&sandbox, &server, link, &["--json"]);
        // It is called what the user calls it.
        assert_eq!(run.succeeds().json()["files"][0]["url"], link);
        assert!(sandbox.read("out") == *bytes);
    }
    for seen in server.requests() {
        let of_stores = seen.request.fields.iter().find(|(name, _)| {
            name.starts_with("x-amz")
                || name.starts_with("x-ms")
                || name.eq_ignore_ascii_case("authorization")
        });
        assert!(of_stores.is_none(), "{of_stores:?}");
    }
}

/// Who has said who they are, or that nobody is to be named, and who was led there by others.
#[test]
fn nobody_is_named_who_is_not_meant() {
    let (server, _) = store(denied);
    let refused = |link: &str, args: &[&str]| {
        let sandbox = Sandbox::new();
        get(&sandbox, &server, link, &[args, &["--retries", "0"]].concat()).fails(1, &["403"]).hides(SECRET);
    };
    refused(AMAZON, &["--no-sign"]);
    refused(&format!("{AMAZON}?X-Amz-Signature=expired"), &[]);
    refused("https://other.example/b/k", &[]);
    assert!(authorizations(&server).is_empty(), "{:?}", authorizations(&server));
    // A login that the user gives is the only one.
    let sandbox = Sandbox::new();
    get(&sandbox, &server, AMAZON, &["-H", "Authorization: Bearer own-token"]).succeeds();
    assert!(authorizations(&server).iter().all(|one| one == "Bearer own-token"));
    // Somebody else's redirect to a private object.
    let (server, _) = store(denied);
    let elsewhere = Server::start(|_, wire| wire.redirect("302 Found", AMAZON));
    let sandbox = Sandbox::new();
    sandbox.write("ca.pem", server.certificate());
    let way = format!("b.s3.eu-north-1.amazonaws.com:443:127.0.0.1:{}", server.address().port());
    let weir = sandbox.get([&elsewhere.url("x"), "-o", "out", "--connect-to", &way, "--cacert", "ca.pem"]);
    let weir = weir.env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE").env("AWS_SECRET_ACCESS_KEY", SECRET);
    weir.args(&["--retries", "0"]).run().fails(1, &["403"]).hides(SECRET);
    assert!(authorizations(&server).is_empty());
}

/// Without credentials the refusal stays what it was, and nobody outside is asked for any.
#[test]
fn without_credentials_the_refusal_stays() {
    let (server, _) = store(denied);
    for link in [AZURE, AMAZON, GOOGLE] {
        let sandbox = Sandbox::new();
        sandbox.write("ca.pem", server.certificate());
        let host = link.split('/').nth(2).unwrap();
        let way = format!("{host}:443:127.0.0.1:{}", server.address().port());
        let run = sandbox.get([link, "-o", "out", "--connect-to", &way, "--cacert", "ca.pem", "-v"]).run();
        run.fails(1, &["403 Forbidden", "AccessDenied", "is not asked as anybody"]);
        sandbox.has_nothing_of("out");
    }
}
