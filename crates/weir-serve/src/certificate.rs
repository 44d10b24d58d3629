//! Where does the server's certificate come from, and how is TLS configured?

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::{ServeError, TlsSource};

/// A chain is a few kilobytes, a key less.
const MAX_PEM: weir_units::Bytes = weir_units::Bytes(1 << 20);
const DAY: Duration = Duration::from_secs(86_400);
/// Apple's systems refuse a server certificate that is valid for more than 825 days, whoever trusts it
/// (support.apple.com/HT210176).
const VALID_DAYS: u32 = 823;
/// Names that every self-signed certificate is for.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// How TLS is spoken with those who connect now.
pub(crate) struct Tls {
    source: TlsSource,
    config: Mutex<Arc<ServerConfig>>,
    /// A self-signed certificate as PEM text, for clients to trust.
    pub(crate) self_signed_pem: Option<String>,
}

impl Tls {
    /// Reads or makes the certificate.
    pub(crate) fn open(source: &TlsSource) -> Result<Tls, ServeError> {
        let (config, self_signed_pem) = match source {
            TlsSource::SelfSigned { names } => {
                let (certificate, key) = self_sign(names)?;
                (configure(vec![certificate.der().clone()], key)?, Some(certificate.pem()))
            }
            TlsSource::Files { cert, key } => (read(cert, key)?, None),
        };
        Ok(Tls { source: source.clone(), config: Mutex::new(config), self_signed_pem })
    }

    /// For the next connection.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.lock().clone()
    }

    /// Reads the files again, for the connections to come; what is wrong with them leaves all as it was.
    /// False where there are none, since the certificate was made at start.
    pub(crate) fn reload(&self) -> Result<bool, ServeError> {
        let TlsSource::Files { cert, key } = &self.source else { return Ok(false) };
        let config = read(cert, key)?;
        *self.config.lock() = config;
        Ok(true)
    }
}

/// Reads the PEM files of a chain and its key.
fn read(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, ServeError> {
    let in_file = |path: &Path| {
        let path = path.to_owned();
        move |source| ServeError::PemFile { path, source }
    };
    let text = |path: &Path| {
        weir_units::read_file(path, MAX_PEM)
            .map_err(|source| ServeError::Read { path: path.to_owned(), source })
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text(cert)?).collect();
    let pem_text = text(key)?;
    // PKCS#8 says so in the line that begins it, the older forms in a header (RFC 1421, 4.6.1.1).
    let is_encrypted = |line: &[u8]| {
        line.starts_with(b"-----BEGIN ENCRYPTED PRIVATE KEY") || line.starts_with(b"Proc-Type: 4,ENCRYPTED")
    };
    if pem_text.split(|&byte| byte == b'\n').any(is_encrypted) {
        return Err(ServeError::EncryptedKey { path: key.to_owned() });
    }
    let private = PrivateKeyDer::from_pem_slice(&pem_text).map_err(in_file(key))?;
    let chain = chain.map_err(in_file(cert))?;
    if chain.is_empty() {
        return Err(in_file(cert)(pem::Error::NoItemsFound));
    }
    configure(chain, private)
}

fn self_sign(names: &[String]) -> Result<(rcgen::Certificate, PrivateKeyDer<'static>), ServeError> {
    let mut all: Vec<String> = LOCAL_NAMES.map(String::from).to_vec();
    all.extend(names.iter().filter(|name| !LOCAL_NAMES.contains(&name.as_str())).cloned());
    let make = |all: Vec<String>| {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(all)?;
        params.distinguished_name.push(DnType::CommonName, "weir serve");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let epoch = date_time_ymd(1970, 1, 1);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // From yesterday on: a client's clock may be slow.
        params.not_before = epoch + now.saturating_sub(DAY);
        params.not_after = epoch + now + VALID_DAYS * DAY;
        let certificate = params.self_signed(&key)?;
        Ok((certificate, PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
    };
    make(all.clone()).map_err(|source| ServeError::SelfSigned { names: all.join(", "), source })
}

/// The provider is named here: a process-wide default would be someone else's to choose.
fn configure(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, ServeError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(ServeError::Tls)?;
    // A client that offers protocols and finds none of them here gives up, and http1 serves both of HTTP/1.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec(), b"http/1.0".to_vec()];
    Ok(Arc::new(config))
}
