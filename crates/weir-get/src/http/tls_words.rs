//! What a TLS error means, and the way out: rustls says which rule was broken, people want to know what is
//! missing.
//!
//! Alerts say little by themselves. How far the handshake came tells more: a server that refuses before it
//! has chosen a cipher suite knew none of ours; one that refuses after it asked for a certificate wanted to
//! see one.

use std::io;
use std::time::SystemTime;

use rustls::{AlertDescription, CertificateError, Error as TlsError, PeerIncompatible};

use crate::error::GetError;

/// How far a handshake came before it failed.
#[derive(Debug, Clone, Copy)]
pub struct Reached<'a> {
    /// The server has chosen a version and a cipher suite.
    pub chosen: bool,
    /// It has asked for a certificate of ours.
    pub asked: bool,
    /// The first bytes that it sent, as far as they were not understood.
    pub heard: &'a [u8],
}

const OLD: &str = "it speaks only TLS 1.1 or older, which is no longer safe, and weir TLS 1.2 and newer; the server must be \
                   updated (curl with --ciphers DEFAULT@SECLEVEL=0 and an OpenSSL that still has TLS 1.0 may fetch it)";

const NO_SUITE: &str = "it has no cipher suite in common with weir, which offers AES-GCM and ChaCha20 with ECDHE; old servers \
                        know only CBC or RSA key exchange: enable an AEAD suite there (nginx: ssl_ciphers HIGH), or \
                        fetch it with curl";

/// The error of a session in the words of a user; `None` for one that is not of TLS.
pub fn explain(host: &str, error: &io::Error) -> Option<GetError> {
    let reached = Reached { chosen: false, asked: false, heard: &[] };
    of(host, None, inner(error)?, &reached)
}

/// The same of a handshake, by how far it came.
pub fn handshake(host: &str, port: u16, error: &io::Error, reached: &Reached<'_>) -> Option<GetError> {
    match inner(error) {
        Some(tls) => of(host, Some(port), tls, reached),
        // Some servers say nothing at all to a client without a certificate.
        None if reached.asked && !crate::http::connection::is_timeout(error) => {
            let detail = format!("it asked for a client certificate and ended the connection; {CERTIFICATE}");
            Some(GetError::Tls { host: host.to_owned(), detail, permanent: true })
        }
        None => None,
    }
}

const CERTIFICATE: &str = "--cert FILE and --key FILE show one";

fn inner(error: &io::Error) -> Option<&TlsError> {
    error.get_ref()?.downcast_ref::<TlsError>()
}

fn of(host: &str, port: Option<u16>, tls: &TlsError, reached: &Reached<'_>) -> Option<GetError> {
    if let TlsError::AlertReceived(AlertDescription::NoApplicationProtocol) = tls {
        return Some(GetError::OnlyHttp2 { host: host.to_owned() });
    }
    let (detail, permanent) = match tls {
        TlsError::InvalidCertificate(cause) => (certificate(host, cause), true),
        TlsError::InvalidMessage(_) => (not_tls(host, port, reached.heard), true),
        TlsError::AlertReceived(alert) => (alerted(*alert, reached), true),
        TlsError::PeerIncompatible(cause) => (incompatible(cause), true),
        TlsError::NoCertificatesPresented => ("it shows no certificate".to_owned(), true),
        other => (other.to_string(), !matches!(other, TlsError::DecryptError)),
    };
    Some(GetError::Tls { host: host.to_owned(), detail, permanent })
}

/// What it sent instead tells what it is.
fn not_tls(host: &str, port: Option<u16>, heard: &[u8]) -> String {
    let what = match heard {
        [b'H', b'T', b'T', b'P', b'/', ..] | [b'<', ..] => {
            let port = port.map_or_else(String::new, |port| format!(":{port}"));
            return format!("it does not speak tls on this port but plain HTTP; say http://{host}{port}/");
        }
        [b'S', b'S', b'H', b'-', ..] => "this port is one of ssh; which port is the web server's?",
        [b'2', b'2', b'0', b' ' | b'-', ..] => {
            "this port is one of ftp or mail; which port is the web server's?"
        }
        _ => "it does not speak tls on this port",
    };
    what.to_owned()
}

