//! A Job of Kubernetes: its manifest against the schema of Kubernetes 1.32 and through `kubectl`, which reads
//! it into its own types; and `kubectl apply`, as far as it goes without a cluster.

use serde_json::Value;

use crate::support::{Run, Sandbox, WEIR};

/// From Kubernetes' OpenAPI definitions (1.32), strict: the types that a Job of weir's has, without their
/// descriptions. Types of other members are left open.
const SCHEMA: &str = include_str!("job.schema.json");

fn run(sandbox: &Sandbox, words: &[&str]) -> Run {
    let words =
        [&["fleet", "run", "--kubernetes", "8", "--image", "registry.example.org/weir:1"], words].concat();
    sandbox.weir(WEIR, words).run()
}

/// Everything that can be asked for.
const ALL: &[&str] = &[
    "--ledger=postgres://fleet:secret@db.example.org/fleet?sslmode=verify-full",
    "--job-name=move-all",
    "--namespace=data",
    "--secret=fleet-database",
    "--secret=fleet.s3",
    "--claim=source:/mnt/from",
    "--claim=target:/mnt/$(to)",
    "--cpu=1500m",
    "--memory=1Gi",
    "--service-account=mover",
    "--lease=10s",
    "--endpoint=https://s3.example.org/$(x)",
];

/// Fails where `value` is not what the schema of `of` has.
fn must_fit(schema: &Value, of: &Value, value: &Value, at: &str) {
    if let Some(name) = of["$ref"].as_str() {
        return must_fit(schema, &schema[name], value, at);
    }
    if let Some(ways) = of["oneOf"].as_array() {
        assert!(ways.iter().any(|way| is_of(way, value)), "{at}: {value} is none of {ways:?}");
        return;
    }
    assert!(is_of(of, value), "{at}: {value} is no {}", of["type"]);
    if let Some(known) = of["enum"].as_array() {
        assert!(known.contains(value), "{at}: {value} is none of {known:?}");
    }
    for name in of["required"].as_array().into_iter().flatten() {
        assert!(!value[name.as_str().unwrap()].is_null(), "{at} lacks {name}");
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        match (&of["properties"][name], &of["additionalProperties"]) {
            (Value::Null, Value::Bool(false)) => panic!("{at} is unknown"),
            (Value::Null, Value::Null) => {}
            (Value::Null, others) => must_fit(schema, others, member, &at),
            (known, _) => must_fit(schema, known, member, &at),
        }
    }
    for (number, member) in value.as_array().into_iter().flatten().enumerate() {
        must_fit(schema, &of["items"], member, &format!("{at}[{number}]"));
    }
}

fn is_of(of: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        _ => value.is_null(),
    };
    match &of["type"] {
        Value::Null => true,
        Value::Array(names) => names.iter().any(is),
        name => is(name),
    }
}

/// Everything of `ours` is in `theirs`, which may have more.
fn must_keep(ours: &Value, theirs: &Value, at: &str) {
    match (ours, theirs) {
        (Value::Object(members), _) => {
            members
                .iter()
                .for_each(|(name, member)| must_keep(member, &theirs[name], &format!("{at}.{name}")));
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            ours.iter().zip(theirs).for_each(|(ours, theirs)| must_keep(ours, theirs, at));
        }
        _ => assert_eq!(ours, theirs, "{at}"),
    }
}

#[test]
fn the_manifest_is_one_that_kubernetes_knows() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let sandbox = Sandbox::new();
    let small: &[&str] = &["--ledger=postgres://db/fleet"];
    let on_claim: &[&str] = &["--ledger=/mnt/l/plan.db", "--claim=l:/mnt/l"];
    for words in [ALL, small, on_claim] {
        let run = run(&sandbox, &[words, &["--json"]].concat());
        run.succeeds().hides("secret@");
        must_fit(&schema, &schema["Job"], &run.json(), "Job");
    }
    let whole = run(&sandbox, &[ALL, &["--json"]].concat()).json();
    let spec = &whole["spec"];
    assert_eq!((&spec["completionMode"], &spec["parallelism"]), (&"Indexed".into(), &8.into()));
    assert_eq!((&spec["completions"], &spec["backoffLimitPerIndex"]), (&8.into(), &3.into()));
    let pod = &spec["template"]["spec"];
    let args: Vec<&str> =
        pod["containers"][0]["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let ledger = "--ledger=postgres://fleet@db.example.org/fleet?sslmode=verify-full";
    assert_eq!(args[..3], ["fleet", "work", ledger]);
    // What kubelet would replace is written so that it does not.
    assert!(args.contains(&"--endpoint=https://s3.example.org/$$(x)"), "{args:?}");
    assert_eq!(args.last(), Some(&"--name=$(NODE_NAME)"));
    assert_eq!(pod["containers"][0]["envFrom"][1]["secretRef"]["name"], "fleet.s3");
    assert_eq!(pod["affinity"], Value::Null);
    let on_claim = run(&sandbox, &[on_claim, &["--json"]].concat()).json();
    let near = &on_claim["spec"]["template"]["spec"]["affinity"]["podAffinity"];
    assert_eq!(
        near["requiredDuringSchedulingIgnoredDuringExecution"][0]["topologyKey"], "kubernetes.io/hostname",
        "a file is for one node"
    );
}

