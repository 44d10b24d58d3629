//! `weir cp` between two services, each asked in its own way: other addresses, other credentials, other
//! certificates. Neither hears of what is the other's, and errors name the end that is meant.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::collections::BTreeSet;

use rustix::process::Signal;
use support::bucket::{Bucket, Fault};
use support::{MIB, Sandbox, Server, Weir, pattern};

const SECRET: &str = "a-secret-of-tests";

/// A service with what is copied, one that gets it, and the user's folder.
struct Two {
    source: Bucket,
    target: Bucket,
    sandbox: Sandbox,
}

impl Two {
    /// With the profiles `old` and `new` in `~/.aws`, each with its address and keys.
    fn set() -> Two {
        Two::started(Bucket::start(), Bucket::start())
    }

    fn started(source: Bucket, target: Bucket) -> Two {
        let sandbox = Sandbox::new();
        std::fs::create_dir(sandbox.path(".aws")).unwrap();
        let config: String = [("old", &source), ("new", &target)]
            .map(|(name, bucket)| format!("[profile {name}]\nendpoint_url = {}\n", bucket.server.url("")))
            .concat();
        sandbox.write(".aws/config", config);
        let keys: String = ["old", "new"]
            .map(|name| {
                let id = format!("AKID{}", name.to_uppercase());
                format!("[{name}]\naws_access_key_id = {id}\naws_secret_access_key = {SECRET}-{name}\n")
            })
            .concat();
        sandbox.write(".aws/credentials", keys);
        for (key, length) in SIZES {
            source.hold(key, pattern(length, length as u64));
        }
        Two { source, target, sandbox }
    }

    fn weir(&self, args: &[&str]) -> Weir {
        self.sandbox.weir(support::WEIR, args).env("AWS_REGION", "us-east-1")
    }

    /// The target has all below `prefix`, and each service was asked by its own key alone.
    #[track_caller]
    fn is_copied(&self, prefix: &str, askers: (&str, &str), context: &str) {
        for (key, length) in SIZES {
            let there = self.target.bytes(&key.replace("p/", prefix));
            assert!(there == pattern(length, length as u64), "{context}: {key}");
        }
        assert_eq!(asked_by(&self.source), BTreeSet::from([askers.0.to_owned()]), "{context}");
        assert_eq!(asked_by(&self.target), BTreeSet::from([askers.1.to_owned()]), "{context}");
        let filled = self.source.server.requests();
        assert!(
            filled.iter().all(|seen| matches!(seen.request.method.as_str(), "GET" | "HEAD")),
            "{context}"
        );
        assert!(self.target.holds().uploads.is_empty(), "{context}");
    }
}

const SIZES: [(&str, usize); 4] = [("p/none", 0), ("p/a", 1000), ("p/in/b", 2000), ("p/large", 9 * MIB)];

/// The keys that requests to it were signed with.
fn asked_by(bucket: &Bucket) -> BTreeSet<String> {
    let key = |text: &str| {
        let (_, rest) = text.split_once("Credential=")?;
        Some(rest.split('/').next()?.to_owned())
    };
    let requests = bucket.server.requests();
    requests
        .iter()
        .map(|seen| {
            let said = seen.request.field("authorization").unwrap_or_default();
            key(said).unwrap_or_else(|| "nobody".to_owned())
        })
        .collect()
}

/// What a variable holds; `{source}` and `{target}` stand for the addresses.
type Variables = &'static [(&'static str, &'static str)];

