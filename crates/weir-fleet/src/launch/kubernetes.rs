//! Workers as an indexed Job of Kubernetes: its manifest, and `kubectl apply` of it.
//!
//! Each index is a worker, which Kubernetes starts again where its node fails (`backoffLimitPerIndex`, a
//! count for each index, so that one bad node does not end the others). SIGTERM comes 30 s before SIGKILL,
//! and a worker leaves in 20. A password is never in the manifest: it names Secrets, whose keys become
//! variables.

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::{Value, json};
use weir_units::program::ProgramLimits;
use weir_units::{human_duration, quoted};

use super::said::{self, Refusal, one_line};

/// How long `kubectl` may take: it asks the server a dozen questions, and waits 32 s for each.
const LIMIT: Duration = Duration::from_secs(120);

/// Bytes of what it says.
const MOST: u64 = 64 << 10;

/// A worker that a node takes with it is no failure of its own (`DisruptionTarget`). What fails otherwise
/// may pass: a ledger that is away, a node without space. Three attempts, with pauses of 10, 20 and 40 s.
const ATTEMPTS: u32 = 3;

/// The exit code for bad arguments, which no other attempt and no other index gets any better.
const USAGE: u8 = 2;

/// The most indexes of a Job (Kubernetes: Jobs, completion mode).
pub const MOST_WORKERS: u32 = 100_000;

/// Letters of a name that becomes a host's (RFC 1123, 2.1).
const LABEL: usize = 63;

/// Letters of any other name (Kubernetes: Object Names and IDs).
const SUBDOMAIN: usize = 253;

/// A claim of a volume, and where pods see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimMount {
    /// The claim's name.
    pub claim: String,
    /// The folder, from the root on.
    pub path: String,
}

impl std::str::FromStr for ClaimMount {
    type Err = String;

    fn from_str(text: &str) -> Result<ClaimMount, String> {
        let shown = quoted(text);
        let expected = || format!("invalid claim '{shown}': expected NAME:/FOLDER, as in data:/mnt/data");
        let (claim, path) = text.split_once(':').ok_or_else(expected)?;
        if !is_subdomain(claim) || !path.starts_with('/') || path.contains([':', '\0']) || is_upward(path) {
            return Err(expected());
        }
        Ok(ClaimMount { claim: claim.to_owned(), path: path.to_owned() })
    }
}

/// A Job of workers.
#[derive(Debug, Clone, Default)]
pub struct KubernetesJob {
    /// What it is called.
    pub name: String,
    /// Where; `None`: the namespace of whoever applies it.
    pub namespace: Option<String>,
    /// What its pods run: an image that has weir in its PATH.
    pub image: String,
    /// How many.
    pub workers: u32,
    /// Arguments of weir, which hold no secret.
    pub words: Vec<String>,
    /// Secrets whose keys become variables: `PGPASSWORD`, `AWS_ACCESS_KEY_ID`, ...
    pub secrets: Vec<String>,
    /// Volumes.
    pub claims: Vec<ClaimMount>,
    /// Cores that a pod asks for, as Kubernetes writes it.
    pub cpu: String,
    /// Memory that it asks for, and gets at most.
    pub memory: String,
    /// Whose rights it has.
    pub service_account: Option<String>,
    /// All pods go to one node, since the ledger is a file.
    pub on_one_node: bool,
}

/// Why there is no Job.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// Something that Kubernetes would refuse.
    #[error("{0}")]
    Invalid(String),
    /// `kubectl` did not do it.
    #[error("cannot apply the job by kubectl: {0}")]
    Kubectl(String),
    /// A signal came.
    #[error("interrupted while kubectl was at work; kubectl get jobs shows what was made")]
    Interrupted,
}