/// `kubectl` reads it into Kubernetes' own types, and prints what it understood: a member that it does not
/// know is gone, and a wrong type is an error. That asks no server.
#[test]
fn kubectl_reads_all_of_it() {
    let sandbox = Sandbox::new();
    let version = sandbox.weir("sh", ["-c", "kubectl version --client --output=json"]).run();
    let version: Value = serde_json::from_slice(&version.stdout).unwrap_or_default();
    let minor = version["clientVersion"]["minor"]
        .as_str()
        .and_then(|minor| minor.trim_end_matches('+').parse::<u32>().ok());
    // Older ones know no backoffLimitPerIndex. No Debian package has a newer one, so CI may do without.
    if minor.is_none_or(|minor| minor < 29) {
        return println!("skipped: there is no kubectl 1.29 or newer");
    }
    for words in [ALL, &["--ledger=postgres://db/fleet"]] {
        let yaml = run(&sandbox, words);
        yaml.succeeds();
        let ours = run(&sandbox, &[words, &["--json"]].concat()).json();
        let image = "weir=registry.example.org/weir:2";
        let args = ["set", "image", "--local", "--filename=-", "--output=json", image];
        let read = sandbox.weir("kubectl", args).input(yaml.stdout.clone()).run();
        let mut theirs = read.succeeds().json();
        theirs["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.org/weir:1".into();
        must_keep(&ours, &theirs, "Job");
    }
    // What kubectl says of a server that is not there comes through.
    sandbox.write(
        "config",
        "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
        contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n",
    );
    let words =
        ["fleet", "run", "--kubernetes=2", "--image=weir:1", "--ledger=postgres://db/fleet", "--apply"];
    let away = sandbox.weir(WEIR, words).env("KUBECONFIG", sandbox.path("config")).run();
    away.fails(1, &["cannot apply the job by kubectl: ", "127.0.0.1:1"]);
}

#[test]
fn applying_hands_the_manifest_to_kubectl() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("bin")).unwrap();
    let stub = sandbox.write(
        "bin/kubectl",
        "#!/bin/sh\ncat > applied\necho \"$@\" > asked\necho job.batch/weir-fleet created\n",
    );
    std::fs::set_permissions(&stub, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", sandbox.path("bin").display(), std::env::var("PATH").unwrap());
    let apply = |words: &[&str]| {
        let words =
            [&["fleet", "run", "--kubernetes", "2", "--image", "weir:1", "--secret=s"], words].concat();
        sandbox.weir(WEIR, words).env("PATH", &path).run()
    };
    let ledger = "--ledger=postgres://me:secret@db/fleet";
    let printed = apply(&[ledger]);
    let applied = apply(&[ledger, "--apply"]);
    applied.succeeds().hides("secret");
    let said = String::from_utf8_lossy(&applied.stdout).into_owned();
    assert!(
        said.starts_with(
            "job.batch/weir-fleet created\nfollow it: weir fleet status --ledger postgres://me@db/fleet\n"
        ),
        "{said}"
    );
    assert!(said.contains("kubectl delete job weir-fleet"), "{said}");
    assert_eq!(sandbox.read("applied"), printed.stdout);
    assert_eq!(sandbox.read("asked"), b"apply --filename=-\n");
}

#[test]
fn what_pods_cannot_do_is_said() {
    let sandbox = Sandbox::new();
    let database = "--ledger=postgres://db/fleet";
    let cases: &[(&[&str], &str)] = &[
        (
            &["--ledger", "plan.db"],
            "several pods cannot share a file of this host; take a PostgreSQL database",
        ),
        (&["--ledger", "/mnt/other/plan.db", "--claim", "a:/mnt"], ""),
        (&["--ledger", "/mnt/../etc/plan.db", "--claim", "a:/mnt"], "several pods cannot share a file"),
        (&["--ledger", "/mntx/plan.db", "--claim", "a:/mnt"], "several pods cannot share a file"),
        (
            &["--ledger", "postgres://me:secret@db/fleet"],
            "is not written into a manifest; make a Secret that has it",
        ),
        (&[database, "--job-name", "Weir"], "invalid name of a job 'Weir'"),
        (&[database, "--job-name", &"a".repeat(62)], "expected at most 61"),
        (&[database, "--namespace=-a"], "invalid namespace"),
        (&[database, "--secret", "a b"], "invalid secret"),
        (&[database, "--memory=-1Gi"], "invalid memory"),
        (&[database, "--cpu", "0"], "invalid number of cores"),
        (&[database, "--claim", "data"], "invalid claim 'data': expected NAME:/FOLDER"),
        (&[database, "--claim", "a:/d", "--claim", "b:/d/"], "expected a folder for each"),
        (&[database, "--proxy", "http://u:secret@h"], "let a Secret have a key https_proxy"),
    ];
    for (words, says) in cases {
        let run = run(&sandbox, words);
        if says.is_empty() {
            run.succeeds();
        } else {
            run.fails(2, &[says]).hides("secret@");
        }
    }
    sandbox.weir(WEIR, ["fleet", "run", "--kubernetes", "2", database]).run().fails(2, &["--image"]);
    sandbox.weir(WEIR, ["fleet", "run", "--image", "i", database]).run().fails(2, &["--kubernetes"]);
}
