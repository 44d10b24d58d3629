//! ab's own flags, as `weir bench http --ab` takes them.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use weir_get::http::offer::Offer;

/// What ab's flags say. Defaults are ab's.
#[derive(Debug, Clone)]
pub struct AbFlags {
    /// The last argument.
    pub url: String,
    /// `-n`.
    pub requests: u64,
    /// `-c`.
    pub concurrency: u32,
    /// `-t`.
    pub limit: Option<Duration>,
    /// `-s`.
    pub timeout: Duration,
    /// `-k`.
    pub keep_alive: bool,
    /// `-i`, `-m`, `-p`, `-u`.
    pub method: Option<String>,
    /// `-p`, `-u`: the body's file.
    pub body: Option<PathBuf>,
    /// `-T`.
    pub content_type: String,
    /// `-C`.
    pub cookies: Vec<String>,
    /// `-A`, ready for the field.
    pub authorization: Option<String>,
    /// `-H`, as they were given.
    pub headers: Vec<String>,
    /// `-l`.
    pub any_length: bool,
    /// `-S`.
    pub plain: bool,
    /// `-d`.
    pub no_percentiles: bool,
    /// `-q`.
    pub quiet: bool,
    /// `-e`.
    pub percentiles_file: Option<PathBuf>,
    /// `-g`.
    pub rows_file: Option<PathBuf>,
    /// `-v`: from 2 on the answers are printed.
    pub verbosity: u8,
    /// `-X`, `host:port`.
    pub proxy: Option<String>,
    /// `-P`, ready for the field.
    pub proxy_authorization: Option<String>,
    /// `-E`: a client certificate with its key.
    pub certificate: Option<String>,
    /// `-b`: bytes of each socket's buffers.
    pub window: Option<u32>,
    /// `-B`: connections begin there.
    pub local: Option<IpAddr>,
    /// `-f`, `-Z`, `-I`.
    pub offer: Offer,
    /// `-w`, `-x`, `-y`, `-z`.
    pub html: bool,
}

impl Default for AbFlags {
    fn default() -> AbFlags {
        AbFlags {
            url: String::new(),
            requests: 1,
            concurrency: 1,
            limit: None,
            timeout: Duration::from_secs(30),
            keep_alive: false,
            method: None,
            body: None,
            content_type: "text/plain".to_owned(),
            cookies: Vec::new(),
            authorization: None,
            headers: Vec::new(),
            any_length: false,
            plain: false,
            no_percentiles: false,
            quiet: false,
            percentiles_file: None,
            rows_file: None,
            verbosity: 0,
            proxy: None,
            proxy_authorization: None,
            certificate: None,
            window: None,
            local: None,
            offer: Offer::default(),
            html: false,
        }
    }
}

/// Flags with a value.
const VALUED: &str = "nctsbBpuTvmxyzCHAPXgeZfE";

