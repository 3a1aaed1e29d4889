//! Trust in the relay's certificate.

use std::sync::{Arc, OnceLock};

use rustls_platform_verifier::Verifier;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};

use crate::config::{ConfigError, SmtpConfig};

/// The settings that secure a connection to one relay.
pub(crate) struct Tls {
    pub connector: TlsConnector,
    pub server_name: ServerName<'static>,
}

impl Tls {
    /// Certificates are checked as the system checks them, against its authorities and the given ones.
    pub(crate) fn new(config: &SmtpConfig) -> Result<Self, ConfigError> {
        let server_name = ServerName::try_from(config.host.clone()).map_err(|_| ConfigError::ServerName)?;
        let client = match trusted_roots(config.trusted_roots_pem.as_deref())? {
            roots if roots.is_empty() => system_client()?,
            roots => client(roots)?,
        };
        Ok(Tls { connector: TlsConnector::from(client), server_name })
    }
}

/// The settings of all relays that the system's authorities vouch for: reading those takes milliseconds.
fn system_client() -> Result<Arc<ClientConfig>, ConfigError> {
    static SHARED: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    match SHARED.get() {
        Some(shared) => Ok(shared.clone()),
        None => {
            let made = client(Vec::new())?;
            Ok(SHARED.get_or_init(|| made).clone())
        }
    }
}

fn client(roots: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>, ConfigError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let set_up = |error: tokio_rustls::rustls::Error| ConfigError::TlsSetUp(error.to_string());
    let verifier = Verifier::new_with_extra_roots(roots, Arc::clone(&provider)).map_err(set_up)?;
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(set_up)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(Arc::new(client))
}

fn trusted_roots(pem: Option<&str>) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let Some(pem) = pem else { return Ok(Vec::new()) };
    let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match roots {
        Ok(roots) if !roots.is_empty() => Ok(roots),
        _ => Err(ConfigError::TrustedRoots),
    }
}