#[test]
fn each_end_is_asked_in_its_own_way() {
    const BOTH: Variables =
        &[("AWS_ACCESS_KEY_ID", "AKIDBOTH"), ("AWS_SECRET_ACCESS_KEY", "a-secret-of-tests")];
    type Case = (&'static [&'static str], Variables, (&'static str, &'static str));
    let cases: [Case; 7] = [
        // Addresses by flags, one key for both.
        (&["--source-endpoint", "{source}", "--target-endpoint", "{target}"], BOTH, ("AKIDBOTH", "AKIDBOTH")),
        // A flag for both, and one end's own.
        (&["--endpoint", "{target}", "--source-endpoint", "{source}"], BOTH, ("AKIDBOTH", "AKIDBOTH")),
        // Profiles stand above what the environment says of both.
        (
            &["--source-profile", "old", "--target-profile", "new"],
            &[
                ("AWS_ACCESS_KEY_ID", "AKIDBOTH"),
                ("AWS_SECRET_ACCESS_KEY", "x"),
                ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
            ],
            ("AKIDOLD", "AKIDNEW"),
        ),
        // The source's own, the target's as usual.
        (
            &["--source-profile", "old"],
            &[
                ("AWS_ACCESS_KEY_ID", "AKIDBOTH"),
                ("AWS_SECRET_ACCESS_KEY", "x"),
                ("AWS_SESSION_TOKEN", "of-both"),
                ("AWS_ENDPOINT_URL", "{target}"),
            ],
            ("AKIDOLD", "AKIDBOTH"),
        ),
        (&["--target-profile", "new", "--profile", "old"], &[], ("AKIDOLD", "AKIDNEW")),
        // Variables of one end, which are taken together or not at all.
        (
            &[],
            &[
                ("WEIR_SOURCE_AWS_ACCESS_KEY_ID", "AKIDSOURCE"),
                ("WEIR_SOURCE_AWS_SECRET_ACCESS_KEY", "x"),
                ("WEIR_SOURCE_AWS_ENDPOINT_URL", "{source}"),
                ("AWS_ACCESS_KEY_ID", "AKIDBOTH"),
                ("AWS_SECRET_ACCESS_KEY", "x"),
                ("AWS_SESSION_TOKEN", "of-both"),
                ("AWS_ENDPOINT_URL_S3", "{target}"),
            ],
            ("AKIDSOURCE", "AKIDBOTH"),
        ),
        (
            &["--source-no-sign"],
            &[("WEIR_SOURCE_AWS_ENDPOINT_URL", "{source}"), ("WEIR_TARGET_AWS_PROFILE", "new")],
            ("nobody", "AKIDNEW"),
        ),
    ];
    for (number, (args, variables, askers)) in cases.into_iter().enumerate() {
        let two = Two::set();
        let named = |text: &str| {
            text.replace("{source}", &two.source.server.url(""))
                .replace("{target}", &two.target.server.url(""))
        };
        let args: Vec<String> = args.iter().map(|text| named(text)).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let run = |what: &[&str]| {
            let weir = two.weir(&[what, &args].concat());
            variables.iter().fold(weir, |weir, (name, value)| weir.env(name, named(value))).run()
        };
        // One name of a bucket and its keys, at two services.
        let record = run(&["cp", "s3://b/p/", "s3://b/p/", "--json"]).succeeds().hides(SECRET).json();
        assert_eq!(record["cp"]["server_side"], false, "case {number}");
        two.is_copied("p/", askers, &format!("case {number}"));
        for seen in two.source.server.requests() {
            assert_eq!(seen.request.field("x-amz-security-token"), None, "case {number}");
        }
        let record = run(&["cp", "s3://b/p/", "s3://b/p/", "--json"]).succeeds().json();
        assert_eq!(record["cp"]["unchanged"], 4, "case {number}: {record}");
        let plan = run(&["plan", "s3://b/p/", "s3://b/q/", "--json"]).succeeds().json();
        assert!(plan["store_plan"].is_object(), "case {number}: {plan}");
        // What the target alone has goes, and nothing of the source does.
        two.target.hold("p/alone", vec![0]);
        run(&["cp", "--delete", "s3://b/p/", "s3://b/p/"]).succeeds();
        assert!(!two.target.holds().objects.contains_key("p/alone"), "case {number}");
        assert_eq!(two.source.holds().objects.len(), SIZES.len(), "case {number}");
    }
}

/// With a folder at the other end, too.
#[test]
fn one_end_in_a_store() {
    let two = Two::set();
    two.weir(&["cp", "s3://b/p/", "here", "--source-profile", "old", "-q"]).run().succeeds();
    assert!(two.sandbox.read("here/large") == pattern(9 * MIB, 9 * MIB as u64));
    two.weir(&["cp", "here/", "s3://b/q/", "--target-profile", "new", "-q"]).run().succeeds();
    two.is_copied("q/", ("AKIDOLD", "AKIDNEW"), "by way of a folder");
}

