//! TLS settings that trust the system's certificate authorities.

use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, Error};
use rustls_platform_verifier::Verifier;

/// Returns the settings of all connections that the system's authorities vouch for. They are made once: reading the
/// authorities takes milliseconds, and a configuration may have thousands of providers.
pub fn system_config() -> Result<Arc<ClientConfig>, Error> {
    static SHARED: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    match SHARED.get() {
        Some(shared) => Ok(shared.clone()),
        None => {
            let made = Arc::new(config_trusting(Vec::new())?);
            Ok(SHARED.get_or_init(|| made).clone())
        }
    }
}

/// Returns settings that trust these authorities beside the system's.
pub fn config_trusting(roots: Vec<CertificateDer<'static>>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Verifier::new_with_extra_roots(roots, Arc::clone(&provider))?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_authorities_are_read_once() {
        let (one, other) = (system_config().expect("authorities"), system_config().expect("authorities"));
        assert!(Arc::ptr_eq(&one, &other));
    }
}
