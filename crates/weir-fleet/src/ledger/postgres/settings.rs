//! Where a database is and how it is logged in to: from an address, the environment and the files that libpq
//! reads (PostgreSQL: libpq, 34.15 to 34.17).

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use weir_units::Bytes;

/// A file of passwords or services: thousands of lines.
const MAX_FILE: Bytes = Bytes(1 << 20);

/// A connection that takes longer than this to be made is away.
const CONNECT: Duration = Duration::from_secs(10);

/// A peer that is silent for so long is asked for a sign of life, and gone three such times later.
const IDLE: Duration = Duration::from_secs(15);

/// The schema that holds the tables unless the address names another.
const SCHEMA: &str = "weir";

/// The address of a database. It may hold a password, and is never shown with it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseUrl {
    text: String,
    shown: String,
    /// All of it but for the password.
    open: String,
    password: Option<String>,
}

impl FromStr for DatabaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<DatabaseUrl, String> {
        let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
        let Some(rest) = rest else { return Err("expected postgres://USER@HOST/DATABASE".to_owned()) };
        let (login, place) = rest.split_once('@').unwrap_or(("", rest));
        let authority = place.split(['/', '?']).next().unwrap_or_default();
        if login.contains(['/', '?']) || authority.contains('@') {
            return Err(
                "cannot use this ledger: there is an '@' in its address where none is expected; write \
                        '@' as %40, '/' as %2F and '?' as %3F in a user's name and in a password"
                    .to_owned(),
            );
        }
        let (bare, query) = place.split_once('?').unwrap_or((place, ""));
        if query.split('&').any(|pair| word_of(pair) == "password") {
            return Err(
                "cannot use this ledger: its address has a password behind '?', where it is shown to \
                        everybody; give it by PGPASSWORD or ~/.pgpass"
                    .to_owned(),
            );
        }
        let (user, password) =
            login.split_once(':').map_or((login, None), |(user, given)| (user, Some(given)));
        let password = password.map(|text| percent_decode_str(text).decode_utf8_lossy().into_owned());
        let at = if user.is_empty() { "" } else { "@" };
        let naming: Vec<&str> = query.split('&').filter(|pair| NAMING.contains(&&*word_of(pair))).collect();
        let mark = if naming.is_empty() { "" } else { "?" };
        let shown = format!("{bare}{mark}{}", naming.join("&"));
        let [shown, open] = [&*shown, place].map(|place| format!("postgres://{user}{at}{place}"));
        Ok(DatabaseUrl { text: text.to_owned(), shown, open, password })
    }
}

/// What of a query says which ledger is meant: shown, so that a command which is printed means the same one.
const NAMING: &[&str] = &["schema", "service", "host", "hostaddr", "port", "dbname", "user"];

/// What a pair of a query is about, as the client reads it.
fn word_of(pair: &str) -> Cow<'_, str> {
    percent_decode_str(pair.split('=').next().unwrap_or_default()).decode_utf8_lossy()
}

/// Without its password.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl DatabaseUrl {
    /// The whole address but for its password, and that.
    pub fn without_password(&self) -> (&str, Option<&str>) {
        (&self.open, self.password.as_deref())
    }

    /// The password that this process knows for it: of the address, a service, the environment, or
    /// `~/.pgpass`.
    ///
    /// # Errors
    /// In words, where the address or a service makes no sense.
    pub fn known_password(&self) -> Result<Option<String>, String> {
        let settings = PostgresSettings::of(self)?;
        Ok(settings.config.get_password().map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    }

    /// An address by which other hosts reach the same database, with all that this process knows of the way
    /// to it, its password too.
    ///
    /// # Errors
    /// In words, where it can be reached from this host alone.
    pub fn for_other_hosts(&self) -> Result<DatabaseUrl, String> {
        let settings = PostgresSettings::of(self)?;
        let config = &settings.config;
        let here = |why: &str| {
            Err(format!(
                "other hosts cannot reach {self}: {why}; name it by an address of the network, or leave out \
                 --ledger-from-hosts: then they ask it through this host"
            ))
        };
        let mut hosts = Vec::new();
        for (number, host) in config.get_hosts().iter().enumerate() {
            let Host::Tcp(host) = host else { return here("it is reached by a socket of this host") };
            if host == "localhost" || host == "::1" || host.starts_with("127.") {
                return here("it is named as this host's own");
            }
            let ports = config.get_ports();
            let port = ports.get(number).or_else(|| ports.last()).copied().unwrap_or(5432);
            let is_address = host.contains(':');
            hosts.push(if is_address { format!("[{host}]:{port}") } else { format!("{host}:{port}") });
        }
        let coded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let user = coded(config.get_user().unwrap_or_default());
        let password = config.get_password().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let password = password.map(|password| format!(":{}", coded(&password))).unwrap_or_default();
        let name = coded(config.get_dbname().unwrap_or_default());
        let mode = match (settings.encryption.verified, config.get_ssl_mode()) {
            (true, _) => "verify-full",
            (false, SslMode::Disable) => "disable",
            (false, SslMode::Require) => "require",
            (false, _) => "prefer",
        };
        let root = settings.encryption.root.as_ref().map(|root| format!("&sslrootcert={}", root.display()));
        let (root, schema) = (root.unwrap_or_default(), coded(&settings.schema));
        let hosts = hosts.join(",");
        format!("postgres://{user}{password}@{hosts}/{name}?sslmode={mode}&schema={schema}{root}").parse()
    }
}

