//! What of a `get` goes to the host that fetches: its flags as words, which travel inside ssh and are on no
//! command line. What names a file of this machine, or more than one object, is refused.

use url::Url;
use weir_http::netrc::Login as UserLogin;
use weir_units::Rate;

use crate::args::{Get, GivenFields, Jobs, Login, ReachFlags, StoreArgs};
use crate::cmd::get_who;
use crate::voice::Usage;

/// Schemes of single objects.
const SCHEMES: [&str; 5] = ["http", "https", "s3", "gs", "az"];

/// The words of a `get` of one URL, with its URL last and without its `-o`.
pub(super) fn of(get: &Get) -> Result<Vec<String>, Usage> {
    let url = url(get)?;
    if let Some(why) = get.beside_many_hosts() {
        return Err(Usage(why));
    }
    let fields = get.fields().map_err(Usage)?;
    let first = Url::parse(url).ok();
    let user = get_who::user(&get.login, get.user.as_deref(), first.as_ref());
    let mut words = Words(vec!["get".to_owned()]);
    words.fields(&fields);
    words.given("--user", user.as_ref().map(pair));
    words.given("--proxy", get.proxy.as_ref());
    words.transfer(get);
    words.checks(get);
    words.login(&get.login);
    words.reach(&get.reach);
    words.store(&get.store);
    // Behind it nothing is a flag.
    words.0.extend(["--".to_owned(), url.to_owned()]);
    Ok(words.0)
}

/// The one URL.
fn url(get: &Get) -> Result<&str, Usage> {
    let one = |why: &str| Usage(format!("cannot use --to-hosts: {why}"));
    let [url] = &get.urls[..] else {
        return Err(one("it fetches one URL; run the command once for each"));
    };
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_known = scheme.as_deref().is_none_or(|scheme| SCHEMES.contains(&scheme));
    let is_store = !matches!(scheme.as_deref(), None | Some("http" | "https"));
    match (is_known, is_store && url.ends_with('/')) {
        (true, false) => Ok(url),
        _ => Err(one(&format!(
            "{} is more than one file; fetch it on one host, then weir cp -r HOST:DIR --to-hosts LIST",
            url_in_words(url)
        ))),
    }
}

/// Without its user, password and signature.
fn url_in_words(url: &str) -> String {
    Url::parse(url).map_or_else(|_| url.to_owned(), |url| weir_get::object::shown(&url))
}

/// As `-u` takes it.
fn pair(user: &UserLogin) -> String {
    format!("{}:{}", user.login, user.password)
}

/// Words of a command line.
struct Words(Vec<String>);

impl Words {
    fn flag(&mut self, flag: &str, is_given: bool) {
        self.0.extend(is_given.then(|| flag.to_owned()));
    }

    /// In one word, so that no value is taken for a flag.
    fn given(&mut self, flag: &str, value: Option<impl std::fmt::Display>) {
        self.0.extend(value.map(|value| format!("{flag}={value}")));
    }

    fn fields(&mut self, fields: &GivenFields) {
        for (name, value) in &fields.sent {
            let empty = value.is_empty();
            self.given("--header", Some(if empty { format!("{name};") } else { format!("{name}: {value}") }));
        }
        fields.removed.iter().for_each(|name| self.given("--header", Some(format!("{name}:"))));
    }

    fn transfer(&mut self, get: &Get) {
        self.given("--lanes", get.lanes);
        self.given(
            "--jobs",
            get.jobs.map(|jobs| match jobs {
                Jobs::Auto => "auto".to_owned(),
                Jobs::Fixed(count) => count.to_string(),
            }),
        );
        self.given("--limit-rate", get.limit_rate.0.map(|Rate(rate)| rate as u64));
        self.given("--recv-buffer", get.recv_buffer.map(|bytes| bytes.0));
        self.given("--retries", Some(get.retries));
        self.given("--timeout", Some(get.timeout.as_secs_f64()));
        self.given("--connect-timeout", get.connect_timeout.map(|time| time.as_secs_f64()));
        self.given("--speed-limit", get.speed_limit);
        self.given("--speed-time", get.speed_time.map(|time| time.as_secs_f64()));
        self.given("--max-wait", Some(get.max_wait.as_secs_f64()));
        self.flag("--force", get.force);
        // As --update is in the chain: what a host has is not fetched again.
        self.flag("--timestamping", !get.force);
        self.flag("--remote-time", get.remote_time);
        self.flag("--sync", get.sync);
        self.flag("--compressed", get.compressed);
    }

    fn checks(&mut self, get: &Get) {
        get.checksum.iter().for_each(|digest| self.given("--checksum", Some(digest)));
        get.checksum_from.iter().for_each(|list| self.given("--checksum-from", Some(list)));
        self.given("--proto", get.habits.proto.as_ref());
        self.flag("--ignore-digest", get.ignore_digest);
        self.flag("--any-type", get.any_type);
        self.flag("--accept-unclean-close", get.accept_unclean_close);
        self.flag("--insecure", get.insecure);
        self.flag("--allow-http-redirect", get.allow_http_redirect);
        self.flag("--http1.1", get.http1);
        self.flag("--http2", get.http2);
        let redirects = (get.max_redirs != usize::MAX).then(|| get.max_redirs.to_string());
        self.given("--max-redirs", Some(redirects.unwrap_or_else(|| "-1".to_owned())));
    }

