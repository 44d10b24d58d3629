//! What of TLS is offered to a server, where the user narrows it as programs on OpenSSL do: versions, cipher
//! suites, the server's name.

use rustls::SupportedCipherSuite;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs;
use rustls::version::{TLS12, TLS13};

/// The default offers all there is.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// Only these.
    versions: Option<Vec<&'static rustls::SupportedProtocolVersion>>,
    /// Only these.
    suites: Option<Vec<SupportedCipherSuite>>,
    nameless: bool,
}

impl Offer {
    /// The same with only this version, by its name on OpenSSL's command lines: `TLS1.2`, `TLS1.3` or `ALL`.
    pub fn with_version(self, name: &str) -> Result<Offer, String> {
        let versions = match &*name.to_ascii_uppercase() {
            "ALL" => None,
            "TLS1.2" => Some(vec![&TLS12]),
            "TLS1.3" => Some(vec![&TLS13]),
            _ => {
                return Err(format!("unsupported TLS version '{name}': expected TLS1.2, TLS1.3 or ALL"));
            }
        };
        Ok(Offer { versions, ..self })
    }

    /// The same with only these suites, by OpenSSL's names with colons between (ciphers(1ssl)). As there,
    /// those of TLS 1.3 stay as they are unless one of them is named.
    pub fn with_suites(self, names: &str) -> Result<Offer, String> {
        let all = aws_lc_rs::ALL_CIPHER_SUITES;
        let named = |name: &str| all.iter().copied().find(|suite| openssl_name(*suite) == name);
        let mut suites = Vec::new();
        for name in names.split([':', ',', ' ']).filter(|name| !name.is_empty()) {
            let suite = named(&name.to_ascii_uppercase()).ok_or_else(|| {
                let known: Vec<String> = all.iter().map(|suite| openssl_name(*suite)).collect();
                format!("unsupported cipher suite '{name}': expected one of {}", known.join(", "))
            })?;
            suites.push(suite);
        }
        if suites.is_empty() {
            return Err("expected cipher suites, such as ECDHE-RSA-AES128-GCM-SHA256".to_owned());
        }
        if !suites.iter().any(|suite| is_tls13(*suite)) {
            suites.splice(0..0, all.iter().copied().filter(|suite| is_tls13(*suite)));
        }
        Ok(Offer { suites: Some(suites), ..self })
    }

    /// The same without telling the server the name that it is asked by (RFC 6066 section 3).
    pub fn without_name(self) -> Offer {
        Offer { nameless: true, ..self }
    }

    /// Whether the server is told its name.
    pub fn has_name(&self) -> bool {
        !self.nameless
    }

    /// The versions that a client begins with.
    pub(super) fn versions(&self) -> &[&'static rustls::SupportedProtocolVersion] {
        self.versions.as_deref().unwrap_or(rustls::DEFAULT_VERSIONS)
    }

    /// What a client encrypts with.
    pub(super) fn provider(&self) -> CryptoProvider {
        let usual = aws_lc_rs::default_provider();
        let mut suites = self.suites.clone().unwrap_or_else(|| usual.cipher_suites.clone());
        // Those of a version that is not spoken would be offered all the same.
        suites.retain(|suite| self.versions().contains(&suite.version()));
        CryptoProvider { cipher_suites: suites, ..usual }
    }
}

fn is_tls13(suite: SupportedCipherSuite) -> bool {
    suite.tls13().is_some()
}

/// `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` is `ECDHE-RSA-AES128-GCM-SHA256` there, `TLS13_AES_128_GCM_SHA256`
/// `TLS_AES_128_GCM_SHA256`.
fn openssl_name(suite: SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    if let Some(rest) = name.strip_prefix("TLS13_") {
        return format!("TLS_{rest}");
    }
    let name = name.trim_start_matches("TLS_").replace("_WITH_", "_").replace("AES_", "AES");
    let name = name.replace('_', "-");
    match name.strip_suffix("-SHA256").filter(|name| name.ends_with("POLY1305")) {
        Some(short) => short.to_owned(),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_go_by_the_names_of_openssl() {
        let names: Vec<String> =
            aws_lc_rs::ALL_CIPHER_SUITES.iter().map(|suite| openssl_name(*suite)).collect();
        for name in [
            "TLS_AES_256_GCM_SHA384",
            "TLS_CHACHA20_POLY1305_SHA256",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
            "ECDHE-RSA-AES128-GCM-SHA256",
            "ECDHE-RSA-CHACHA20-POLY1305",
        ] {
            assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
        }
        let suites =
            |names: &str| Offer::default().with_suites(names).map(|offer| offer.suites.unwrap().len());
        assert_eq!(suites("ECDHE-RSA-AES128-GCM-SHA256"), Ok(4), "and the three of TLS 1.3");
        assert_eq!(suites("TLS_AES_128_GCM_SHA256:ecdhe-rsa-aes256-gcm-sha384"), Ok(2));
        assert!(suites("AES256-SHA").unwrap_err().contains("unsupported cipher suite"));
        assert!(suites(":").is_err());
        assert!(Offer::default().with_version("SSL3").unwrap_err().contains("TLS1.2"));
        assert_eq!(Offer::default().with_version("tls1.3").unwrap().versions(), [&TLS13]);
    }
}
