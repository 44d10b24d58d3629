//! `weir get oci://`: from a registry that wants a token, has an index of platforms, and redirects to where
//! the blobs are.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::process::Signal;
use serde_json::{Value, json};
use support::{MIB, Object, Request, Sandbox, Server, Weir, Wire, base64, pattern, wait_for};
use weir_codec::Algorithm;
use weir_codec::hex;

/// What the registry gives to those who may pull.
const TOKEN: &str = "geheimes-zeichen";

/// The user's password.
const PASSWORD: &str = "geheimes-wort";

/// What the registry takes in its place.
const IDENTITY: &str = "geheimer-ausweis";

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(&Algorithm::SHA256.of(bytes)))
}

/// An image of two platforms, `name/app:v1`.
#[derive(Clone)]
struct Image {
    config: Vec<u8>,
    layers: Vec<Vec<u8>>,
    /// What is sent in place of a layer.
    sent: Option<Vec<u8>>,
    /// What is sent in place of the manifest.
    forged: bool,
    /// The first answer with a large layer does not come to its end.
    stalls: bool,
    /// Or only once this is set.
    until: Option<Arc<AtomicBool>>,
    /// What names the version of a blob.
    etag: Option<&'static str>,
}

impl Image {
    fn new(sizes: &[usize]) -> Image {
        let layers = sizes.iter().map(|size| pattern(*size, *size as u64)).collect();
        Image {
            config: b"{\"architecture\": \"amd64\"}".to_vec(),
            layers,
            sent: None,
            forged: false,
            stalls: false,
            until: None,
            etag: Some("\"blob\""),
        }
    }

    fn manifest(&self, arch: &str) -> Vec<u8> {
        let blob = |bytes: &Vec<u8>| json!({"mediaType": "x", "digest": digest(bytes), "size": bytes.len()});
        let layers: Vec<Value> = self.layers.iter().map(blob).collect();
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": blob(&self.config),
            "layers": layers, "annotations": {"for": arch}});
        manifest.to_string().into_bytes()
    }

    fn index(&self) -> Vec<u8> {
        let one = |arch: &str| {
            let manifest = self.manifest(arch);
            json!({"mediaType": MANIFEST, "digest": digest(&manifest), "size": manifest.len(),
                "platform": {"os": "linux", "architecture": arch}})
        };
        json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [one("s390x"), one("riscv64")]})
            .to_string()
            .into_bytes()
    }
}

/// The registry, which also gives the tokens, and where the blobs are.
struct Registry {
    server: Server,
    store: Arc<Server>,
}

impl Registry {
    fn start(image: Image) -> Registry {
        let kept = image.clone();
        let may_stall = AtomicBool::new(image.stalls);
        let store = Arc::new(Server::start(move |request, wire| {
            assert!(request.field("authorization").is_none(), "{:?}", request.fields);
            let named = request.path().rsplit('/').next().unwrap();
            let all = kept.layers.iter().chain([&kept.config]);
            let bytes = all.into_iter().find(|bytes| digest(bytes).ends_with(named)).unwrap();
            let sent = kept.sent.as_ref().filter(|_| *bytes == kept.layers[0]).unwrap_or(bytes);
            let object = Object { bytes: Arc::new(sent.clone()), ..Object::new(0).etag(kept.etag) };
            if sent.len() < MIB || !may_stall.swap(false, Relaxed) {
                return object.serve(request, wire);
            }
            let part = object.answer(request).part;
            let most = sent.len() * 3 / 4;
            object.serve_up_to(request, wire, most)?;
            let Some(until) = &kept.until else { return wire.wait_for_close() };
            wait_for("the word to go on", || until.load(Relaxed));
            wire.body(&sent[part.start + part.len().min(most)..part.end])
        }));
        let at = Arc::clone(&store);
        let server = Server::start(move |request, wire| answer(&image, &at, request, wire));
        Registry { server, store }
    }

    fn url(&self, rest: &str) -> String {
        format!("oci://{}/{rest}", self.server.address())
    }

    fn get(&self, sandbox: &Sandbox, rest: &str, args: &[&str]) -> Weir {
        sandbox.get(["--platform", "linux/riscv64", "-vv"]).args(&[&self.url(rest)]).args(args)
    }
}