/// Each end has a certificate that the other's authority does not know.
#[test]
fn each_end_has_its_own_authority() {
    let tls = || Bucket::start_by(|handler| Server::start_tls(handler));
    let two = Two::started(tls(), tls());
    two.sandbox.write("old.pem", two.source.server.certificate());
    two.sandbox.write("new.pem", two.target.server.certificate());
    let ends = ["cp", "s3://b/p/", "s3://b/q/", "--source-profile", "old", "--target-profile", "new"];
    let run = |more: &[&str]| two.weir(&[&ends[..], more].concat()).run();
    run(&["--cacert", "new.pem"]).fails(1, &["source", "certificate"]);
    run(&["--cacert", "old.pem"]).fails(1, &["target", "certificate"]);
    run(&["--cacert", "new.pem", "--source-cacert", "old.pem"]).succeeds();
    two.is_copied("q/", ("AKIDOLD", "AKIDNEW"), "over TLS");
}

fn denied() -> Fault {
    let xml = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>".to_owned();
    Fault::Answer("403 Forbidden", xml)
}

#[test]
fn errors_name_the_end() {
    let ends = ["--source-profile", "old", "--target-profile", "new"];
    let run = |two: &Two| two.weir(&[&["cp", "s3://b/p/", "s3://b/p/"][..], &ends].concat()).run();
    let two = Two::set();
    two.source.hook(|request| request.target.contains("list-type").then(denied));
    run(&two).fails(1, &["at the source", "AccessDenied", "AKIDOLD", "'old'"]).hides(SECRET);
    two.source.heals();
    two.source.hook(|request| (request.method == "GET" && request.path() == "/b/p/a").then(denied));
    run(&two).fails(1, &["fetch s3://b/p/a at the source", "AKIDOLD"]).hides(SECRET);
    two.source.heals();
    two.target.hook(|request| (request.method == "PUT").then(denied));
    run(&two).fails(1, &["put s3://b/p/a", "AKIDNEW", "'new'"]).hides(SECRET);
    two.target.hook(|request| {
        let xml = "<Error><Code>NoSuchBucket</Code><Message>no</Message></Error>".to_owned();
        request.target.contains("list-type").then_some(Fault::Answer("404 Not Found", xml))
    });
    run(&two).fails(1, &["at the target", "NoSuchBucket"]);
    two.target.heals();
    // Nobody is there.
    let nobody = ["--source-endpoint", "http://127.0.0.1:1", "--target-profile", "new"];
    let keys = |weir: Weir| weir.env("AWS_ACCESS_KEY_ID", "AKIDBOTH").env("AWS_SECRET_ACCESS_KEY", SECRET);
    let run = |args: &[&str]| keys(two.weir(&[&["cp", "s3://b/p/", "s3://b/p/"][..], args].concat())).run();
    run(&nobody).says(&["source", "127.0.0.1:1"]);
}

/// What is kept with an object, small or large.
const BESIDE: [(&str, &str); 4] = [
    ("Content-Language", "de"),
    ("Expires", "Thu, 01 Jan 2099 00:00:00 GMT"),
    ("x-amz-meta-own", "words"),
    ("x-amz-tagging", "a%20b=1&c=d"),
];

#[test]
fn what_is_kept_with_an_object_comes_with_it() {
    let two = Two::set();
    let with_beside = ["p/a", "p/large"];
    for key in with_beside {
        let beside = BESIDE.map(|(name, value)| (name.to_owned(), value.to_owned()));
        two.source.holds().objects.get_mut(key).unwrap().fields = beside.to_vec();
    }
    let copied = |to: &str, names: &[&str], said: &[&str]| {
        let ends = ["--source-profile", "old", "--target-profile", "new"];
        two.weir(&[&["cp", "s3://b/p/", to][..], &ends].concat()).run().succeeds().says(said);
        for key in with_beside {
            let key = format!("{}{}", &to["s3://b/".len()..], &key["p/".len()..]);
            let there = two.target.holds().objects[&key].fields.clone();
            for (name, value) in BESIDE {
                let own = there.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
                let is_kept = own.is_some_and(|(_, own)| own == value);
                assert_eq!(is_kept, names.contains(&name), "{key}: {name} {there:?}");
            }
        }
    };
    let all = BESIDE.map(|(name, _)| name);
    copied("s3://b/all/", &all, &[]);
    // Tags are a right of their own, at either end.
    two.source.hook(|request| request.target.contains("tagging").then(denied));
    let not_read = "tags of 2 objects are not kept: cannot read the tags of s3://b/p/";
    copied("s3://b/unread/", &all[..3], &[not_read, "AccessDenied"]);
    two.source.heals();
    two.target.hook(|request| request.field("x-amz-tagging").map(|_| denied()));
    copied("s3://b/unwritten/", &all[..3], &["AccessDenied", "tags are not kept from now on"]);
}

