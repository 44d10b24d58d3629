//! Who `weir get` and `weir put` are to servers: users, cookies, certificates, and the proxies it comes
//! through.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use url::Url;
use weir_get::http::credentials::{Credentials, NetrcFile, from_pair};
use weir_get::http::exchange::{Http, Who};
use weir_get::http::identity::Identity;
use weir_get::http::jar::Jar;
use weir_get::http::logins::Schemes;
use weir_http::netrc::Login as UserLogin;
use weir_units::Bytes;

use crate::args::{Certificate, Login};
use crate::output;
use crate::prompt;
use crate::voice::Usage;

/// Three thousand cookies of 4 KiB, the most that a jar keeps.
const MAX_COOKIES: Bytes = Bytes(16 << 20);

/// A password is one line.
const MAX_PASSWORD: Bytes = Bytes(4096);

/// The user of `-u`, with a password that is asked for where it is missing; `first` is the URL that is asked
/// first.
pub fn user(login: &Login, given: Option<&str>, first: Option<&Url>) -> Option<UserLogin> {
    let text = given?;
    let mut user = from_pair(text);
    if !text.contains(':') {
        let netrc = Credentials::new(None, netrc_of(login), false);
        user.password = missing_password(&netrc, first, &user.login);
    }
    Some(user)
}

/// Logins and cookies, as this `user`.
pub fn who(login: &Login, user: Option<UserLogin>) -> anyhow::Result<Who> {
    if let Some(path) = &login.save_cookies {
        if path.as_os_str() == "-" {
            return Err(
                Usage("--save-cookies needs a file: cookies are as secret as passwords".to_owned()).into()
            );
        }
        output::check(path)?;
    }
    let netrc = netrc_of(login);
    if let NetrcFile::At(path) = &netrc {
        std::fs::File::open(path)
            .with_context(|| format!("cannot read the netrc file {}", path.display()))?;
    }
    let schemes = match login {
        Login { basic: true, .. } => Schemes::Basic,
        Login { digest: true, .. } => Schemes::Digest,
        Login { anyauth: true, .. } => Schemes::Any,
        _ => Schemes::Usual,
    };
    let credentials = Credentials::new(user, netrc, login.location_trusted);
    Ok(Who { credentials, schemes, jar: jar(login)? })
}

/// Whose netrc file is read.
pub fn netrc_of(login: &Login) -> NetrcFile {
    match &login.netrc_file {
        _ if login.no_netrc => NetrcFile::None,
        Some(path) => NetrcFile::At(path.clone()),
        None => NetrcFile::Usual,
    }
}

/// `-u USER`: from the netrc file, else asked for, else none.
fn missing_password(netrc: &Credentials, first: Option<&Url>, user: &str) -> String {
    let known = first.and_then(|url| netrc.password_of(url, user));
    known.or_else(|| prompt::password(&format!("password of {}", user.escape_debug()))).unwrap_or_default()
}

fn jar(login: &Login) -> anyhow::Result<Jar> {
    let mut jar = Jar::default();
    for given in &login.cookies {
        // curl's habit: with a `=` it is cookies, else a file of them; empty only switches cookies on.
        match given.as_str() {
            "" => {}
            pairs if pairs.contains('=') => {
                if !jar.give(pairs) {
                    return Err(Usage(
                        "invalid --cookie: expected NAME=VALUE, or several parted by ';'".to_owned(),
                    )
                    .into());
                }
            }
            file => load(&jar, Path::new(file), login)?,
        }
    }
    for file in &login.load_cookies {
        load(&jar, file, login)?;
    }
    Ok(jar)
}

/// The text of a list of cookies. A line in another coding would be sent as something else; it becomes one
/// without a cookie.
fn readable(bytes: &[u8]) -> String {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.map(|line| std::str::from_utf8(line).unwrap_or("?\n")).collect()
}

fn load(jar: &Jar, file: &Path, login: &Login) -> anyhow::Result<()> {
    // The first run of a line that loads and saves one file.
    if login.save_cookies.as_deref() == Some(file) && !file.exists() {
        return Ok(());
    }
    let cannot = || format!("cannot read cookies from {}", file.display());
    let bytes = match file.as_os_str() == "-" {
        true => weir_units::read_up_to(std::io::stdin().lock(), MAX_COOKIES),
        false => weir_units::read_file(file, MAX_COOKIES),
    };
    let text = bytes.with_context(cannot)?;
    let text = readable(weir_units::list_bytes(&text).with_context(cannot)?);
    let loaded = jar.load(&text, SystemTime::now());
    let lines: Vec<String> = loaded.odd.iter().take(3).map(usize::to_string).collect();
    let more = if loaded.odd.len() > 3 { " and others" } else { "" };
    match (loaded.kept + loaded.expired, lines.is_empty()) {
        (0, false) => {
            let hint = match text.trim_start().starts_with(['[', '{']) {
                true => "it is JSON; export it as cookies.txt (Netscape's format)",
                false => "expected Netscape's format (cookies.txt): seven columns parted by TABs a line",
            };
            anyhow::bail!("cannot read cookies from {}: {hint}", file.display())
        }
        (_, false) => tracing::warn!(
            "{}: no cookie in line {}{more}; expected seven columns parted by TABs",
            file.display(),
            lines.join(", ")
        ),
        (_, true) if loaded.expired > 0 && loaded.kept == 0 => {
            tracing::warn!(
                "{}: all of its cookies have expired; log in again and export them",
                file.display()
            );
        }
        _ => {}
    }
    Ok(())
}

/// Writes the jar where that was asked for, whatever became of the files: who logged in keeps that.
pub fn save_cookies(login: &Login, http: &Http) -> anyhow::Result<()> {
    let Some(path) = &login.save_cookies else { return Ok(()) };
    output::write_private(path, http.jar().netscape().as_bytes())
        .with_context(|| format!("cannot save cookies to {}", path.display()))
}

/// The client certificate.
pub fn identity(certificate: &Certificate) -> anyhow::Result<Option<Identity>> {
    let Some(cert) = &certificate.cert else {
        return match &certificate.key {
            Some(_) => {
                Err(Usage("--key needs --cert FILE, the certificate that it belongs to".to_owned()).into())
            }
            None => Ok(None),
        };
    };
    let (file, given) = split_password(cert);
    let from_file = certificate.pass_file.as_deref().map(read_password).transpose()?;
    let mut given = from_file.or_else(|| given.map(str::to_owned));
    let mut password = |file: &str| {
        given.take().or_else(|| prompt::password(&format!("password of {}", file.escape_debug())))
    };
    Ok(Some(Identity::read(&file, certificate.key.as_deref(), &mut password)?))
}

/// `FILE` or `FILE:PASSWORD`, as curl has it; a colon may be part of a name that is there.
pub fn split_password(cert: &str) -> (PathBuf, Option<&str>) {
    match cert.split_once(':') {
        Some((file, password)) if !Path::new(cert).exists() => (file.into(), Some(password)),
        _ => (cert.into(), None),
    }
}

fn read_password(file: &Path) -> anyhow::Result<String> {
    let text = weir_units::read_text(file, MAX_PASSWORD);
    let text = text.with_context(|| format!("cannot read the password from {}", file.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_s_password_is_behind_a_colon() {
        assert_eq!(split_password("no/such.pem"), ("no/such.pem".into(), None));
        assert_eq!(split_password("no/such.pem:a:b"), ("no/such.pem".into(), Some("a:b")));
        let folder = std::env::temp_dir();
        assert_eq!(split_password(folder.to_str().unwrap()), (folder.clone(), None));
    }
}