fn answer(image: &Image, store: &Server, request: &Request, wire: &mut Wire) -> io::Result<()> {
    let host = request.field("host").unwrap();
    let basic = format!("Basic {}", base64(format!("me:{PASSWORD}").as_bytes()));
    if request.path() == "/token" {
        let form = String::from_utf8(wire.read_body(request)?).unwrap();
        let query = request.target.split_once('?').map_or(form.as_str(), |(_, query)| query);
        assert!(query.contains("service=reg") && query.contains("scope=repository%3Aname%2F"), "{query}");
        let trades = form.contains("grant_type=refresh_token") && form.contains(IDENTITY);
        let is_user = trades || request.field("authorization") == Some(basic.as_str());
        return match query.contains("private") && !is_user {
            true => {
                let words = format!("{{\"message\": \"incorrect username or password {form}\"}}");
                wire.answer("401 Unauthorized", &[], words.as_bytes())
            }
            false => {
                wire.answer("200 OK", &[], json!({"token": TOKEN, "expires_in": 60}).to_string().as_bytes())
            }
        };
    }
    let name = request.path().strip_prefix("/v2/").unwrap();
    let bearer = format!("Bearer {TOKEN}");
    if request.field("authorization") != Some(bearer.as_str()) {
        let scope = name.rsplitn(3, '/').nth(2).unwrap();
        let field =
            format!("Bearer realm=\"http://{host}/token\",service=\"reg\",scope=\"repository:{scope}:pull\"");
        let words = b"{\"errors\": [{\"code\": \"UNAUTHORIZED\", \"message\": \"authentication required\"}]}";
        return wire.answer("401 Unauthorized", &[("WWW-Authenticate", &field)], words);
    }
    let (kind, reference) = name.rsplit_once('/').unwrap();
    if kind.ends_with("blobs") {
        let hex = reference.strip_prefix("sha256:").unwrap();
        let link = store.url(&format!("data/{hex}?X-Amz-Signature=geheim{}", request.number));
        return wire.redirect("307 Temporary Redirect", &link);
    }
    let manifest = image.manifest("riscv64");
    let (kind, bytes) = match reference {
        "v1" => (INDEX, image.index()),
        reference if reference == digest(&manifest) => (MANIFEST, manifest),
        reference if reference == digest(&image.index()) => (INDEX, image.index()),
        _ => {
            let words =
                b"{\"errors\": [{\"code\": \"MANIFEST_UNKNOWN\", \"message\": \"manifest unknown\"}]}";
            return wire.answer("404 Not Found", &[], words);
        }
    };
    let bytes = if image.forged && kind == MANIFEST { [&bytes[..], b" "].concat() } else { bytes };
    assert!(request.field("accept").is_some_and(|accept| accept.contains(kind)), "{:?}", request.fields);
    wire.answer("200 OK", &[("Content-Type", kind)], &bytes)
}

#[track_caller]
fn has_image(sandbox: &Sandbox, folder: &str, image: &Image) {
    let read = |name: &str| sandbox.read(&format!("{folder}/{name}"));
    let blob = |bytes: &[u8]| format!("blobs/{}", digest(bytes).replace(':', "/"));
    assert_eq!(read("oci-layout"), b"{\"imageLayoutVersion\":\"1.0.0\"}");
    let index: Value = serde_json::from_slice(&read("index.json")).unwrap();
    let manifest = image.manifest("riscv64");
    let named = &index["manifests"][0];
    assert_eq!(
        (named["digest"].as_str(), named["mediaType"].as_str()),
        (Some(&*digest(&manifest)), Some(MANIFEST))
    );
    assert_eq!(named["size"], manifest.len());
    for bytes in image.layers.iter().chain([&image.config, &manifest]) {
        assert!(read(&blob(bytes)) == *bytes);
    }
}