impl KubernetesJob {
    /// Whether Kubernetes takes its names and quantities.
    ///
    /// # Errors
    /// [`KubernetesError::Invalid`].
    pub fn check(&self) -> Result<(), KubernetesError> {
        let invalid = |what: &str, text: &str, expected: &str| {
            Err(KubernetesError::Invalid(format!("invalid {what} '{}': expected {expected}", quoted(text))))
        };
        // A pod's host name is the job's, a dash and the index.
        let room = LABEL - 1 - self.workers.saturating_sub(1).max(1).ilog10() as usize - 1;
        if !is_label(&self.name) || self.name.len() > room {
            let expected = format!("at most {room} of a-z, 0-9 and '-', which begin and end without '-'");
            return invalid("name of a job", &self.name, &expected);
        }
        if let Some(namespace) = self.namespace.as_deref().filter(|name| !is_label(name)) {
            return invalid("namespace", namespace, "at most 63 of a-z, 0-9 and '-'");
        }
        let names = self.secrets.iter().map(|name| ("secret", name));
        let names = names.chain(self.service_account.iter().map(|name| ("service account", name)));
        let mut names = names.filter(|(_, name)| !is_subdomain(name));
        if let Some((what, name)) = names.next() {
            return invalid(what, name, "a name of a-z, 0-9, '-' and '.'");
        }
        if self.image.is_empty()
            || self.image.contains(|letter: char| letter.is_whitespace() || letter.is_control())
        {
            return invalid("image", &self.image, "one as in registry.example.org/weir:1");
        }
        for (what, text) in [("number of cores", &self.cpu), ("memory", &self.memory)] {
            if !is_quantity(text) {
                return invalid(what, text, "a quantity of Kubernetes, as 500m, 2 or 256Mi");
            }
        }
        let mut paths: Vec<&str> = self.claims.iter().map(|claim| claim.path.trim_end_matches('/')).collect();
        paths.sort_unstable();
        match paths.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => invalid("claims", two[0], "a folder for each of them"),
            None => Ok(()),
        }
    }

    /// The Job (Kubernetes API, batch/v1).
    pub fn manifest(&self) -> Value {
        let labels = json!({
            "app.kubernetes.io/name": "weir",
            "app.kubernetes.io/component": "fleet-worker",
            "app.kubernetes.io/instance": self.name,
        });
        let mut metadata = json!({ "name": self.name, "labels": labels });
        if let Some(namespace) = &self.namespace {
            metadata["namespace"] = json!(namespace);
        }
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": {
                "completionMode": "Indexed",
                "completions": self.workers,
                "parallelism": self.workers,
                "backoffLimitPerIndex": ATTEMPTS,
                "podFailurePolicy": { "rules": [
                    { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] },
                    { "action": "FailJob", "onExitCodes": {
                        "containerName": "weir", "operator": "In", "values": [USAGE] } },
                ] },
                "template": { "metadata": { "labels": labels }, "spec": self.pod() },
            },
        })
    }

    fn pod(&self) -> Value {
        let mut pod = json!({
            // What is tried again is a new pod: the policy above asks for it.
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "containers": [self.container()],
        });
        if let Some(account) = &self.service_account {
            pod["serviceAccountName"] = json!(account);
        }
        if !self.claims.is_empty() {
            let volume = |(at, mount): (usize, &ClaimMount)| json!({ "name": format!("claim-{at}"), "persistentVolumeClaim": { "claimName": mount.claim } });
            pod["volumes"] = self.claims.iter().enumerate().map(volume).collect();
        }
        if self.on_one_node {
            // The first pod of those that seek each other goes where it likes.
            pod["affinity"] = json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
                "labelSelector": { "matchLabels": { "app.kubernetes.io/instance": self.name } },
                "topologyKey": "kubernetes.io/hostname",
            }] } });
        }
        pod
    }

    fn container(&self) -> Value {
        // Of `$(NAME)` kubelet makes a variable's value, and of `$$` one `$`.
        let mut words: Vec<String> = self.words.iter().map(|word| word.replace('$', "$$")).collect();
        // Hosts are told apart by their nodes: a pod's own name is new with every attempt.
        words.push("--name=$(NODE_NAME)".to_owned());
        let mut container = json!({
            "name": "weir",
            "image": self.image,
            "command": ["weir"],
            "args": words,
            "env": [{ "name": "NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }],
            "resources": {
                "requests": { "cpu": self.cpu, "memory": self.memory },
                "limits": { "memory": self.memory },
            },
        });
        if !self.secrets.is_empty() {
            let secret = |name: &String| json!({ "secretRef": { "name": name } });
            container["envFrom"] = self.secrets.iter().map(secret).collect();
        }
        if !self.claims.is_empty() {
            let mount = |(at, mount): (usize, &ClaimMount)| json!({ "name": format!("claim-{at}"), "mountPath": mount.path });
            container["volumeMounts"] = self.claims.iter().enumerate().map(mount).collect();
        }
        container
    }

    /// The same as YAML.
    pub fn yaml(&self) -> String {
        let mut text = String::new();
        push_yaml(&mut text, &self.manifest(), 0);
        text
    }

    /// Applies it by `kubectl`. Returns what that says.
    ///
    /// # Errors
    /// [`KubernetesError`].
    pub fn apply(&self, stop: &AtomicBool) -> Result<String, KubernetesError> {
        self.check()?;
        let mut command = Command::new("kubectl");
        command.args(["apply", "--filename=-"]);
        let limits = ProgramLimits { time: LIMIT, output: MOST, stop };
        let absent = "it is not installed here; leave --apply out, and apply what is printed";
        let late =
            format!("no end within {}; kubectl get jobs shows whether it was made", human_duration(LIMIT));
        match said::asked(command, self.yaml().as_bytes(), limits, (absent, &late)) {
            Ok(out) => Ok(one_line(&out)),
            Err(Refusal::Interrupted) => Err(KubernetesError::Interrupted),
            Err(Refusal::Why(why)) => Err(KubernetesError::Kubectl(why)),
            Err(Refusal::Complaint(words)) => Err(KubernetesError::Kubectl(one_line(&words))),
        }
    }
}

/// JSON as YAML 1.2: strings stay in double quotes, where both agree on what is escaped.
fn push_yaml(into: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                into.push_str(&format!("{indent}{}:", key(name)));
                push_member(into, value, depth + 1);
            }
        }
        Value::Array(values) => {
            for value in values {
                match value {
                    Value::Object(members) if !members.is_empty() => {
                        // The first member stands behind the dash.
                        let mut nested = String::new();
                        push_yaml(&mut nested, value, depth + 1);
                        into.push_str(&format!("{indent}- {}", &nested[indent.len() + 2..]));
                    }
                    scalar => into.push_str(&format!("{indent}- {scalar}\n")),
                }
            }
        }
        scalar => into.push_str(&format!("{indent}{scalar}\n")),
    }
}

fn push_member(into: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            into.push('\n');
            push_yaml(into, value, depth);
        }
        Value::Array(values) if !values.is_empty() => {
            into.push('\n');
            push_yaml(into, value, depth);
        }
        scalar => into.push_str(&format!(" {scalar}\n")),
    }
}

/// A member's name; those with a dot or a slash in quotes.
fn key(name: &str) -> String {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_plain { name.to_owned() } else { Value::from(name).to_string() }
}

fn is_label(text: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LABEL).contains(&text.len())
        && text.bytes().all(is_inside)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN && text.split('.').all(is_label)
}

/// A number and a suffix (Kubernetes: resource.Quantity), above zero.
fn is_quantity(text: &str) -> bool {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let suffix = &text[digits.len()..];
    let is_known = ["", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"].contains(&suffix);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_known && is_number && digits.parse::<f64>().is_ok_and(|number| number > 0.0)
}

/// Leads out of its folder.
fn is_upward(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// Whether `path` is on one of the claims.
pub fn is_on_claim(path: &str, claims: &[ClaimMount]) -> bool {
    claims.iter().any(|mount| {
        let folder = mount.path.trim_end_matches('/');
        path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')) && !is_upward(path)
    })
}
