//! Links that weir does not fetch, told by their scheme before any name is looked up, each with a way out.
//!
//! `magnet:`, `mailto:`, `data:` have no `//`: read as a host they would be asked of a name server, or worse,
//! be found there.

/// Schemes, and what to do instead.
type Row = (&'static [&'static str], &'static str);

/// One row for what has one answer.
const TABLE: &[Row] = &[
    (
        &["magnet", "ed2k", "thunder", "dchub", "ppstream"],
        "a client of that network fetches it, such as aria2c or transmission-cli",
    ),
    (
        &["mailto", "tel", "sms", "callto", "sip", "sips", "xmpp", "irc", "ircs", "tg", "skype"],
        "it names a person, not a file",
    ),
    (
        &["urn", "doi", "info", "isbn", "oid", "tag", "cid", "mid", "swh", "ark", "hdl"],
        "it names an object without a place; a resolver such as https://doi.org/ leads to one",
    ),
    (&["data"], "its bytes stand in the link itself, after the comma; base64 -d decodes them"),
    (
        &[
            "javascript",
            "vbscript",
            "about",
            "blob",
            "chrome",
            "chrome-extension",
            "moz-extension",
            "edge",
            "view-source",
        ],
        "only a browser knows what it means; copy the link of the file itself",
    ),
    (&["file"], "it is on this machine already: cp copies it by its path"),
    (&["sftp", "scp", "ssh", "rsync", "fish"], "weir cp HOST:PATH . copies over ssh"),
    (
        &["adl", "oss", "cos", "b2", "swift", "hdfs"],
        "the store's own tool makes an https link of it, as aws s3 presign does",
    ),
    (
        &["git", "git+ssh", "git+https", "svn", "svn+ssh", "hg", "bzr"],
        "its own program fetches it, as git clone does",
    ),
    (
        &["ipfs", "ipns", "ar", "dat", "hyper"],
        "a gateway has it over https, such as https://ipfs.io/ipfs/NAME",
    ),
    (&["docker"], "say oci:// in its place"),
    (&["pkg", "npm", "pypi", "conda"], "its own tool fetches it"),
    (&["smb", "cifs", "nfs", "afp"], "mount it; then it is a file of this machine"),
    (&["dav", "webdav"], "say http:// in its place"),
    (&["davs", "webdavs"], "say https:// in its place"),
    (&["ws", "wss"], "no file comes over a web socket"),
    (&["ftp", "ftps", "tftp", "gopher", "gophers", "dict", "ldap", "ldaps"], "curl speaks it"),
];

/// Schemes of stores and hubs, which weir fetches, each as it is written.
const FETCHED: &[Row] = &[
    (&["s3", "s3a", "s3n"], "s3://BUCKET/KEY"),
    (&["gs", "gcs"], "gs://BUCKET/KEY"),
    (&["az", "abfs", "abfss", "wasb", "wasbs"], "az://CONTAINER/KEY"),
    (&["hf"], "hf://ORG/REPO"),
    (&["oci"], "oci://REGISTRY/NAME:TAG"),
];

/// What there is to say of a link that is none of http or https; `None` where it may be one, or a bare host.
pub fn refusal(text: &str) -> Option<String> {
    let scheme = scheme_of(text)?;
    // Before an '@' there is a login only where a host follows.
    let shown = if text.contains("//") { text.split('@').next_back().unwrap_or(text) } else { text };
    let shown: String = shown.chars().take(120).collect();
    if let Some(form) = find(FETCHED, &scheme).filter(|_| !text.contains("://")) {
        return Some(format!("cannot fetch '{shown}': two slashes stand behind {scheme}:, as in {form}"));
    }
    let way = way_out(&scheme).map_or_else(String::new, |way| format!("; {way}"));
    Some(format!("cannot fetch '{shown}': weir speaks http and https, not {scheme}{way}"))
}

/// Whether `text` is certainly a link: with its scheme and `//`, or with a scheme that links have.
pub fn is_link(text: &str) -> bool {
    text.contains("://") || scheme_of(text).is_some_and(|scheme| way_out(&scheme).is_some())
}

/// What to do instead with a link of this scheme, in lower case, where it is not taken; `None` of one that
/// nothing is known of.
pub fn way_out(scheme: &str) -> Option<&'static str> {
    let fetched = || find(FETCHED, scheme).map(|_| "weir get URL fetches it");
    find(TABLE, scheme).or_else(fetched)
}

fn find(table: &[Row], scheme: &str) -> Option<&'static str> {
    table.iter().find(|(schemes, _)| schemes.contains(&scheme)).map(|(_, words)| *words)
}

/// The scheme in lower case (RFC 3986 section 3.1), where it is not http or https. `host:80/x` has none, nor
/// has `user:password@host` unless the user is called as a scheme is.
fn scheme_of(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once(':')?;
    let is_legal = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let scheme = scheme.to_ascii_lowercase();
    if !is_legal || matches!(scheme.as_str(), "http" | "https") {
        return None;
    }
    let known = way_out(&scheme).is_some();
    let first = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_port = first.bytes().all(|byte| byte.is_ascii_digit()) && !rest.starts_with("//");
    let is_login = first.contains('@') && !rest.starts_with("//");
    let is_host = is_port && !(known && first.is_empty()) || is_login && !known;
    (!is_host).then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_without_a_host_are_told_from_hosts() {
        for (text, scheme) in [
            ("magnet:?xt=urn:btih:0", "magnet"),
            ("MAILTO:a@b.example", "mailto"),
            ("urn:isbn:1", "urn"),
            ("data:text/plain;base64,aGk=", "data"),
            ("data:,hi", "data"),
            ("javascript:void(0)", "javascript"),
            ("file:/etc/passwd", "file"),
            ("file:///etc/passwd", "file"),
            ("tel:+49", "tel"),
            ("s3://bucket/x", "s3"),
            ("ftp://h/x", "ftp"),
            ("C:\\x", "c"),
            ("nonsense:x", "nonsense"),
            ("view-source:https://h/x", "view-source"),
        ] {
            assert_eq!(scheme_of(text).as_deref(), Some(scheme), "{text}");
        }
        for text in [
            "h:81/x",
            "localhost:8080",
            "h:",
            "h:/x",
            "user:pw@h/x",
            "[::1]:80/x",
            "http://h",
            "HTTPS:h",
            "h/x:y",
            "1:2",
        ] {
            assert_eq!(scheme_of(text), None, "{text}");
        }
    }

    #[test]
    fn each_scheme_has_one_row() {
        let rows = TABLE.iter().chain(FETCHED);
        let mut all: Vec<&str> = rows.flat_map(|(schemes, _)| schemes.iter().copied()).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        let said = refusal("magnet:?xt=1").unwrap();
        assert!(said.contains("not magnet; a client of that network"), "{said}");
        assert!(refusal("mailto:a@b.example").unwrap().contains("'mailto:a@b.example'"));
        assert!(!refusal("sftp://me:secret@h/x").unwrap().contains("secret"));
        for (text, form) in [
            ("s3:bucket/x", "s3://BUCKET/KEY"),
            ("GS:bucket/x", "gs://BUCKET/KEY"),
            ("az:c/x", "az://CONTAINER/KEY"),
            ("hf:org/repo", "hf://ORG/REPO"),
        ] {
            let said = refusal(text).unwrap();
            assert!(said.contains("two slashes") && said.ends_with(form), "{said}");
            assert!(!said.contains("speaks"), "{said}");
        }
        assert!(refusal("oss:bucket/x").unwrap().contains("the store's own tool"));
    }
}