#[test]
fn an_image_becomes_a_layout() {
    let image = Image::new(&[300_000, 5000]);
    let registry = Registry::start(image.clone());
    let sandbox = Sandbox::new();
    let run = registry.get(&sandbox, "name/app:v1", &[]).run();
    run.succeeds().hides(TOKEN).hides("geheim").says(&["taking linux/riscv64", "app is an OCI image layout"]);
    has_image(&sandbox, "app", &image);
    let index: Value = serde_json::from_slice(&sandbox.read("app/index.json")).unwrap();
    assert_eq!(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "v1");
    // By its digest, into the same folder: its blobs are here. One is asked for what platform it is for.
    let before = registry.store.requests().len();
    let by_digest = format!("name/app@{}", digest(&image.manifest("riscv64")));
    registry.get(&sandbox, &by_digest, &["-o", "app/", "--json"]).run().succeeds().hides(TOKEN);
    assert_eq!(registry.store.requests().len(), before + 1);
    let index: Value = serde_json::from_slice(&sandbox.read("app/index.json")).unwrap();
    assert_eq!(index["manifests"].as_array().unwrap().len(), 2);
    // A lane asks for a token when it is refused, and all others use that.
    let tokens = registry.server.requests().iter().filter(|seen| seen.request.path() == "/token").count();
    assert_eq!(tokens, 2, "one a run");
}

#[test]
fn a_login_goes_to_who_gives_tokens_alone() {
    let image = Image::new(&[1000]);
    let registry = Registry::start(image.clone());
    let sandbox = Sandbox::new();
    let run = registry.get(&sandbox, "name/private:v1", &[]).run();
    run.fails(1, &["cannot get a token for 127.0.0.1", "asked without a login", "docker login"]);
    let wrong = registry.get(&sandbox, "name/private:v1", &["-u", "me:falsches-wort"]).run();
    wrong.fails(1, &["asked as me"]).hides("falsches-wort");
    let login = format!("me:{PASSWORD}");
    registry.get(&sandbox, "name/private:v1", &["-u", &login, "-o", "one"]).run().succeeds().hides(PASSWORD);
    has_image(&sandbox, "one", &image);
    let kept = json!({"auths": {registry.server.address().to_string(): {"auth": base64(login.as_bytes())}}});
    std::fs::create_dir(sandbox.path(".docker")).unwrap();
    sandbox.write(".docker/config.json", kept.to_string());
    registry.get(&sandbox, "name/private:v1", &["-o", "two"]).run().succeeds().hides(PASSWORD);
    has_image(&sandbox, "two", &image);
    for seen in registry.server.requests() {
        let shown = seen.request.field("authorization").unwrap_or_default();
        assert!(seen.request.path() == "/token" || !shown.starts_with("Basic"), "{}", seen.request.target);
    }
}