impl AbFlags {
    /// Takes ab's words apart as getopt does: `-n 10`, `-n10`, `-kq`; flags before the URL, the URL last.
    pub fn parse(words: &[String]) -> Result<AbFlags, String> {
        let mut flags = AbFlags::default();
        let mut words = words.iter();
        let mut given = None;
        while let Some(word) = words.next() {
            let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
                match given.replace(word.clone()) {
                    None => continue,
                    // Not shown: it may hold what is nobody's to see.
                    Some(_) => return Err("ab takes one URL, and this is a second one".to_owned()),
                }
            };
            let mut rest = letters.chars();
            while let Some(letter) = rest.next() {
                let value = match (VALUED.contains(letter), rest.as_str()) {
                    (false, _) => None,
                    (true, "") => {
                        Some(words.next().cloned().ok_or_else(|| format!("ab's -{letter} wants a value"))?)
                    }
                    (true, value) => Some(value.to_owned()),
                };
                let done = value.is_some();
                flags.take(letter, value.unwrap_or_default())?;
                if done {
                    break;
                }
            }
        }
        flags.url = given.ok_or("ab wants a URL after its flags")?;
        if u64::from(flags.concurrency) > flags.requests {
            return Err(format!("ab's -c {} is above -n {}", flags.concurrency, flags.requests));
        }
        Ok(flags)
    }

    fn take(&mut self, letter: char, value: String) -> Result<(), String> {
        let number = |most: u64| match value.parse::<u64>() {
            Ok(number) if (1..=most).contains(&number) => Ok(number),
            _ => Err(format!("ab's -{letter} wants a number from 1 to {most}, not '{value}'")),
        };
        match letter {
            'n' => self.requests = number(1_000_000_000)?,
            // ab's own most.
            'c' => self.concurrency = number(20_000)? as u32,
            // As in ab a -n that follows says otherwise.
            't' => (self.limit, self.requests) = (Some(Duration::from_secs(number(86_400)?)), 50_000),
            's' => self.timeout = Duration::from_secs(number(86_400)?),
            'k' => self.keep_alive = true,
            'i' => self.method = Some("HEAD".to_owned()),
            'm' if value.bytes().all(|byte| byte.is_ascii_alphabetic()) => self.method = Some(value),
            'm' => return Err(format!("ab's -m wants a method, not '{value}'")),
            'p' => (self.method, self.body) = (Some("POST".to_owned()), Some(value.into())),
            'u' => (self.method, self.body) = (Some("PUT".to_owned()), Some(value.into())),
            'T' => self.content_type = value,
            'C' => self.cookies.push(value),
            'A' => self.authorization = Some(format!("Basic {}", BASE64_STANDARD.encode(value))),
            'X' => self.proxy = Some(value),
            'P' => self.proxy_authorization = Some(format!("Basic {}", BASE64_STANDARD.encode(value))),
            'E' => self.certificate = Some(value),
            // Of both buffers, of which the system has more in mind (tcp(7)).
            'b' => self.window = Some(number(1 << 30)? as u32),
            'B' => match value.parse() {
                Ok(address) => self.local = Some(address),
                Err(_) => return Err(format!("ab's -B wants an address of this host, not '{value}'")),
            },
            'f' | 'Z' | 'I' => {
                let offer = std::mem::take(&mut self.offer);
                self.offer = match letter {
                    'f' => offer.with_version(&value),
                    'Z' => offer.with_suites(&value),
                    _ => Ok(offer.without_name()),
                }
                .map_err(|why| format!("ab's -{letter}: {why}"))?;
            }
            'w' | 'x' | 'y' | 'z' => self.html = true,
            'v' => match value.parse() {
                Ok(level) => self.verbosity = level,
                Err(_) => return Err(format!("ab's -v wants a number from 0 to 255, not '{value}'")),
            },
            'H' if value.contains(':') && !value.contains(['\r', '\n']) => self.headers.push(value),
            'H' => return Err("ab's -H wants a field such as 'Accept: text/html'".to_owned()),
            'l' => self.any_length = true,
            'S' => self.plain = true,
            'd' => self.no_percentiles = true,
            'q' => self.quiet = true,
            'e' => self.percentiles_file = Some(value.into()),
            'g' => self.rows_file = Some(value.into()),
            // Errors are always counted, never the end.
            'r' => {}
            _ => return Err(format!("ab has no -{letter}")),
        }
        Ok(())
    }

    /// The request as ab sends it, HTTP/1.0 and its fields' order included.
    pub fn request(&self, path: &str, authority: &str, body: Option<&[u8]>) -> Vec<u8> {
        let method = self.method.as_deref().unwrap_or("GET");
        let mut text = format!("{method} {path} HTTP/1.0\r\n");
        if self.keep_alive {
            text.push_str("Connection: Keep-Alive\r\n");
        }
        if !self.cookies.is_empty() {
            text.push_str(&format!("Cookie: {}\r\n", self.cookies.join("; ")));
        }
        if let Some(credentials) = &self.authorization {
            text.push_str(&format!("Authorization: {credentials}\r\n"));
        }
        if let Some(credentials) = &self.proxy_authorization {
            text.push_str(&format!("Proxy-Authorization: {credentials}\r\n"));
        }
        if let Some(body) = body {
            text.push_str(&format!(
                "Content-length: {}\r\nContent-type: {}\r\n",
                body.len(),
                self.content_type
            ));
        }
        for header in &self.headers {
            text.push_str(&format!("{header}\r\n"));
        }
        let given = |name: &str| {
            let names =
                |header: &String| header.split(':').next().is_some_and(|own| own.eq_ignore_ascii_case(name));
            self.headers.iter().any(names)
        };
        for (name, value) in [("Host", authority), ("User-Agent", "ApacheBench/2.3"), ("Accept", "*/*")] {
            if !given(name) {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<AbFlags, String> {
        AbFlags::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn flags_are_read_as_getopt_reads_them() {
        let flags = parse("-kq -n1000 -c 10 -C a=b -C c=d http://h/").unwrap();
        assert_eq!(
            (flags.requests, flags.concurrency, flags.keep_alive, flags.quiet),
            (1000, 10, true, true)
        );
        assert_eq!((flags.cookies.len(), flags.url.as_str()), (2, "http://h/"));
        assert_eq!(parse("-t 5 http://h/").unwrap().requests, 50_000);
        let flags = parse("-b 65536 -B 127.0.0.2 -I -f TLS1.3 -wx border=1 http://h/").unwrap();
        assert_eq!((flags.window, flags.local), (Some(65_536), "127.0.0.2".parse().ok()));
        assert!(!flags.offer.has_name() && flags.html);
        assert_eq!(parse("-t 5 -n 70000 http://h/").unwrap().requests, 70_000);
        for (line, why) in [
            ("-n 10", "wants a URL"),
            ("-n 1 -c 2 http://h/", "is above"),
            ("-n x http://h/", "a number"),
            ("-b x http://h/", "a number"),
            ("-B h http://h/", "an address"),
            ("-f SSL3 http://h/", "TLS1.2"),
            ("-Z NULL-MD5 http://h/", "unsupported cipher suite"),
            ("-v x http://h/", "a number"),
            ("-Q http://h/", "no -Q"),
            ("http://h/ http://i/", "second"),
            ("http://h/ -n", "wants a value"),
        ] {
            assert!(parse(line).unwrap_err().contains(why), "{line}");
        }
    }

    /// What ab 2.3 sent to a listening socket.
    #[test]
    fn requests_are_those_of_ab() {
        let flags = AbFlags { url: String::new(), ..parse("-k -H X-A:b -C a=b -A u:p http://h/").unwrap() };
        assert_eq!(
            String::from_utf8(flags.request("/", "127.0.0.1:8378", None)).unwrap(),
            "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\nCookie: a=b\r\nAuthorization: Basic dTpw\r\nX-A:b\r\n\
             Host: 127.0.0.1:8378\r\nUser-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\n"
        );
        // To a proxy the whole URL is the path.
        let flags = parse("-v 2 -X p:81 -P u:p http://h/").unwrap();
        assert_eq!((flags.verbosity, flags.proxy.as_deref()), (2, Some("p:81")));
        assert!(
            String::from_utf8(flags.request("http://h/", "h", None))
                .unwrap()
                .starts_with("GET http://h/ HTTP/1.0\r\nProxy-Authorization: Basic dTpw\r\nHost: h\r\n")
        );
        let flags = parse("-p file -T text/x http://h/").unwrap();
        assert_eq!(
            String::from_utf8(flags.request("/", "h", Some(b"abc"))).unwrap(),
            "POST / HTTP/1.0\r\nContent-length: 3\r\nContent-type: text/x\r\nHost: h\r\n\
             User-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\nabc"
        );
    }
}
