//! The login for a registry that docker, podman or skopeo keep (`docker login`): in their files, or with a
//! program that these name (`credHelpers`, `credsStore`).
//! <https://github.com/docker/docker-credential-helpers>
//!
//! Podman keeps logins of namespaces too (`HOST/NAMESPACE`, containers-auth.json(5)): the closest one counts,
//! and that of another namespace never.

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
use crate::hub::tokens::IDENTITY;

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
    /// What is traded for a token, in place of a password (`az acr login`).
    identitytoken: String,
}

/// How long a program may take; some ask for a password of their own.
const LIMIT: Duration = Duration::from_secs(30);

/// What a program says when it has no login for a registry.
const NONE: &str = "credentials not found";

/// What a program prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Given {
    #[serde(default)]
    username: String,
    #[serde(default)]
    secret: String,
}

/// The login for the repository `name` at `registry`, a host with its port; of several files the first that
/// has one. Programs are asked until `stop` is set.
pub fn login_of(
    registry: &str,
    name: &str,
    environment: Environment<'_>,
    stop: &AtomicBool,
) -> Option<Login> {
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
            Ok(config) => login_in(&config, (registry, name), &path.display().to_string(), stop),
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

/// What docker's own registry is called, where it is asked first.
const DOCKER: [&str; 3] = ["registry-1.docker.io", "docker.io", "index.docker.io"];

/// The address that it had first, under which docker keeps its login.
const DOCKER_FIRST: &str = "https://index.docker.io/v1/";

fn login_in(config: &Config, whose: (&str, &str), path: &str, stop: &AtomicBool) -> Option<Login> {
    let registry = whose.0;
    closest(&config.auths, whose).into_iter().find_map(login_kept).or_else(|| {
        let helper = closest(&config.cred_helpers, whose).into_iter().next().map(String::as_str);
        let of_all = Some(config.creds_store.as_str()).filter(|name| !name.is_empty());
        let server = if registry == DOCKER[0] { DOCKER_FIRST } else { registry };
        match given(helper.or(of_all)?, server, stop) {
            Ok(login) => login,
            Err(why) => {
                tracing::warn!("{path}: {why}; asking {registry} without a login, which -u gives");
                None
            }
        }
    })
}

/// What is `kept` for the repository `name` at `registry`, the closest first: for itself, for the namespaces
/// that it is in, for all of the registry, and under the forms in which docker writes that.
fn closest<'a, T>(kept: &'a HashMap<String, T>, (registry, name): (&str, &str)) -> Vec<&'a T> {
    let hosts = if registry == DOCKER[0] { DOCKER.to_vec() } else { vec![registry] };
    let paths = std::iter::successors(Some(name), |path| path.rsplit_once('/').map(|(above, _)| above));
    let named = paths.flat_map(|path| hosts.iter().map(move |host| format!("{host}/{path}")));
    let whole = hosts.iter().map(|host| (*host).to_owned());
    let found = named.chain(whole).filter_map(|key| kept.get(&key));
    // Of several forms of one registry always the same one.
    let mut forms: Vec<(&String, &T)> = kept.iter().filter(|(key, _)| is_form(key, &hosts)).collect();
    forms.sort_by_key(|(key, _)| *key);
    found.chain(forms.into_iter().map(|(_, kept)| kept)).collect()
}

/// `key` is a URL of one of `hosts`, or what is left of one without its scheme.
fn is_form(key: &str, hosts: &[&str]) -> bool {
    let (is_url, rest) = match key.split_once("://") {
        Some((_, rest)) => (true, rest),
        None => (false, key),
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_whole = is_url || rest.contains('/') && matches!(path.trim_matches('/'), "" | "v1" | "v2");
    is_whole && hosts.contains(&host)
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
        ("", _) | (_, true) => Ok(None),
        _ => Ok(Some(Login { login: given.username, password: given.secret })),
    }
}

fn login_kept(kept: &Kept) -> Option<Login> {
    // Beside it stands a user without a password.
    if !kept.identitytoken.is_empty() {
        return Some(Login { login: IDENTITY.to_owned(), password: kept.identitytoken.clone() });
    }
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
                "https://q.example/v2/": {{"username": "u", "password": "p"}}, "s.example": {{}},
                "a.example": {{"auth": "{auth}", "identitytoken": "t0ken"}}}},
                "credsStore": "no such/program", "other": 1}}"#
        );
        std::fs::write(folder.path().join("config.json"), text).unwrap();
        let docker = folder.path().display().to_string();
        let environment = |name: &str| (name == "DOCKER_CONFIG").then(|| docker.clone());
        let of = |registry: &str| {
            login_of(registry, "o/app", &environment, &AtomicBool::new(false))
                .map(|login| format!("{}:{}", login.login, login.password))
        };
        assert_eq!(of("registry-1.docker.io").as_deref(), Some("me:s3cr:et"));
        assert_eq!(of("r.example:5000").as_deref(), Some("me:s3cr:et"));
        assert_eq!(of("q.example").as_deref(), Some("u:p"));
        assert_eq!(of("a.example").as_deref(), Some("<token>:t0ken"));
        for none in ["r.example", "s.example", "t.example"] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn the_closest_login_counts_and_no_other_namespace_s() {
        let kept = |keys: &[&str]| -> HashMap<String, String> {
            keys.iter().map(|key| ((*key).to_owned(), (*key).to_owned())).collect()
        };
        let hosts = ["q.example/other", "q.example/team/app", "q.example/team", "https://q.example/v1/"];
        for (keys, registry, name, found) in [
            (&hosts[..], "q.example", "team/app", Some("q.example/team/app")),
            (&hosts, "q.example", "team/more", Some("q.example/team")),
            (&hosts, "q.example", "team/app/deep", Some("q.example/team/app")),
            (&hosts, "q.example", "else/app", Some("https://q.example/v1/")),
            (&hosts[..3], "q.example", "else/app", None),
            (&hosts, "q.example:5000", "team/app", None),
            (&["q.example/", "q.example/other"], "q.example", "x", Some("q.example/")),
            (&["docker.io/me", "https://index.docker.io/v1/"], DOCKER[0], "me/x", Some("docker.io/me")),
            (&["docker.io/me", DOCKER_FIRST], DOCKER[0], "library/x", Some(DOCKER_FIRST)),
        ] {
            let kept = kept(keys);
            let first = closest(&kept, (registry, name)).into_iter().next().map(String::as_str);
            assert_eq!(first, found, "{keys:?} {registry} {name}");
        }
    }
}