/// Programs that keep logins are told the registry on their stdin, for as long as they take it.
#[test]
fn a_program_gives_the_login() {
    let image = Image::new(&[1000]);
    let registry = Registry::start(image.clone());
    let sandbox = Sandbox::new();
    let address = registry.server.address().to_string();
    std::fs::create_dir(sandbox.path(".docker")).unwrap();
    let program = |name: &str, body: &str| {
        let path =
            sandbox.write(format!("docker-credential-{name}").as_str(), format!("#!/bin/sh\n{body}\n"));
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    };
    let gives = format!(
        "[ \"$1\" = get ] || exit 9\nread server\necho \"$server\" > asked\n\
         echo '{{\"ServerURL\":\"x\",\"Username\":\"me\",\"Secret\":\"{PASSWORD}\"}}'"
    );
    program("works", &gives);
    program("lacks", "cat > /dev/null; echo 'credentials not found in native keychain'; exit 1");
    let trades = |secret: &str| format!("echo '{{\"Username\":\"<token>\",\"Secret\":\"{secret}\"}}'");
    program("trades", &trades(IDENTITY));
    program("trades-what-ran-out", &trades("altes-geheimnis"));
    program("talks", "echo hello");
    program("fails", "echo 'keychain is locked' >&2; exit 1");
    let path = format!("{}:{}", sandbox.path("").display(), std::env::var("PATH").unwrap_or_default());
    let run = |config: Value, out: &str| {
        sandbox.write(".docker/config.json", config.to_string());
        registry.get(&sandbox, "name/private:v1", &["-o", out]).env("PATH", &path).run()
    };
    let helper = |name: &str| json!({"credHelpers": {(address.as_str()): name}});
    for (out, config) in [
        ("one", helper("works")),
        ("two", json!({"credsStore": "works"})),
        ("three", json!({"auths": {(address.as_str()): {}}, "credsStore": "works"})),
        ("four", json!({"credsStore": "fails", "credHelpers": {(address.as_str()): "works"}})),
    ] {
        run(config, out).succeeds().hides(PASSWORD);
        has_image(&sandbox, out, &image);
        assert_eq!(sandbox.read("asked"), format!("{address}\n").as_bytes());
    }
    run(helper("trades"), "five").succeeds().hides(IDENTITY);
    has_image(&sandbox, "five", &image);
    let kept = json!({"auth": base64(b"00000000-0000-0000-0000-000000000000:"), "identitytoken": IDENTITY});
    run(json!({"auths": {(address.as_str()): kept}}), "six").succeeds().hides(IDENTITY);
    has_image(&sandbox, "six", &image);
    let old = run(helper("trades-what-ran-out"), "none");
    old.fails(1, &["identity token may have run out", "docker login"]).hides("altes-geheimnis");
    for (name, says) in [
        ("lacks", "asked without a login"),
        ("talks", "printed no login"),
        ("fails", "keychain is locked"),
        ("is-not-there", "cannot run docker-credential-is-not-there"),
        ("../works", "is no name of a program"),
    ] {
        run(helper(name), "none").fails(1, &[says, "asked without a login", "-u"]).hides(PASSWORD);
    }
    // One that hangs ends with the run.
    program("hangs", "echo $$ > pid; exec sleep 1000");
    sandbox.write(".docker/config.json", helper("hangs").to_string());
    let running = registry.get(&sandbox, "name/private:v1", &[]).env("PATH", &path).spawn();
    support::wait_for("the program", || {
        std::fs::read(sandbox.path("pid")).is_ok_and(|pid| pid.ends_with(b"\n"))
    });
    running.signal(rustix::process::Signal::INT);
    assert!(running.wait().status.code().is_some());
    let pid: u32 = String::from_utf8(sandbox.read("pid")).unwrap().trim().parse().unwrap();
    support::wait_for("its end", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn what_is_not_what_its_digest_says_is_refused() {
    let good = Image::new(&[5000, 1000]);
    for (image, says) in [
        (Image { sent: Some(pattern(5000, 9)), ..good.clone() }, &["sha256", "does not match"][..]),
        (
            Image { forged: true, ..good.clone() },
            &["the manifest from 127.0.0.1", "was asked for", "nothing was fetched"],
        ),
    ] {
        let registry = Registry::start(image);
        let sandbox = Sandbox::new();
        registry.get(&sandbox, "name/app:v1", &[]).run().fails(3, says);
        assert!(!sandbox.path("app/index.json").exists(), "{:?}", sandbox.names());
    }
    let registry = Registry::start(good);
    let sandbox = Sandbox::new();
    registry
        .get(&sandbox, "name/app:v9", &[])
        .run()
        .fails(1, &["404", "manifest unknown", "there is no oci://"]);
    let other = registry.get(&sandbox, "name/app:v1", &["--platform", "linux/mips"]).run();
    other.fails(1, &["nothing for linux/mips", "--platform takes one of linux/s390x, linux/riscv64"]);
    for (rest, says) in [("name/App", "is no name of an image"), ("name/app@sha256:12", "expected a digest")]
    {
        registry.get(&sandbox, rest, &[]).run().fails(2, &[says]);
    }
    registry.get(&sandbox, "name/app:v1", &["-r", "0-9"]).run().fails(2, &["-r fetches a part of a file"]);
    assert!(sandbox.names().is_empty(), "{:?}", sandbox.names());
}

/// A registry that takes the login itself hears a wrong one once: some lock an account after a few.
#[test]
fn a_wrong_login_is_shown_once() {
    let server = Server::start(|_, wire| {
        wire.answer("401 Unauthorized", &[("WWW-Authenticate", "Basic realm=\"x\"")], b"")
    });
    let sandbox = Sandbox::new();
    let url = format!("oci://{}/a:v1", server.address());
    sandbox.get([&url, "-u", "me:falsches-wort"]).run().fails(1, &["asked as me"]).hides("falsches-wort");
    let shown = |seen: &Arc<support::LoggedRequest>| seen.request.field("authorization").is_some();
    assert_eq!(server.requests().iter().filter(|seen| shown(seen)).count(), 1);
}

#[test]
fn a_manifest_may_be_elsewhere() {
    let image = Image::new(&[1000]);
    let (kept, user) = (image.clone(), base64(b"me:geheimes-wort"));
    let elsewhere = Arc::new(Server::start(move |request, wire| {
        let told = format!("{:?}", request.fields);
        assert!(request.field("accept").is_some_and(|accept| accept.contains(MANIFEST)), "{told}");
        assert!(!told.contains(&user) && request.field("authorization").is_none(), "{told}");
        wire.answer("200 OK", &[("Content-Type", MANIFEST)], &kept.manifest("riscv64"))
    }));
    let (at, kept) = (Arc::clone(&elsewhere), image.clone());
    let server = Server::start(move |request, wire| {
        let named = request.path().rsplit(':').next().unwrap();
        let blob = kept.layers.iter().chain([&kept.config]).find(|bytes| digest(bytes).ends_with(named));
        match blob {
            Some(bytes) => wire.answer("200 OK", &[], bytes),
            None => wire.redirect("307 Temporary Redirect", &at.url("signed?to=manifest")),
        }
    });
    let sandbox = Sandbox::new();
    let url = format!("oci://{}/app:v1", server.address());
    sandbox.get([&url, "-u", "me:geheimes-wort"]).run().succeeds();
    has_image(&sandbox, "app", &image);
}

/// A registry of `image`, in no index, whose tokens are each for one name.
fn plain_registry(image: &Image) -> Server {
    let kept = image.clone();
    Server::start(move |request, wire| {
        if request.path() == "/token" {
            let scope = request.target.replace("%3A", ":").replace("%2F", "/");
            let name = scope.split(':').nth(1).unwrap();
            let given = json!({"token": format!("for:{name}")});
            return wire.answer("200 OK", &[], given.to_string().as_bytes());
        }
        let mut parts = request.path().strip_prefix("/v2/").unwrap().rsplitn(3, '/');
        let (reference, name) = (parts.next().unwrap(), parts.nth(1).unwrap());
        if request.field("authorization") != Some(&*format!("Bearer for:{name}")) {
            let host = request.field("host").unwrap();
            let field = format!("Bearer realm=\"http://{host}/token\",scope=\"repository:{name}:pull\"");
            return wire.answer("401 Unauthorized", &[("WWW-Authenticate", &field)], b"");
        }
        match kept.layers.iter().chain([&kept.config]).find(|bytes| digest(bytes) == reference) {
            Some(bytes) => wire.answer("200 OK", &[], bytes),
            None => wire.answer("200 OK", &[("Content-Type", MANIFEST)], &kept.manifest("riscv64")),
        }
    })
}

/// One name may be the start of another: each gets its own token, whichever comes first.
#[test]
fn a_token_is_for_one_name() {
    let image = Image::new(&[1000, 2000]);
    let server = plain_registry(&image);
    for names in [["name/app:v1", "name/app/sub:v1"], ["name/app/sub:v1", "name/app:v1"]] {
        let sandbox = Sandbox::new();
        let urls = names.map(|name| format!("oci://{}/{name}", server.address()));
        sandbox.get(&urls).run().succeeds();
        has_image(&sandbox, "app", &image);
        has_image(&sandbox, "sub", &image);
    }
}

#[test]
fn an_image_without_an_index_says_what_it_is_for() {
    for (config, code, says) in [
        ("{\"os\":\"linux\",\"architecture\":\"riscv64\"}", 0, ""),
        ("{\"os\":\"linux\",\"architecture\":\"arm\"}", 1, "it is for linux/arm, not for linux/riscv64"),
        ("{}", 0, "does not say which platform it is for"),
        ("no json", 0, "does not say which platform it is for"),
    ] {
        let image = Image { config: config.into(), ..Image::new(&[1000]) };
        let server = plain_registry(&image);
        let sandbox = Sandbox::new();
        let url = format!("oci://{}/name/app:v1", server.address());
        let run = sandbox.get([&*url, "--platform", "linux/riscv64", "-vv"]).run();
        run.exits(code).says(&[says]);
        assert_eq!(sandbox.path("app/index.json").exists(), code == 0, "{config}");
        // Without --platform it is taken as it is.
        sandbox.get([&*url]).run().succeeds();
        has_image(&sandbox, "app", &image);
    }
}

/// A login does not belong into the address. It is in no word about that.
#[test]
fn a_login_in_an_address_is_shown_nowhere() {
    let sandbox = Sandbox::new();
    for text in ["oci://me:geheim@r.example/a:v1", "oci://geheim@r.example/a", "hf://me:geheim@org/model"] {
        let run = sandbox.get([text, "-vv"]).run();
        run.fails(2, &["a login does not belong here"]).hides("geheim");
        sandbox.write("list", format!("{text}\nhttp://127.0.0.1:1/x\n"));
        let run = sandbox.get(["-i", "list", "-o", "in/", "--json", "--retries", "0"]).run();
        run.fails(1, &["a login does not belong here"]).hides("geheim");
    }
}

#[test]
fn a_manifest_that_names_no_digest_is_refused() {
    for evil in ["../../x", "sha256:../../../x", "sha256:00", "md5:x", ""] {
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST,
            "config": {"digest": evil, "size": 1}, "layers": []});
        let server = Server::start(move |_, wire| {
            wire.answer("200 OK", &[("Content-Type", MANIFEST)], manifest.to_string().as_bytes())
        });
        let sandbox = Sandbox::new();
        let run = sandbox.get([format!("oci://{}/a:v1", server.address())]).run();
        run.fails(1, &["which is no digest", "nothing was fetched"]);
        assert!(sandbox.names().is_empty());
    }
}