fn alerted(alert: AlertDescription, reached: &Reached<'_>) -> String {
    use AlertDescription as A;
    match alert {
        A::CertificateRequired => format!("it requires a client certificate; {CERTIFICATE}"),
        A::HandshakeFailure | A::AccessDenied | A::BadCertificate | A::NoCertificate if reached.asked => {
            format!(
                "it asked for a client certificate and refused the connection; {CERTIFICATE}, and must be of an authority that \
             it trusts"
            )
        }
        A::UnknownCA => {
            "it does not know the authority of the client certificate (--cert); it must be of one that the \
                         server trusts, with those between in the same file"
                .to_owned()
        }
        A::BadCertificate | A::UnsupportedCertificate | A::CertificateUnknown | A::DecryptError => {
            format!("it does not accept the client certificate (--cert): {alert:?}")
        }
        A::CertificateExpired => "it says that the client certificate (--cert) has expired".to_owned(),
        A::CertificateRevoked => "it says that the client certificate (--cert) was revoked".to_owned(),
        A::ProtocolVersion => OLD.to_owned(),
        A::HandshakeFailure | A::InsufficientSecurity if !reached.chosen => NO_SUITE.to_owned(),
        A::UnrecognisedName => "it does not know a site of this name".to_owned(),
        alert => format!("it refused with the alert {alert:?}"),
    }
}

fn incompatible(cause: &PeerIncompatible) -> String {
    use PeerIncompatible as P;
    match cause {
        P::ServerDoesNotSupportTls12Or13 | P::ServerTlsVersionIsDisabledByOurConfig => OLD.to_owned(),
        P::Tls12NotOffered | P::Tls12NotOfferedOrEnabled => OLD.to_owned(),
        P::NoCipherSuitesInCommon => NO_SUITE.to_owned(),
        other => format!("it speaks a kind of TLS that weir does not: {other:?}"),
    }
}

/// Each with its own way out: `-k` is the last of them.
fn certificate(host: &str, error: &CertificateError) -> String {
    use CertificateError as E;
    let trusting = "--cacert FILE trusts that certificate or its authority, -k trusts anything";
    let renew = "it has to be renewed there; -k accepts it all the same";
    match error {
        E::Expired => format!("its certificate has expired; {renew}"),
        E::ExpiredContext { not_after, .. } => {
            format!("its certificate has expired{}; {renew}", on(not_after.as_secs()))
        }
        E::NotValidYet => "its certificate is not valid yet (is the clock right?); -k accepts it all the same".to_owned(),
        E::NotValidYetContext { time, not_before } => format!(
            "its certificate is not valid yet: it begins{}, and the clock here says{}; set the clock if it is wrong, -k \
             accepts it all the same",
            on(not_before.as_secs()),
            on(time.as_secs()),
        ),
        E::NotValidForNameContext { presented, .. } if presented.is_empty() => format!(
            "its certificate names no host at all in subjectAltName, and a common name alone no longer counts (RFC 9110, \
             4.3.4); make it anew with -addext subjectAltName={}:{host}, or -k accepts it",
            if host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok() { "IP" } else { "DNS" },
        ),
        E::NotValidForNameContext { presented, .. } => format!(
            "its certificate is for another name: it is for {}, not for {host}; ask for it by such a name, or -k accepts \
             it",
            names(presented)
        ),
        E::NotValidForName => "its certificate is for another name; -k accepts it all the same".to_owned(),
        E::UnknownIssuer => format!(
            "its certificate is not signed by a trusted authority, or the server leaves out a certificate between; \
             {trusting}"
        ),
        // Made anew under the old name, as often as not.
        E::BadSignature => format!(
            "its certificate is not signed by a trusted authority: one of that name is trusted, but has another key; \
             {trusting}"
        ),
        E::Revoked => "its certificate has been revoked; -k accepts it all the same".to_owned(),
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => {
            "its certificate is not one for servers (extendedKeyUsage); -k accepts it all the same".to_owned()
        }
        // webpki's word for it; the usual self-signed certificate calls itself an authority.
        E::Other(cause) if cause.to_string().contains("CaUsedAsEndEntity") => {
            format!("its certificate is self-signed, not signed by an authority; {trusting}")
        }
        E::Other(cause) if cause.to_string().contains("UnsupportedCertVersion") => {
            "its certificate is of X.509 version 1 or 2, which names no hosts; make it anew with openssl req -x509 -addext \
             subjectAltName=..., or -k accepts it"
                .to_owned()
        }
        E::Other(_) => format!("its certificate is not valid for a server; {trusting}"),
        other if format!("{other:?}").starts_with("UnsupportedSignature") => {
            "its certificate is signed in a way that is no longer safe (SHA-1, MD5, a short key); it has to be made anew, or \
             -k accepts it"
                .to_owned()
        }
        other => format!("its certificate is not valid ({other}); {trusting}"),
    }
}