/// Whom to believe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encryption {
    /// `sslrootcert`.
    pub root: Option<PathBuf>,
    /// `sslmode=verify-ca` or `verify-full`.
    pub verified: bool,
}

/// All that is known of the way to a database.
pub struct PostgresSettings {
    /// For the client.
    pub config: Config,
    /// For TLS.
    pub encryption: Encryption,
    /// That holds the tables.
    pub schema: String,
    /// As a person names it.
    pub shown: String,
}

/// What the client has no word for, or fewer values than libpq.
const OWN: &[&str] = &["sslmode", "sslrootcert", "schema", "service", "passfile"];

impl PostgresSettings {
    /// Of `url`, and of the process where that says nothing.
    pub fn of(url: &DatabaseUrl) -> Result<PostgresSettings, String> {
        Surroundings { variable: &|name| std::env::var(name).ok().filter(|value| !value.is_empty()) }
            .settings(url)
    }
}

/// What is around an address.
struct Surroundings<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Surroundings<'_> {
    fn settings(&self, url: &DatabaseUrl) -> Result<PostgresSettings, String> {
        let (address, query) = url.text.split_once('?').unwrap_or((&url.text, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let (own, others): (Vec<&str>, Vec<&str>) =
            pairs.partition(|pair| OWN.contains(&pair.split('=').next().unwrap_or_default()));
        let own: HashMap<&str, &str> = own.iter().filter_map(|pair| pair.split_once('=')).collect();
        let mark = if others.is_empty() { "" } else { "?" };
        let text = format!("{address}{mark}{}", others.join("&"));
        let mut config: Config = text.parse().map_err(|error: tokio_postgres::Error| {
            use std::error::Error;
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("its address makes no sense{cause}; expected postgres://USER@HOST:PORT/DATABASE")
        })?;
        let service =
            match own.get("service").map(|name| (*name).to_owned()).or_else(|| self.var("PGSERVICE")) {
                Some(name) => self.service(&name)?,
                None => HashMap::new(),
            };
        let setting = |key: &str, variable: &str| {
            let own = own.get(key).map(|value| (*value).to_owned());
            own.or_else(|| service.get(key).cloned()).or_else(|| self.var(variable))
        };
        self.fill(&mut config, &setting)?;
        let encryption = encryption(&mut config, &setting)?;
        if config.get_password().is_none()
            && let Some(password) = setting("password", "PGPASSWORD").or_else(|| {
                let file = setting("passfile", "PGPASSFILE").map(PathBuf::from);
                self.password(file.or_else(|| self.at_home(".pgpass")), &config)
            })
        {
            config.password(password);
        }
        config.connect_timeout(CONNECT).keepalives_idle(IDLE).keepalives_interval(IDLE).keepalives_retries(3);
        config.tcp_user_timeout(IDLE * 2).application_name("weir");
        let schema = own.get("schema").map_or(SCHEMA, |schema| *schema).to_owned();
        Ok(PostgresSettings { config, encryption, schema, shown: url.shown.clone() })
    }

    /// What the address leaves open.
    fn fill(
        &self,
        config: &mut Config,
        setting: &dyn Fn(&str, &str) -> Option<String>,
    ) -> Result<(), String> {
        if config.get_hosts().is_empty() {
            // Where Debian's server listens.
            config.host(setting("host", "PGHOST").unwrap_or_else(|| "/var/run/postgresql".to_owned()));
        }
        if config.get_ports().is_empty()
            && let Some(port) = setting("port", "PGPORT")
        {
            let port: u16 = port.parse().map_err(|_| format!("PGPORT is '{port}', which is no port"))?;
            config.port(port);
        }
        if config.get_user().is_none() {
            let user = setting("user", "PGUSER").or_else(|| self.var("USER"));
            config.user(user.unwrap_or_else(|| "postgres".to_owned()));
        }
        if config.get_dbname().is_none()
            && let Some(name) = setting("dbname", "PGDATABASE")
        {
            config.dbname(name);
        }
        Ok(())
    }

    fn var(&self, name: &str) -> Option<String> {
        (self.variable)(name)
    }

    fn at_home(&self, name: &str) -> Option<PathBuf> {
        self.var("HOME").map(|home| Path::new(&home).join(name))
    }

    /// A section of the file of services.
    fn service(&self, name: &str) -> Result<HashMap<String, String>, String> {
        let own = self.var("PGSERVICEFILE").map(PathBuf::from).or_else(|| self.at_home(".pg_service.conf"));
        let folder = self.var("PGSYSCONFDIR").unwrap_or_else(|| "/etc/postgresql-common".to_owned());
        let system = Path::new(&folder).join("pg_service.conf");
        for path in own.into_iter().chain([system]) {
            let Ok(text) = weir_units::read_text(&path, MAX_FILE) else { continue };
            if let Some(found) = section(&text, name) {
                return Ok(found);
            }
        }
        Err(format!("no file of services has '{name}'; see PGSERVICE and ~/.pg_service.conf"))
    }

    /// The password of a line that is for `config`. A file that others may read is left alone, as by libpq.
    fn password(&self, file: Option<PathBuf>, config: &Config) -> Option<String> {
        use std::os::unix::fs::PermissionsExt;
        let path = file?;
        if path.metadata().ok()?.permissions().mode() & 0o077 != 0 {
            return None;
        }
        let text = weir_units::read_text(&path, MAX_FILE).ok()?;
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(_)) | None => "localhost".to_owned(),
        };
        let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
        let user = config.get_user().unwrap_or_default();
        let name = config.get_dbname().unwrap_or(user);
        text.lines().find_map(|line| of_line(line, [&host, &port, name, user]))
    }
}