/// Of a blob that another run brings into the same layout, which runs of a cluster do to each other.
#[test]
fn two_runs_share_a_layout() {
    const SIZE: usize = 2 * MIB;
    let until: Arc<AtomicBool> = Arc::default();
    let image = Image { stalls: true, until: Some(Arc::clone(&until)), ..Image::new(&[SIZE]) };
    let registry = Registry::start(image.clone());
    let sandbox = Sandbox::new();
    let first = registry.get(&sandbox, "name/app:v1", &["-c", "1", "-o", "app/"]).spawn();
    let layer = format!("app/blobs/{}", digest(&image.layers[0]).replace(':', "/"));
    wait_for("a journal", || sandbox.journalled(&layer) > 0);
    let by_digest = format!("name/app@{}", digest(&image.manifest("riscv64")));
    let mut second = registry.get(&sandbox, &by_digest, &["-c", "1", "-o", "app/"]);
    second.command.stderr(std::fs::File::create(sandbox.path("said")).unwrap());
    let second = second.spawn();
    let words = "another weir is writing it";
    let said = || support::unfolded(&String::from_utf8(sandbox.read("said")).unwrap());
    wait_for("a word of the wait", || said().contains(words));
    until.store(true, Relaxed);
    first.wait().succeeds();
    second.wait().succeeds();
    assert_eq!(said().matches(words).count(), 1, "{}", said());
    has_image(&sandbox, "app", &image);
    let index: Value = serde_json::from_slice(&sandbox.read("app/index.json")).unwrap();
    assert_eq!(index["manifests"].as_array().unwrap().len(), 2);
    let name = layer.rsplit('/').next().unwrap();
    let asked = registry.store.requests_from(0);
    assert_eq!(asked.iter().filter(|request| request.path().ends_with(name)).count(), 1);
}

