//! The SDK's client, made of what the operator said and what AWS's chain finds for the rest.
//!
//! Everything that the SDK does on its own account is turned off: its retries, because the engine's
//! policies decide about those, and its watch over slow streams, because it would turn a yes whose
//! body dawdles into a failure. What the environment says about proxies holds, as in every program that
//! uses the SDK.

use aws_config::profile::ProfileFileCredentialsProvider;
use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::config::retry::RetryConfig;
use aws_sdk_sesv2::config::timeout::TimeoutConfig;
use aws_sdk_sesv2::config::{
    BehaviorVersion, Builder, Credentials, Region, SharedCredentialsProvider, StalledStreamProtectionConfig,
};
use recado_core::Fault;

use crate::config::{SesConfig, SesCredentials};
use crate::keys::KnownKeys;

/// The SDK's name for the source of credentials.
const CREDENTIALS_SOURCE: &str = "recado";

/// Makes a client. It looks a region up if none was given; credentials are looked up when first needed.
pub(crate) async fn connect(config: &SesConfig, known: &KnownKeys) -> Result<Client, Fault> {
    let (mut builder, source) = match (&config.region, &config.credentials) {
        (Some(region), Some(credentials)) => {
            let builder = Builder::new().behavior_version(BehaviorVersion::latest());
            (builder.region(Region::new(region.clone())), Some(fixed(credentials)))
        }
        _ => {
            let found = from_chain(config).await?;
            (Builder::from(&found), found.credentials_provider())
        }
    };
    builder.set_credentials_provider(source.map(|source| known.of(source)));
    let mut timeouts = TimeoutConfig::builder().connect_timeout(config.connect_timeout);
    timeouts.set_read_timeout(config.read_timeout);
    let mut builder = builder
        .retry_config(RetryConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .timeout_config(timeouts.build());
    if let Some(url) = &config.endpoint_url {
        builder.set_endpoint_url(Some(url.to_string()));
    }
    Ok(Client::from_conf(builder.build()))
}

async fn from_chain(config: &SesConfig) -> Result<aws_config::SdkConfig, Fault> {
    let mut loader = aws_config::defaults(BehaviorVersion::latest());
    if let Some(region) = &config.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(profile) = &config.profile {
        let credentials = ProfileFileCredentialsProvider::builder().profile_name(profile).build();
        loader = loader.profile_name(profile).credentials_provider(credentials);
    }
    if let Some(credentials) = &config.credentials {
        loader = loader.credentials_provider(fixed(credentials));
    }
    let found = loader.load().await;
    if found.region().is_none() {
        return Err(Fault::answer(
            "RegionNotFound",
            "no AWS region is known; write `region`, or set AWS_REGION or the profile's region",
        ));
    }
    Ok(found)
}

fn fixed(credentials: &SesCredentials) -> SharedCredentialsProvider {
    let SesCredentials { access_key_id, secret_access_key, session_token } = credentials.clone();
    let keys = Credentials::new(access_key_id, secret_access_key, session_token, None, CREDENTIALS_SOURCE);
    SharedCredentialsProvider::new(keys)
}