/// `sslmode` and `sslrootcert`.
fn encryption(
    config: &mut Config,
    setting: &dyn Fn(&str, &str) -> Option<String>,
) -> Result<Encryption, String> {
    let mode = setting("sslmode", "PGSSLMODE").unwrap_or_else(|| "prefer".to_owned());
    let root = setting("sslrootcert", "PGSSLROOTCERT");
    let verified = matches!(mode.as_str(), "verify-ca" | "verify-full");
    config.ssl_mode(match mode.as_str() {
        "disable" => SslMode::Disable,
        "allow" | "prefer" => SslMode::Prefer,
        "require" | "verify-ca" | "verify-full" => SslMode::Require,
        other => {
            let other = weir_units::quoted(other);
            return Err(format!("sslmode is '{other}'; expected disable, prefer, require or verify-full"));
        }
    });
    // `system`: the authorities that the system trusts, which is so without a file.
    Ok(Encryption { root: root.filter(|root| root != "system").map(PathBuf::from), verified })
}

/// `[NAME]` of a file of services, and its `key=value` lines.
fn section(text: &str, name: &str) -> Option<HashMap<String, String>> {
    let mut found = None;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(_) if found.is_some() => break,
            Some(section) if section == name => found = Some(HashMap::new()),
            Some(_) => {}
            None => {
                if let (Some(found), Some((key, value))) = (&mut found, line.split_once('=')) {
                    found.insert(key.trim().to_owned(), value.trim().to_owned());
                }
            }
        }
    }
    found
}

