//! Who we are to a server that wants to see a certificate: a chain and its key, from PEM, DER or PKCS#12
//! files.
//!
//! Files come in many forms, and a key may be locked with a password. What cannot be read is said with the
//! command of openssl that makes something of it which can.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p12_keystore::{KeyStore, Pkcs12ImportPolicy};
use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error as TlsError, InconsistentKeys, SignatureScheme};

use crate::error::GetError;

/// A chain of a few certificates and a key take some KiB.
const MAX_FILE: weir_units::Bytes = weir_units::Bytes(1 << 20);

/// A certificate chain and its private key.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// The file that the key came from, for words.
    key_file: String,
}

/// Gives the password of the file that it is told of. `None`: there is nobody to ask.
pub type Password<'a> = dyn FnMut(&str) -> Option<String> + 'a;

impl Identity {
    /// Reads the chain from `cert`, and the key from `key` or else from `cert` too. A password is asked for
    /// where a file is locked. Fails where the key is not that of the certificate.
    pub fn read(cert: &Path, key: Option<&Path>, password: &mut Password<'_>) -> Result<Identity, GetError> {
        let made = Identity::of_files(cert, key, password)?;
        made.certified(&rustls::crypto::aws_lc_rs::default_provider())?;
        Ok(made)
    }

    fn of_files(cert: &Path, key: Option<&Path>, password: &mut Password<'_>) -> Result<Identity, GetError> {
        let bytes = read(cert)?;
        if is_pem(&bytes) {
            let chain = chain_of_pem(cert, &bytes)?;
            return match key {
                Some(key) => Identity::with_key(chain, key, &read(key)?, password),
                None => Identity::with_key(chain, cert, &bytes, password),
            };
        }
        match (CertificateDer::from(bytes.as_slice()), key) {
            (plain, Some(key)) if is_certificate(&plain) => {
                Identity::with_key(vec![plain.into_owned()], key, &read(key)?, password)
            }
            (plain, None) if is_certificate(&plain) => {
                Err(refused(cert, "it holds a certificate without its private key; --key FILE names that"))
            }
            _ => Identity::of_pkcs12(cert, &bytes, password),
        }
    }

    fn with_key(
        chain: Vec<CertificateDer<'static>>,
        path: &Path,
        bytes: &[u8],
        password: &mut Password<'_>,
    ) -> Result<Identity, GetError> {
        let key = if is_pem(bytes) {
            key_of_pem(path, bytes, password)?
        } else {
            key_of_der(path, bytes, password)?
        };
        Ok(Identity { chain, key, key_file: path.display().to_string() })
    }

    fn of_pkcs12(path: &Path, bytes: &[u8], password: &mut Password<'_>) -> Result<Identity, GetError> {
        let not_one = "it is neither PEM nor PKCS#12 (.p12, .pfx)";
        // A file that is no sequence of DER is not asked for its password.
        if bytes.first() != Some(&0x30) {
            return Err(refused(path, not_one));
        }
        let open = |password: &str| KeyStore::from_pkcs12(bytes, password, Pkcs12ImportPolicy::Strict);
        let store = match open("") {
            Ok(store) => store,
            Err(_) => {
                let given = password(&path.display().to_string())
                    .ok_or_else(|| refused(path, "it is locked; --pass-file FILE holds its password"))?;
                open(&given).map_err(|error| {
                    let way_out = "openssl pkcs12 -legacy -in FILE -out NEW.pem -nodes makes PEM of it";
                    refused(
                        path,
                        &format!("wrong password, or a form that is not known here ({error}); {way_out}"),
                    )
                })?
            }
        };
        let Some((_, found)) = store.private_key_chain() else {
            return Err(refused(path, "it holds no private key with its certificate"));
        };
        let chain = found.certs().iter().map(|one| CertificateDer::from(one.as_der().to_vec())).collect();
        let key = PrivatePkcs8KeyDer::from(found.key().as_der().to_vec()).into();
        Ok(Identity { chain, key, key_file: path.display().to_string() })
    }

