//! The login for a registry that docker, podman or skopeo keep (`docker login`): in their files, or with a
//! program that these name (`credHelpers`, `credsStore`).
//! <https://github.com/docker/docker-credential-helpers>

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use weir_http::netrc::Login;
use weir_units::Bytes;

use crate::credentials::process;
use crate::environment::Environment;

/// Logins of a thousand registries take a fifth of it.
const MAX_CONFIG: Bytes = Bytes(1 << 20);

/// `config.json` of docker, `auth.json` of podman.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Config {
    auths: HashMap<String, Kept>,
    cred_helpers: HashMap<String, String>,
    creds_store: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Kept {
    auth: String,
    username: String,
    password: String,
}

/// How long a program may take; some ask for a password of their own.
const LIMIT: Duration = Duration::from_secs(30);

/// What a program says when it has no login for a registry.
const NONE: &str = "credentials not found";

/// The user in whose place a program gives a token that would have to be traded first.
const TRADED: &str = "<token>";

/// What a program prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Given {
    #[serde(default)]
    username: String,
    #[serde(default)]
    secret: String,
}

/// The login for `registry`, a host with its port; of several files the first that has one. Programs are
/// asked until `stop` is set.
pub fn login_of(registry: &str, environment: Environment<'_>, stop: &AtomicBool) -> Option<Login> {
    files(environment).into_iter().find_map(|path| {
        let text = match weir_units::read_text(&path, MAX_CONFIG) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!("{} is not used: {}", path.display(), weir_units::plain(&error));
                return None;
            }
        };
        match serde_json::from_str::<Config>(&text) {
            Ok(config) => login_in(&config, registry, &path.display().to_string(), stop),
            Err(error) => {
                tracing::warn!(
                    "{} is not used: line {} is not what docker writes",
                    path.display(),
                    error.line()
                );
                None
            }
        }
    })
}

fn files(environment: Environment<'_>) -> Vec<PathBuf> {
    let of = |name: &str, rest: &str| {
        environment(name).filter(|text| !text.is_empty()).map(|text| PathBuf::from(text).join(rest))
    };
    let own = environment("REGISTRY_AUTH_FILE").filter(|text| !text.is_empty()).map(PathBuf::from);
    let docker = of("DOCKER_CONFIG", "config.json").or_else(|| of("HOME", ".docker/config.json"));
    let podman = of("XDG_RUNTIME_DIR", "containers/auth.json");
    let podman_at_home = of("HOME", ".config/containers/auth.json");
    [own, docker, podman, podman_at_home].into_iter().flatten().collect()
}

fn login_in(config: &Config, registry: &str, path: &str, stop: &AtomicBool) -> Option<Login> {
    // Docker's own registry is kept under the address that it had first.
    let old = ["https://index.docker.io/v1/", "docker.io"];
    let is_hub = registry == "registry-1.docker.io";
    let names: Vec<&str> = std::iter::once(registry).chain(old.into_iter().filter(|_| is_hub)).collect();
    let is_one = |key: &str| names.iter().any(|name| *name == key || host_in(key) == *name);
    let kept = config.auths.iter().find(|(key, _)| is_one(key)).map(|(_, kept)| kept);
    let helper = config.cred_helpers.iter().find(|(key, _)| is_one(key)).map(|(_, helper)| helper.as_str());
    let of_all = Some(config.creds_store.as_str()).filter(|name| !name.is_empty());
    kept.and_then(login_kept).or_else(|| {
        // Docker's own registry has its first address there, too.
        let server = if is_hub { old[0] } else { registry };
        match given(helper.or(of_all)?, server, stop) {
            Ok(login) => login,
            Err(why) => {
                tracing::warn!("{path}: {why}; asking {registry} without a login, which -u gives");
                None
            }
        }
    })
}

/// The login that `docker-credential-NAME` has for `server`.
fn given(name: &str, server: &str, stop: &AtomicBool) -> Result<Option<Login>, String> {
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if !is_name {
        return Err(format!("'{}' is no name of a program for logins", weir_units::quoted(name)));
    }
    let program = format!("docker-credential-{name}");
    let words = [program.clone(), "get".to_owned()];
    let printed = match process::answer(&words, &format!("{server}\n"), &program, LIMIT, stop) {
        Ok(printed) => printed,
        Err(error) if error.to_string().contains(NONE) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let given: Given = serde_json::from_slice(&printed)
        .map_err(|error| format!("{program} printed no login (column {} of its JSON)", error.column()))?;
    match (given.username.as_str(), given.secret.is_empty()) {
        (TRADED, _) => {
            Err(format!("{program} gives a token that would have to be traded, which weir does not do"))
        }
        ("", _) | (_, true) => Ok(None),
        _ => Ok(Some(Login { login: given.username, password: given.secret })),
    }
}

fn host_in(key: &str) -> &str {
    let rest = key.split_once("://").map_or(key, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

fn login_kept(kept: &Kept) -> Option<Login> {
    if !kept.username.is_empty() {
        return Some(Login { login: kept.username.clone(), password: kept.password.clone() });
    }
    let pair = String::from_utf8(STANDARD.decode(kept.auth.trim()).ok()?).ok()?;
    let (login, password) = pair.split_once(':')?;
    Some(Login { login: login.to_owned(), password: password.trim_end_matches('\0').to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_those_that_docker_keeps() {
        let folder = tempfile::tempdir().unwrap();
        let auth = STANDARD.encode("me:s3cr:et");
        let text = format!(
            r#"{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{auth}"}}, "r.example:5000": {{"auth": "{auth}"}},
                "https://q.example/v2/": {{"username": "u", "password": "p"}}, "s.example": {{}}}},
                "credsStore": "no such/program", "other": 1}}"#
        );
        std::fs::write(folder.path().join("config.json"), text).unwrap();
        let docker = folder.path().display().to_string();
        let environment = |name: &str| (name == "DOCKER_CONFIG").then(|| docker.clone());
        let of = |registry: &str| {
            login_of(registry, &environment, &AtomicBool::new(false))
                .map(|login| format!("{}:{}", login.login, login.password))
        };
        assert_eq!(of("registry-1.docker.io").as_deref(), Some("me:s3cr:et"));
        assert_eq!(of("r.example:5000").as_deref(), Some("me:s3cr:et"));
        assert_eq!(of("q.example").as_deref(), Some("u:p"));
        for none in ["r.example", "s.example", "t.example"] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