/// Where nothing tells from here that another run writes the blob, the store is asked, and once.
#[test]
fn a_wait_for_another_run_asks_nothing() {
    const SIZE: usize = 2 * MIB;
    let until: Arc<AtomicBool> = Arc::default();
    let image = Image { stalls: true, until: Some(Arc::clone(&until)), etag: None, ..Image::new(&[SIZE]) };
    let registry = Registry::start(image.clone());
    let sandbox = Sandbox::new();
    let first = registry.get(&sandbox, "name/app:v1", &["-c", "1", "-o", "app/"]).spawn();
    let layer = format!("app/blobs/{}", digest(&image.layers[0]).replace(':', "/"));
    wait_for("a part", || sandbox.path(format!("{layer}.part")).exists());
    let by_digest = format!("name/app@{}", digest(&image.manifest("riscv64")));
    let few = ["-c", "1", "-o", "app/", "--max-wait", "1"];
    let second = registry.get(&sandbox, &by_digest, &few).run();
    assert!(support::unfolded(&second.stderr).contains("another weir is writing it"), "{}", second.stderr);
    let name = layer.rsplit('/').next().unwrap();
    let asked = || registry.store.requests().iter().filter(|one| one.request.path().ends_with(name)).count();
    assert_eq!(asked(), 2);
    until.store(true, Relaxed);
    first.wait().succeeds();
    has_image(&sandbox, "app", &image);
}