#[test]
fn what_does_not_go_together() {
    let two = Two::set();
    let old = two.source.server.url("");
    let cases: [(&[&str], &[&str]); 6] = [
        (&["s3://b/p/", "here", "--target-endpoint", "http://h"], &["--target-endpoint", "the target"]),
        (&["here", "s3://b/p/", "--source-profile", "old"], &["--source-profile", "the source"]),
        (&["here", "there", "--source-no-sign"], &["--source-no-sign", "leave it out"]),
        (
            &["s3://b/", "s3://b/q/", "--endpoint", "http://h", "--source-profile", "old"],
            &["--endpoint names one service", "'old'", "--source-endpoint", &old],
        ),
        (
            &["s3://b/", "s3://b/q/", "--source-profile", "none"],
            &["'none' (named by --source-profile)", "new, old"],
        ),
        (&["gs://b/", "s3://b/q/", "--endpoint", "http://h"], &["--source-endpoint and --target-endpoint"]),
    ];
    for (args, said) in cases {
        two.weir(&[&["cp"], args].concat()).run().fails(2, said);
    }
    let weir = two.weir(&["cp", "s3://b/", "s3://b/q/"]).env("WEIR_SOURCE_AWS_ACCESS_KEY_ID", "AKID");
    weir.run().fails(
        2,
        &["WEIR_SOURCE_AWS_ACCESS_KEY_ID is set and WEIR_SOURCE_AWS_SECRET_ACCESS_KEY is not", "source"],
    );
    assert!(two.target.server.requests().is_empty() && two.source.server.requests().is_empty());
}

/// A service copies by itself for one asker. For two it does not: each may have a bucket of its own of one
/// name.
#[test]
fn one_service() {
    let two = Two::set();
    let endpoint = two.source.server.url("");
    let copies = || {
        let seen = two.source.server.requests();
        seen.iter().filter(|seen| seen.request.field("x-amz-copy-source").is_some()).count()
    };
    let run = |args: &[&str]| two.weir(&[&["cp", "--json"], args].concat()).run();
    let one = ["--source-profile", "old", "--target-profile", "old"];
    let record = run(&[&["s3://b/p/", "s3://c/q/"][..], &one].concat()).succeeds().json();
    assert_eq!((record["cp"]["server_side"].as_bool(), copies()), (Some(true), 4));
    // By two askers, who may mean two buckets by one name.
    let other = ["--source-profile", "old", "--target-profile", "new", "--target-endpoint", &endpoint];
    let run_other = |args: &[&str]| run(&[args, &other].concat());
    let record = run_other(&["s3://b/p/", "s3://c/r/"]).succeeds().json();
    assert_eq!((record["cp"]["server_side"].as_bool(), copies()), (Some(false), 4));
    assert!(two.source.bytes("r/large") == pattern(9 * MIB, 9 * MIB as u64));
    let record = run_other(&["s3://b/p/", "s3://b/p/"]).succeeds().json();
    assert_eq!(record["cp"]["unchanged"], 4);
    run_other(&["s3://b/p/", "s3://b/p/in/"]).fails(2, &["one lies in the other"]);
    // Who may read, and may not have it copied.
    two.source.hook(|request| request.field("x-amz-copy-source").map(|_| denied()));
    let run = run(&[&["s3://b/p/", "s3://c/s/"][..], &one].concat());
    let record = run.succeeds().says(&["AccessDenied", "comes through here"]).json();
    assert_eq!(record["cp"]["server_side"], false);
    assert!(two.source.bytes("s/large") == pattern(9 * MIB, 9 * MIB as u64));
}

/// A large object, of which a first run brought two parts before it was ended by a signal.
fn cut_off(signal: Signal) -> Two {
    let two = Two::set();
    two.source.hold("p/large", pattern(20 * MIB, 1));
    // What weir makes of the digests is tested, and not that they are computed here.
    two.target.holds().trusts = true;
    two.target.hook(|request| {
        let is_third = request.method == "PUT" && request.target.contains("partNumber=3&");
        is_third.then_some(Fault::Hang)
    });
    let running = two.weir(&large(&["-c", "1"])).spawn();
    two.target.server.wait("the third part", |_, requests| {
        requests.iter().any(|seen| seen.request.target.contains("partNumber=3&"))
    });
    running.signal(signal);
    let run = running.wait();
    assert!(run.status.code().is_none_or(|code| code == 130), "{run:?}");
    two.target.heals();
    two
}