/// `host:port:database:user:password`; `*` is any, `\` takes the next letter as it is.
fn of_line(line: &str, sought: [&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => fields.last_mut()?.extend(letters.next()),
            ':' if fields.len() < 5 => fields.push(String::new()),
            letter => fields.last_mut()?.push(letter),
        }
    }
    let [host, port, name, user, password] = <[String; 5]>::try_from(fields).ok()?;
    let is_it = [host, port, name, user].iter().zip(sought).all(|(field, is)| field == "*" || field == is);
    is_it.then_some(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str, variables: &[(&str, &str)]) -> Result<PostgresSettings, String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Surroundings { variable: &variable }.settings(&url.parse()?)
    }

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("postgres://me:p%40ss@h:1/d?sslmode=disable", "postgres://me@h:1/d"),
            ("postgresql://h/d", "postgres://h/d"),
            ("postgres:///d", "postgres:///d"),
            ("postgres://me:p@h/d?sslmode=require&schema=two", "postgres://me@h/d?schema=two"),
            ("postgres:///d?host=/run&service=s&connect_timeout=3", "postgres:///d?host=/run&service=s"),
        ] {
            let url: DatabaseUrl = url.parse().unwrap();
            assert_eq!((url.to_string(), format!("{url:?}")), (shown.to_owned(), shown.to_owned()));
        }
        for word in ["password", "pass%77ord", "schema=a&%70assword"] {
            let error = format!("postgres://h/d?{word}=cret").parse::<DatabaseUrl>().unwrap_err();
            assert!(error.contains("PGPASSWORD") && !error.contains("cret"), "{error}");
        }
        // The client would take the first '@' for the end of the password, and name the rest as a host.
        for odd in ["me:se@cret@h/d", "me:se/cret@h/d", "me:se?cret@h/d", "h/d?user=a@b"] {
            let error = format!("postgres://{odd}").parse::<DatabaseUrl>().unwrap_err();
            assert!(error.contains("write '@' as %40") && !error.contains("cret"), "{error}");
        }
        let url: DatabaseUrl = "postgresql://me:p%40s%2f@h1:1,h2/d?schema=a@b".parse().unwrap();
        assert_eq!(url.without_password(), ("postgres://me@h1:1,h2/d?schema=a@b", Some("p@s/")));
        let url: DatabaseUrl = "postgres:///d".parse().unwrap();
        assert_eq!(url.without_password(), ("postgres:///d", None));
        assert!("mysql://h/d".parse::<DatabaseUrl>().is_err());
    }

    #[test]
    fn what_the_address_leaves_open_comes_from_around_it() {
        let found = settings("postgres:///", &[("PGHOST", "db"), ("PGPORT", "7"), ("PGUSER", "u")]).unwrap();
        assert_eq!(found.config.get_hosts(), [Host::Tcp("db".to_owned())]);
        assert_eq!((found.config.get_ports(), found.config.get_user()), (&[7][..], Some("u")));
        let found =
            settings("postgres://me@h/d?sslmode=verify-full&schema=two", &[("PGPASSWORD", "p")]).unwrap();
        assert!(found.encryption.verified && found.encryption.root.is_none());
        assert_eq!((found.schema.as_str(), found.config.get_password()), ("two", Some(&b"p"[..])));
        assert!(settings("postgres://h/d?sslmode=maybe", &[]).is_err());
        assert!(settings("postgres://h/d", &[("PGSERVICE", "none-such")]).is_err());
    }

    #[test]
    fn other_hosts_are_told_the_whole_way() {
        let other = |url: &str| url.parse::<DatabaseUrl>().unwrap().for_other_hosts();
        let told = other("postgres://me:p%40s:s@db:7/d?sslmode=require&schema=two").unwrap();
        assert_eq!(told.text, "postgres://me:p%40s%3As@db:7/d?sslmode=require&schema=two");
        assert_eq!(other(&told.text).unwrap(), told);
        assert!(!format!("{told} {told:?}").contains("p%40s"));
        for here in ["postgres://me@localhost/d", "postgres://me@127.0.0.1/d", "postgres:///d?host=/run"] {
            assert!(other(here).unwrap_err().contains("leave out --ledger-from-hosts"), "{here}");
        }
    }

    #[test]
    fn a_line_of_passwords_is_for_what_it_names() {
        let sought = ["h", "5432", "d", "u"];
        let of = |line: &str| of_line(line, sought);
        assert_eq!(of("h:5432:d:u:p:w").as_deref(), Some("p:w"));
        assert_eq!(of("*:*:*:*:a\\:b").as_deref(), Some("a:b"));
        assert_eq!(of("other:*:*:*:x"), None);
        assert_eq!(of("#h:5432:d:u:p"), None);
        assert_eq!(of("h:5432"), None);
    }

    #[test]
    fn a_service_is_its_section_alone() {
        let text = "[a]\nhost=1\n\n# no\n[b]\nhost = 2\nport=3\n[c]\nhost=4\n";
        let found = section(text, "b").unwrap();
        assert_eq!((found["host"].as_str(), found["port"].as_str(), found.len()), ("2", "3", 2));
        assert_eq!(section(text, "d"), None);
    }
}