    fn login(&mut self, login: &Login) {
        self.flag("--digest", login.digest);
        self.flag("--basic", login.basic);
        self.flag("--anyauth", login.anyauth);
        self.flag("--location-trusted", login.location_trusted);
        self.flag("--no-netrc", login.no_netrc);
        login.cookies.iter().for_each(|cookie| self.given("--cookie", Some(cookie)));
        self.given("--noproxy", login.noproxy.as_ref());
    }

    fn reach(&mut self, reach: &ReachFlags) {
        self.flag("--ipv4", reach.ipv4);
        self.flag("--ipv6", reach.ipv6);
    }

    /// Credentials are those of the host that fetches.
    fn store(&mut self, store: &StoreArgs) {
        self.given("--endpoint", store.endpoint.as_ref());
        self.given("--region", store.region.as_ref());
        self.given("--profile", store.profile.as_ref());
        self.flag("--no-sign", store.no_sign);
        self.flag("--sign", store.sign);
        self.flag("--path-style", store.path_style);
        self.flag("--virtual-host", store.virtual_host);
        self.flag("--request-payer", store.request_payer);
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::args::{Cli, Command};

    /// Flags that mean nothing to another host, or nothing at all.
    const HERE_ALONE: &[&str] = &[
        "output",
        "to_hosts",
        "fanout",
        "rsh",
        "far_program",
        "far_binary",
        "json",
        "quiet",
        "verbose",
        "report",
        "help",
        "no_config",
        "create_dirs",
        "urls",
        "timestamping",
        "silent",
    ];

    fn get(words: &[&str]) -> Result<Get, String> {
        let words = ["weir", "get"].iter().chain(words);
        let command = Cli::try_parse_from(words).map_err(|error| error.to_string())?.command;
        match command.with_habits()? {
            Command::Get(get) => Ok(*get),
            _ => Err("another command".to_owned()),
        }
    }

    /// Words for a flag of this definition, as a user would write them.
    fn written(flag: &clap::Arg) -> Option<String> {
        let name = flag.get_long().map(|long| format!("--{long}"))?;
        if !flag.get_action().takes_values() {
            return Some(name);
        }
        let value = match flag.get_id().as_str() {
            "checksum" => "sha256:aa",
            "checksum_from" | "proxy" | "endpoint" | "lfs" => "http://h/x",
            "headers" => "A: b",
            "user" => "me:pw",
            "cookies" => "a=b",
            "resolve" => "h:80:127.0.0.1",
            "connect_to" => "h:80:g:80",
            "interface" | "dns_servers" => "127.0.0.1",
            "range" => "0-9",
            "platform" => "linux/amd64",
            "proto" => "=http",
            "continue_at" | "list" => "-",
            "jobs" => "auto",
            _ => "7",
        };
        Some(format!("{name}={value}"))
    }

    /// A flag that is added to `get` has to be carried, refused, or named above: else it would be lost on its
    /// way without a word.
    #[test]
    fn no_flag_is_lost_on_the_way() {
        let cli = Cli::command();
        let flags = cli.find_subcommand("get").unwrap().get_arguments();
        let plain = of(&get(&["http://h/x"]).unwrap()).unwrap();
        let mut lost = Vec::new();
        for flag in flags.filter(|flag| !HERE_ALONE.contains(&flag.get_id().as_str())) {
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            if help.contains("accepted for compatibility") {
                continue;
            }
            let Some(words) = written(flag) else { continue };
            let Ok(given) = get(&[&words, "http://h/x"]) else { continue };
            if of(&given).is_ok_and(|carried| carried == plain) {
                lost.push(words);
            }
        }
        assert!(lost.is_empty(), "neither carried nor refused: {lost:?}");
    }

    /// What is carried means there what it means here.
    #[test]
    fn words_are_read_as_they_were_meant() {
        let said =
            ["-c", "3", "-H", "A: b", "-H", "C;", "-H", "User-Agent:", "--limit-rate", "10M", "-u", "m:p:q"];
        let more = ["--timeout", "2.5", "--max-redirs", "-1", "--cookie", "a=b", "-k", "--", "http://h/x"];
        let words = of(&get(&[&said[..], &more[..]].concat()).unwrap()).unwrap();
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        let read = get(&words).unwrap();
        assert_eq!((read.lanes, read.insecure, read.timestamping), (Some(3), true, true));
        assert_eq!(read.headers, ["A: b", "C;", "user-agent:"]);
        assert_eq!((read.user.as_deref(), read.max_redirs), (Some("m:p:q"), usize::MAX));
        assert_eq!((read.timeout.as_secs_f64(), &read.urls[..]), (2.5, &["http://h/x".to_owned()][..]));
    }
}