fn large<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let copy = ["cp", "s3://b/p/large", "s3://b/q/large", "--json"];
    let ends = ["--source-profile", "old", "--target-profile", "new"];
    [&copy[..], &ends, more].concat()
}

/// Parts that were sent to the target, and bytes that were asked of the source, since a count of requests of
/// each.
fn moved_since(two: &Two, (source, target): (usize, usize)) -> (BTreeSet<String>, u64) {
    let parts = two.target.server.requests_from(target).into_iter().filter_map(|request| {
        let (_, rest) = request.target.split_once("partNumber=").filter(|_| request.method == "PUT")?;
        Some(rest.split('&').next()?.to_owned())
    });
    let asked = two.source.server.requests_from(source).into_iter().filter_map(|request| {
        let (first, last) = request.range().filter(|_| request.method == "GET")?;
        Some(last? - first)
    });
    (parts.collect(), asked.sum())
}

#[test]
fn a_large_object_goes_on_where_it_was_cut_off() {
    for signal in [Signal::KILL, Signal::INT] {
        let two = cut_off(signal);
        assert_eq!(two.target.holds().uploads.len(), 1);
        let seen = (two.source.server.requests().len(), two.target.server.requests().len());
        let run = two.weir(&large(&[])).run();
        let record = run.succeeds().hides(SECRET).json();
        assert_eq!(record["resumed"], 16 * MIB, "{record}");
        assert!(two.target.bytes("q/large") == pattern(20 * MIB, 1));
        assert!(two.target.holds().uploads.is_empty());
        let (parts, asked) = moved_since(&two, seen);
        assert_eq!(parts, ["3".to_owned()].into());
        // And a byte that says that it is the same object still.
        assert_eq!(asked, 4 * MIB as u64 + 1);
        // All of it was held against the digest that its store keeps.
        assert!(!run.stderr.contains("not verified"), "{}", run.stderr);
        let left = two.sandbox.names().into_iter().filter(|name| name.ends_with(".upload"));
        assert_eq!(left.count(), 0);
    }
}

/// What was sent is of no use any more, or is there no more: all of it goes again, and nothing is left.
#[test]
fn a_large_object_that_cannot_go_on_begins_again() {
    let all: BTreeSet<String> = (1..=3).map(|number| number.to_string()).collect();
    for (what, said) in
        [("another object", "has changed"), ("no upload", "no more"), ("another part", "not list")]
    {
        let two = cut_off(Signal::KILL);
        let seed = if what == "another object" { 2 } else { 1 };
        match what {
            "another object" => two.source.hold("p/large", pattern(20 * MIB, 2)),
            "no upload" => two.target.holds().uploads.clear(),
            _ => {
                let mut holds = two.target.holds();
                let upload = holds.uploads.values_mut().next().unwrap();
                upload.parts.get_mut(&1).unwrap().1 = "\"another\"".to_owned();
            }
        }
        let seen = (two.source.server.requests().len(), two.target.server.requests().len());
        two.weir(&large(&[])).run().succeeds().says(&[said]);
        assert!(two.target.bytes("q/large") == pattern(20 * MIB, seed), "{what}");
        assert!(two.target.holds().uploads.is_empty(), "{what}");
        let (parts, _) = moved_since(&two, seen);
        let expected = match what {
            "another part" => all.iter().filter(|number| *number != "2").cloned().collect(),
            _ => all.clone(),
        };
        assert_eq!(parts, expected, "{what}");
    }
    // It is damaged at its store, which the parts of both runs together show.
    let two = cut_off(Signal::KILL);
    two.source.hook(|request| {
        let is_third =
            request.method == "GET" && request.range().is_some_and(|(at, _)| at == 16 * MIB as u64);
        is_third.then_some(Fault::Damage)
    });
    two.weir(&large(&[])).run().fails(3, &["does not match"]);
    assert!(two.target.holds().uploads.is_empty() && !two.target.holds().objects.contains_key("q/large"));
}
