//! Which parts of a URL's query sign it, and which are secrets: the rest is what names the object.
//!
//! A signed link is renewed while the object stays: only its signature differs then. Whoever holds a
//! signature may fetch the object, so it is shown and stored nowhere.
//!
//! Families: Amazon's (versions 4 and 2), Google's, Azure's shared access signatures, CloudFront's,
//! Alibaba's, Tencent's, Akamai's, and the plain `token` with `expires` of many CDNs.

/// What a parameter of a query is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It names the object, or how it is to come.
    Plain,
    /// It signs the link: a renewed one has another.
    Signature,
    /// It may be a secret, and may name the object as well (`key`).
    Secret,
}

/// Parameters that are part of a signature wherever they stand.
const SIGNING: [&str; 20] = [
    "signature",
    "sig",
    "awsaccesskeyid",
    "googleaccessid",
    "ossaccesskeyid",
    "key-pair-id",
    "security-token",
    "token",
    "access_token",
    "auth_token",
    "authtoken",
    "download_token",
    "jwt",
    "hdnts",
    "hdnea",
    "hdntl",
    "__token__",
    "__gda__",
    "hmac",
    "q-ak",
];

/// Beginnings of such; `x-oss-process` asks for another form of the object.
const PREFIXES: [&str; 5] = ["x-amz-", "x-goog-", "x-oss-s", "q-sign-", "x-cos-security-"];

/// Parameters that are part of a signature beside one of those above, and may mean anything without.
const BESIDE: [&str; 36] = [
    "expires",
    "expire",
    "exp",
    "e",
    "policy",
    "hash-algorithm",
    "st",
    "se",
    "sp",
    "sv",
    "sr",
    "ss",
    "srt",
    "spr",
    "sip",
    "si",
    "sdd",
    "skoid",
    "sktid",
    "skt",
    "ske",
    "sks",
    "skv",
    "saoid",
    "suoid",
    "scid",
    "md5",
    "validfrom",
    "validto",
    "q-key-time",
    "q-header-list",
    "q-url-param-list",
    "q-signature",
    "x-oss-credential",
    "x-oss-date",
    "x-oss-expires",
];

/// Words within names of parameters whose values are not to be shown.
const SECRET: [&str; 10] =
    ["sig", "token", "secret", "pass", "pwd", "credential", "key", "auth", "jwt", "session"];

/// The kind of each of `names`, the parameters of one query in order.
pub fn kinds<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Kind> {
    let names: Vec<String> = names.into_iter().map(str::to_ascii_lowercase).collect();
    let signs =
        |name: &str| SIGNING.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    // nginx's secure_link has no better names.
    let is_plain_hash = ["md5", "expires"].iter().all(|name| names.iter().any(|own| own == name));
    let is_signed = is_plain_hash || names.iter().any(|name| signs(name));
    let kind = |name: &String| match name.as_str() {
        name if signs(name) || is_signed && BESIDE.contains(&name) => Kind::Signature,
        name if SECRET.iter().any(|word| name.contains(word)) => Kind::Secret,
        _ => Kind::Plain,
    };
    names.iter().map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(query: &str) -> Vec<&str> {
        let names: Vec<&str> = query.split('&').collect();
        let kinds = kinds(names.iter().copied());
        names.into_iter().zip(kinds).filter(|(_, kind)| *kind == Kind::Plain).map(|(name, _)| name).collect()
    }

    #[test]
    fn of_each_family_only_what_names_the_object_is_left() {
        for (query, left) in [
            (
                "X-Amz-Algorithm&X-Amz-Credential&X-Amz-Date&X-Amz-Expires&X-Amz-SignedHeaders&X-Amz-Signature&versionId",
                &["versionId"][..],
            ),
            ("AWSAccessKeyId&Signature&Expires", &[]),
            ("X-Goog-Algorithm&X-Goog-Signature&generation", &["generation"]),
            ("GoogleAccessId&Expires&Signature", &[]),
            ("sv&st&se&sr&sp&spr&sig&skoid&sktid&rscd&snapshot", &["rscd", "snapshot"]),
            ("Policy&Signature&Key-Pair-Id&response-content-disposition", &["response-content-disposition"]),
            ("Expires&OSSAccessKeyId&Signature&x-oss-process", &["x-oss-process"]),
            (
                "q-sign-algorithm&q-ak&q-sign-time&q-key-time&q-header-list&q-url-param-list&q-signature&q",
                &["q"],
            ),
            ("token&expires&file", &["file"]),
            ("hdnea&part", &["part"]),
            ("md5&expires&id", &["id"]),
        ] {
            assert_eq!(plain(query), left, "{query}");
        }
    }

    #[test]
    fn without_a_signature_short_names_mean_anything() {
        assert_eq!(plain("se&sv&expires&policy&e"), ["se", "sv", "expires", "policy", "e"]);
        assert_eq!(kinds(["apikey", "page"]), [Kind::Secret, Kind::Plain]);
    }
}