#[test]
fn a_killed_pull_goes_on() {
    const SIZE: usize = 12 * MIB;
    let image = Image { stalls: true, ..Image::new(&[SIZE]) };
    let registry = Registry::start(image.clone());
    let sandbox = Sandbox::new();
    let running = registry.get(&sandbox, "name/app:v1", &["-c", "1"]).spawn();
    let layer = format!("app/blobs/{}", digest(&image.layers[0]).replace(':', "/"));
    wait_for("a journal", || sandbox.journalled(&layer) > SIZE as u64 / 2);
    running.signal(Signal::KILL);
    drop(running);
    let before = registry.store.sent();
    registry.get(&sandbox, "name/app:v1", &["-c", "1"]).run().succeeds();
    has_image(&sandbox, "app", &image);
    let again = registry.store.sent() - before;
    assert!(again < SIZE as u64 * 2 / 3, "{again} sent again");
}

/// A registry of one name: the first of `manifests` has every tag, and it gives out these blobs alone.
fn registry_of(manifests: Vec<Vec<u8>>, blobs: Vec<Vec<u8>>) -> Server {
    Server::start(move |request, wire| {
        let reference = request.path().rsplit('/').next().unwrap();
        let held = manifests.iter().chain(&blobs).find(|bytes| digest(bytes) == reference);
        match (held, request.path().contains("/blobs/")) {
            (Some(bytes), _) => wire.answer("200 OK", &[], bytes),
            (None, false) => wire.answer("200 OK", &[], &manifests[0]),
            (None, true) => {
                let words = b"{\"errors\": [{\"code\": \"BLOB_UNKNOWN\", \"message\": \"blob unknown\"}]}";
                wire.answer("404 Not Found", &[], words)
            }
        }
    })
}

/// The manifest of `image`, its first layer's descriptor with this member.
fn manifest_with(image: &Image, member: &str, value: Value) -> Vec<u8> {
    let mut manifest: Value = serde_json::from_slice(&image.manifest("riscv64")).unwrap();
    manifest["layers"][0][member] = value;
    manifest.to_string().into_bytes()
}

/// As the base layers of Windows are: they name where else they are.
#[test]
fn a_layer_that_the_registry_does_not_give_out_is_fetched_from_elsewhere() {
    let image = Image::new(&[300_000, 1000]);
    let object = Object { bytes: Arc::new(image.layers[0].clone()), ..Object::new(0) };
    let elsewhere = Server::start(move |request, wire| object.serve(request, wire));
    let blobs = || vec![image.layers[1].clone(), image.config.clone()];
    let urls = json!(["ftp://far.invalid/x", elsewhere.url("layer")]);
    let server = registry_of(vec![manifest_with(&image, "urls", urls)], blobs());
    let sandbox = Sandbox::new();
    let get = |server: &Server| {
        let url = format!("oci://{}/name/app:v1", server.address());
        sandbox.get([&*url, "-u", "me:geheimes-wort", "-vv"]).run()
    };
    get(&server).succeeds().hides("geheimes-wort");
    for bytes in &image.layers {
        assert!(sandbox.read(&format!("app/blobs/{}", digest(bytes).replace(':', "/"))) == *bytes);
    }
    let asked = elsewhere.requests();
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|seen| seen.request.field("authorization").is_none()), "{asked:?}");
    // One that is nowhere does not mean that there is no such image.
    std::fs::remove_dir_all(sandbox.path("app")).unwrap();
    let server = registry_of(vec![image.manifest("riscv64")], blobs());
    get(&server).fails(1, &["404", "blob unknown", "names it, and 127.0.0.1"]).hides("there is no oci://");
}

