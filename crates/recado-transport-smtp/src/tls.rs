//! Trust in the relay's certificate.

use std::sync::Arc;

use recado_transport::tls;
use tokio_rustls::TlsConnector;
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
            roots if roots.is_empty() => tls::system_config(),
            roots => tls::config_trusting(roots).map(Arc::new),
        };
        let client = client.map_err(|error| ConfigError::TlsSetUp(error.to_string()))?;
        Ok(Tls { connector: TlsConnector::from(client), server_name })
    }
}

/// Reports a host that no certificate could name and roots that are none.
pub(crate) fn check(config: &SmtpConfig) -> Result<(), ConfigError> {
    ServerName::try_from(config.host.clone()).map_err(|_| ConfigError::ServerName)?;
    trusted_roots(config.trusted_roots_pem.as_deref()).map(drop)
}

fn trusted_roots(pem: Option<&str>) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let Some(pem) = pem else { return Ok(Vec::new()) };
    let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match roots {
        Ok(roots) if !roots.is_empty() => Ok(roots),
        _ => Err(ConfigError::TrustedRoots),
    }
}