    /// As rustls wants it; fails where the key is not that of the certificate.
    pub(crate) fn certified(&self, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, GetError> {
        let cannot = |cause: &str| {
            GetError::Refused(format!("cannot use the private key in {}: {cause}", self.key_file))
        };
        let key = provider.key_provider.load_private_key(self.key.clone_key());
        let made = CertifiedKey::new(self.chain.clone(), key.map_err(|error| cannot(&error.to_string()))?);
        let is_read = made.cert.first().is_some_and(|first| is_certificate(first));
        match made.keys_match() {
            Ok(()) | Err(TlsError::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            // rustls reads those of version 3 alone. `openssl x509 -req` makes version 1 unless it is told
            // more; whether that will do is for the server to say.
            Err(_) if holds_key_of(&made) => {}
            Err(error) if !is_read && !matches!(error, TlsError::InconsistentKeys(_)) => {
                return Err(cannot(&error.to_string()));
            }
            Err(_) => return Err(cannot("it is not the key of that certificate")),
        }
        Ok(Arc::new(made))
    }
}

/// The public key stands in the certificate as it is written in DER.
fn holds_key_of(made: &CertifiedKey) -> bool {
    let (Some(key), Some(certificate)) = (made.key.public_key(), made.cert.first()) else { return false };
    !key.is_empty() && certificate.windows(key.len()).any(|window| window == key.as_ref())
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("key_file", &self.key_file).finish_non_exhaustive()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, GetError> {
    weir_units::read_file(path, MAX_FILE).map_err(|error| refused(path, &weir_units::plain(&error)))
}

fn refused(path: &Path, cause: &str) -> GetError {
    GetError::Refused(format!("cannot use the client certificate in {}: {cause}", path.display()))
}

fn is_pem(bytes: &[u8]) -> bool {
    bytes.windows(11).any(|window| window == b"-----BEGIN ")
}

/// A sequence that begins with one that begins with a version, or in version 1 with a number (RFC 5280
/// section 4.1): no key and no PKCS#12 does.
fn is_certificate(der: &[u8]) -> bool {
    let body = within_sequence(der).and_then(within_sequence);
    body.is_some_and(|body| matches!(body.first(), Some(0xa0 | 0x02)))
}

/// What stands behind the head of a sequence in DER.
fn within_sequence(der: &[u8]) -> Option<&[u8]> {
    let (head, rest) = der.split_first_chunk::<2>()?;
    match *head {
        [0x30, short] if short < 0x80 => Some(rest),
        [0x30, long] => rest.get(usize::from(long & 0x7f)..),
        _ => None,
    }
}

fn chain_of_pem(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, GetError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let read = read.map_err(|error| refused(path, &error.to_string()))?;
    if read.is_empty() { Err(refused(path, "no certificate in it")) } else { Ok(read) }
}

/// The first private key in a PEM file, in any of its forms.
fn key_of_pem(
    path: &Path,
    bytes: &[u8],
    password: &mut Password<'_>,
) -> Result<PrivateKeyDer<'static>, GetError> {
    let text = String::from_utf8_lossy(bytes);
    if text.contains("Proc-Type: 4,ENCRYPTED") {
        // OpenSSL's own form, by one round of MD5: no library of ours reads it.
        return Err(refused(
            path,
            "its private key is encrypted in an unsafe form; openssl pkcs8 -topk8 -in FILE -out NEW.pem \
             makes one that weir reads",
        ));
    }
    const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
    if let Some((_, rest)) = text.split_once(BEGIN) {
        let body: String = rest.split("-----END").next().unwrap_or_default().split_whitespace().collect();
        let der = STANDARD.decode(body).map_err(|_| refused(path, "its private key is not base64"))?;
        return unlock(path, &der, password);
    }
    PrivateKeyDer::from_pem_slice(bytes)
        .map_err(|_| refused(path, "no private key in PEM form in it; --key FILE names another file"))
}

fn key_of_der(
    path: &Path,
    bytes: &[u8],
    password: &mut Password<'_>,
) -> Result<PrivateKeyDer<'static>, GetError> {
    match PrivateKeyDer::try_from(bytes) {
        Ok(key) => Ok(key.clone_key()),
        Err(_) if EncryptedPrivateKeyInfoRef::try_from(bytes).is_ok() => unlock(path, bytes, password),
        Err(_) => Err(refused(path, "no private key in it")),
    }
}

/// An encrypted PKCS#8 key (RFC 5958 section 3).
fn unlock(path: &Path, der: &[u8], password: &mut Password<'_>) -> Result<PrivateKeyDer<'static>, GetError> {
    let locked = EncryptedPrivateKeyInfoRef::try_from(der)
        .map_err(|error| refused(path, &format!("its private key cannot be read ({error})")))?;
    let given = password(&path.display().to_string())
        .ok_or_else(|| refused(path, "its private key is locked; --pass-file FILE holds its password"))?;
    let key = locked.decrypt(given).map_err(|error| {
        let way_out = "openssl pkcs8 -topk8 -in FILE -out NEW.pem makes a form that is";
        refused(
            path,
            &format!(
                "wrong password for its private key, or a form that is not known here ({error}); {way_out}"
            ),
        )
    })?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}

thread_local! {
    /// A server has asked this thread for a certificate. Sessions are driven by the thread that owns them.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// Forgets that a server has asked; returns whether one had.
pub(crate) fn take_asked() -> bool {
    ASKED.take()
}

/// Shows the user's certificate, if there is one, and notes that a server asked for it.
#[derive(Debug)]
pub struct Shown(pub Option<Arc<CertifiedKey>>);

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        ASKED.set(true);
        self.0.clone()
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}
