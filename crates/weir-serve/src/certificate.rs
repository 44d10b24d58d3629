//! Where does the server's certificate come from, and how is TLS configured?

use std::sync::Arc;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::{ServeError, TlsSource};

/// A chain is a few kilobytes, a key less.
const MAX_PEM: weir_units::Bytes = weir_units::Bytes(1 << 20);
/// Names that every self-signed certificate is for.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// A TLS configuration, and for a self-signed certificate its PEM text, for clients to trust.
pub(crate) struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) self_signed_pem: Option<String>,
}

/// Reads or makes the certificate.
pub(crate) fn open(source: &TlsSource) -> Result<Tls, ServeError> {
    let (chain, key, self_signed_pem) = match source {
        TlsSource::SelfSigned { names } => {
            let (certificate, key) = self_sign(names)?;
            (vec![certificate.der().clone()], key, Some(certificate.pem()))
        }
        TlsSource::Files { cert, key } => {
            let in_file = |path: &std::path::Path| {
                let path = path.to_owned();
                move |source| ServeError::PemFile { path, source }
            };
            let read = |path: &std::path::Path| {
                weir_units::read_file(path, MAX_PEM)
                    .map_err(|source| ServeError::Read { path: path.to_owned(), source })
            };
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(cert)?).collect();
            let key_text = read(key)?;
            let key = PrivateKeyDer::from_pem_slice(&key_text).map_err(in_file(key))?;
            let chain = chain.map_err(in_file(cert))?;
            if chain.is_empty() {
                return Err(in_file(cert)(pem::Error::NoItemsFound));
            }
            (chain, key, None)
        }
    };
    Ok(Tls { config: Arc::new(configure(chain, key).map_err(ServeError::Tls)?), self_signed_pem })
}

fn self_sign(names: &[String]) -> Result<(rcgen::Certificate, PrivateKeyDer<'static>), ServeError> {
    let mut all: Vec<String> = LOCAL_NAMES.map(String::from).to_vec();
    all.extend(names.iter().filter(|name| !LOCAL_NAMES.contains(&name.as_str())).cloned());
    let make = |all: Vec<String>| {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(all)?;
        params.distinguished_name.push(DnType::CommonName, "weir serve");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.self_signed(&key)?;
        Ok((certificate, PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
    };
    make(all.clone()).map_err(|source| ServeError::SelfSigned { names: all.join(", "), source })
}

/// The provider is named here: a process-wide default would be someone else's to choose.
fn configure(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