#[test]
fn a_layer_of_another_size_than_its_manifest_says_is_refused() {
    let image = Image::new(&[300_000]);
    let blobs = vec![image.layers[0].clone(), image.config.clone()];
    let server = registry_of(vec![manifest_with(&image, "size", json!(5))], blobs);
    let sandbox = Sandbox::new();
    let url = format!("oci://{}/name/app:v1", server.address());
    sandbox.get([&url]).run().fails(1, &["it has 300000 bytes, not 5", "--ignore-digest"]);
    assert!(!sandbox.path("app/index.json").exists());
    sandbox.get([&*url, "--ignore-digest"]).run().succeeds();
}

#[test]
fn an_index_may_lead_to_another_and_name_what_is_no_image() {
    let image = Image::new(&[1000]);
    let (manifest, inner) = (image.manifest("riscv64"), image.index());
    let entry = |kind: &str, bytes: &[u8]| {
        let size = bytes.len();
        json!({"mediaType": kind, "digest": digest(bytes), "size": size})
    };
    let index = |first: Value| {
        let unknown = json!({"os": "unknown", "architecture": "unknown"});
        let mut attestation = entry(MANIFEST, b"attested");
        attestation["platform"] = unknown;
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [first, attestation]});
        index.to_string().into_bytes()
    };
    let mut deep = vec![manifest.clone()];
    for _ in 0..4 {
        deep.insert(0, index(entry(INDEX, &deep[0])));
    }
    for (manifests, args, says) in [
        (vec![index(entry(MANIFEST, &manifest)), manifest.clone()], &[][..], None),
        (vec![index(entry(INDEX, &inner)), inner, manifest.clone()], &["--platform", "linux/riscv64"], None),
        (deep, &[], Some("leads through more than 3 indexes")),
    ] {
        let server = registry_of(manifests, vec![image.layers[0].clone(), image.config.clone()]);
        let sandbox = Sandbox::new();
        let url = format!("oci://{}/name/app:v1", server.address());
        let run = sandbox.get([&url]).args(args).run();
        match says {
            Some(says) => {
                run.fails(1, &[says]);
            }
            None => {
                run.succeeds();
                has_image(&sandbox, "app", &image);
            }
        }
    }
}

/// Who gives tokens may lead on: to its own, which hears the login, and to others, who do not.
#[test]
fn a_token_may_be_elsewhere() {
    const GIVEN: &[u8] = b"{\"token\": \"given\"}";
    let image = Image::new(&[1000]);
    let far = Server::start(|_, wire| wire.answer("200 OK", &[], GIVEN));
    for (place, own) in [("/own?x=1".to_owned(), 1), (far.url("far"), 0)] {
        let (kept, to) = (image.clone(), place);
        let server = Server::start(move |request, wire| {
            match request.path() {
                "/token" => return wire.redirect("307 Temporary Redirect", &to),
                "/own" => return wire.answer("200 OK", &[], GIVEN),
                _ => {}
            }
            if request.field("authorization") != Some("Bearer given") {
                let host = request.field("host").unwrap();
                let field = format!("Bearer realm=\"http://{host}/token\",service=\"reg\"");
                return wire.answer("401 Unauthorized", &[("WWW-Authenticate", &field)], b"");
            }
            let reference = request.path().rsplit('/').next().unwrap();
            match kept.layers.iter().chain([&kept.config]).find(|bytes| digest(bytes) == reference) {
                Some(bytes) => wire.answer("200 OK", &[], bytes),
                None => wire.answer("200 OK", &[], &kept.manifest("riscv64")),
            }
        });
        let sandbox = Sandbox::new();
        let (url, login) = (format!("oci://{}/name/app:v1", server.address()), format!("me:{PASSWORD}"));
        sandbox.get([&*url, "-u", &login]).run().succeeds().hides(PASSWORD);
        has_image(&sandbox, "app", &image);
        let basic = format!("Basic {}", base64(login.as_bytes()));
        let asked = server.requests();
        let told = |path: &str| {
            let asked = asked.iter().filter(|seen| seen.request.path() == path);
            asked.filter(|seen| seen.request.field("authorization") == Some(&*basic)).count()
        };
        assert_eq!((told("/token"), told("/own")), (1, own));
    }
    let asked = far.requests();
    assert!(asked.len() == 1 && asked[0].request.field("authorization").is_none(), "{asked:?}");
}