/// ` on 2026-11-26 17:20 CET`, or nothing where there is no such day.
fn on(seconds: u64) -> String {
    let time = SystemTime::UNIX_EPOCH.checked_add(std::time::Duration::from_secs(seconds));
    time.map_or_else(String::new, |time| format!(" on {}", weir_observe::clock::minute(time)))
}

/// A few of the names in a certificate, which are the server's words.
fn names(presented: &[String]) -> String {
    const SHOWN: usize = 4;
    // rustls writes them as it debugs them: `DnsName("a.example")`.
    let bare = |name: &String| {
        let inside = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
        let inside = inside.unwrap_or(name).trim_matches('"');
        inside.chars().filter(|letter| !letter.is_control()).take(100).collect::<String>()
    };
    let mut shown: Vec<String> = presented.iter().take(SHOWN).map(bare).collect();
    if presented.len() > SHOWN {
        shown.push(format!("{} more", presented.len() - SHOWN));
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(error: TlsError, reached: Reached<'_>) -> String {
        let error = io::Error::new(io::ErrorKind::InvalidData, error);
        handshake("h.example", 8443, &error, &reached).unwrap().to_string()
    }

    const FAR: Reached<'_> = Reached { chosen: true, asked: false, heard: b"" };

    #[test]
    fn an_alert_means_what_came_before_it() {
        let alert = TlsError::AlertReceived(AlertDescription::HandshakeFailure);
        for (reached, word) in [
            (Reached { chosen: false, ..FAR }, "no cipher suite in common"),
            (Reached { asked: true, ..FAR }, "client certificate"),
            (FAR, "HandshakeFailure"),
        ] {
            assert!(said(alert.clone(), reached).contains(word), "{reached:?}");
        }
        assert!(
            said(TlsError::AlertReceived(AlertDescription::ProtocolVersion), FAR)
                .contains("TLS 1.1 or older")
        );
        assert!(
            said(TlsError::AlertReceived(AlertDescription::CertificateRequired), FAR).contains("--cert FILE")
        );
    }

    #[test]
    fn what_is_no_tls_is_called_what_it_is() {
        let no_tls = TlsError::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        for (heard, word) in [
            (&b"HTTP/1.1 400 Bad"[..], "plain HTTP; say http://h.example:8443/"),
            (b"SSH-2.0-OpenSSH", "ssh"),
            (b"220 mail", "mail"),
            (b"\x00", "does not speak tls"),
        ] {
            let error = said(no_tls.clone(), Reached { heard, ..FAR });
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_certificate_s_fault_has_its_own_way_out() {
        let name = rustls::pki_types::ServerName::try_from("h.example").unwrap();
        let wrong = |presented: &[&str]| CertificateError::NotValidForNameContext {
            expected: name.clone(),
            presented: presented.iter().map(|one| (*one).to_owned()).collect(),
        };
        for (cause, words) in [
            (wrong(&[]), &["subjectAltName=DNS:h.example", "-k"][..]),
            (wrong(&["DnsName(\"a.example\")", "b\n"]), &["for a.example, b, not for h.example"]),
            (CertificateError::UnknownIssuer, &["trusted authority", "--cacert"]),
            (CertificateError::Expired, &["expired", "renewed"]),
        ] {
            let error = said(TlsError::InvalidCertificate(cause), FAR);
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }
}
