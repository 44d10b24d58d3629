//! Which certificates are trusted, and what of TLS is offered to a server.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::error::GetError;
use crate::http::identity::{Identity, Shown};
use crate::http::offer::Offer;

/// What the user said about trust.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// `--cacert`, or `SSL_CERT_FILE`: only these authorities.
    pub authorities: Option<std::path::PathBuf>,
    /// The variable that names them, where one does.
    pub named_by: Option<&'static str>,
    /// `AWS_CA_BUNDLE`: where nothing else is said, only these, for the stores that they are meant for
    /// ([`crate::http::authority::Authorizer::is_at`]).
    pub of_stores: Option<std::path::PathBuf>,
    /// `-k`: any certificate.
    pub insecure: bool,
    /// `--cert`: what is shown to a server that wants to see one.
    pub identity: Option<Arc<Identity>>,
    /// What of TLS is offered.
    pub offer: Offer,
}

impl Trust {
    /// The same where a store is asked.
    pub fn for_stores(&self) -> Trust {
        match (&self.authorities, &self.of_stores) {
            (None, Some(bundle)) => {
                let named_by = Some("AWS_CA_BUNDLE");
                Trust { authorities: Some(bundle.clone()), named_by, ..self.clone() }
            }
            _ => self.clone(),
        }
    }
}

/// Client configurations for HTTP/1.1 alone and for "HTTP/2 if you can".
#[derive(Debug, Clone)]
pub struct Clients {
    /// Offers `http/1.1`.
    pub http1: Arc<ClientConfig>,
    /// Offers `h2`, then `http/1.1`.
    pub http2: Arc<ClientConfig>,
    /// For an https:// proxy: as `http1`, without the user's certificate, which is for servers.
    pub proxy: Arc<ClientConfig>,
}

impl Clients {
    /// Builds both from the user's trust.
    pub fn new(trust: &Trust) -> Result<Clients, GetError> {
        let base = config(trust)?;
        let with = |protocols: &[&[u8]]| {
            let mut config = base.clone();
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        };
        let mut proxy = base.clone();
        proxy.alpn_protocols = vec![b"http/1.1".to_vec()];
        proxy.client_auth_cert_resolver = Arc::new(Shown(None));
        Ok(Clients {
            http1: with(&[b"http/1.1"]),
            http2: with(&[b"h2", b"http/1.1"]),
            proxy: Arc::new(proxy),
        })
    }
}

fn config(trust: &Trust) -> Result<ClientConfig, GetError> {
    let refused = |error: TlsError| GetError::Refused(format!("cannot set up tls: {error}"));
    let provider = Arc::new(trust.offer.provider());
    let shown = trust.identity.as_ref().map(|identity| identity.certified(&provider)).transpose()?;
    let shown = Arc::new(Shown(shown));
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(trust.offer.versions())
        .map_err(refused)?;
    let belief = match &trust.authorities {
        _ if trust.insecure => Some(Belief::Anybody),
        Some(path) => {
            let given = Belief::given(path, provider.clone());
            Some(given.map_err(|cause| cannot_read(path, trust.named_by, &cause))?)
        }
        None => None,
    };
    let mut config = match belief {
        None => builder.with_platform_verifier().map_err(refused)?.with_client_cert_resolver(shown),
        Some(belief) => {
            let verifier = Arc::new(Verifier { belief, provider });
            builder.dangerous().with_custom_certificate_verifier(verifier).with_client_cert_resolver(shown)
        }
    };
    config.enable_sni = trust.offer.has_name();
    Ok(config)
}

/// A list of all authorities that systems trust is a quarter of a megabyte.
const MAX_PEM: weir_units::Bytes = weir_units::Bytes(16 << 20);

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = weir_units::read_file(path, MAX_PEM).map_err(|error| weir_units::plain(&error))?;
    let read: Vec<_> =
        CertificateDer::pem_slice_iter(&text).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    if read.is_empty() { Err("no certificate in PEM form in it".to_owned()) } else { Ok(read) }
}

fn cannot_read(path: &Path, named_by: Option<&str>, cause: &str) -> GetError {
    let by = named_by.map_or_else(String::new, |name| format!(", which {name} names"));
    GetError::Refused(format!("cannot read certificates from {}{by}: {cause}", path.display()))
}

/// Whom to believe, where it is not the system's authorities. Either way the peer must show that it holds its
/// key.
#[derive(Debug)]
struct Verifier {
    belief: Belief,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
enum Belief {
    /// `-k`.
    Anybody,
    /// `--cacert`: whom these authorities signed, and these certificates themselves. The usual self-signed
    /// certificate calls itself an authority, which webpki refuses as a server's own.
    Given { certificates: Vec<CertificateDer<'static>>, signed: Arc<WebPkiServerVerifier> },
}

impl Belief {
    fn given(path: &Path, provider: Arc<CryptoProvider>) -> Result<Belief, String> {
        let certificates = certificates(path)?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(|error| error.to_string())?;
        }
        let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let signed = signed.map_err(|error| error.to_string())?;
        Ok(Belief::Given { certificates, signed })
    }
}

impl Verifier {
    /// In a certificate that rustls does not read (X.509 version 1) it finds no key to check a signature by.
    /// Who takes anybody's certificate (`-k`) knows no less of who signed without that.
    fn unless_unread(
        &self,
        verdict: Result<HandshakeSignatureValid, TlsError>,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let takes_any = !matches!(self.belief, Belief::Given { .. });
        match verdict {
            Err(TlsError::InvalidCertificate(CertificateError::Other(_))) if takes_any => {
                Ok(HandshakeSignatureValid::assertion())
            }
            verdict => verdict,
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let Belief::Given { certificates, signed } = &self.belief else {
            return Ok(ServerCertVerified::assertion());
        };
        match signed.verify_server_cert(certificate, chain, name, ocsp, now) {
            Err(TlsError::InvalidCertificate(CertificateError::Other(_)))
                if certificates.iter().any(|given| given == certificate) =>
            {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        self.unless_unread(verify_tls12_signature(message, certificate, signed, algorithms))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        self.unless_unread(verify_tls13_signature(message, certificate, signed, algorithms))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
