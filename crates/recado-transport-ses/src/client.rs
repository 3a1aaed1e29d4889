//! The way to one SES account: its address, its keys and the pool of connections.
//!
//! Region, address and keys are those of the configuration; AWS's chain finds the rest. What the environment says
//! about proxies holds, as in every program that speaks to AWS.

use std::time::{Duration, UNIX_EPOCH};

use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use http::header::{HeaderName, HeaderValue};
use recado_core::{Fault, NetworkKind, Timestamp};
use recado_transport::Url;
use recado_transport::http::{HttpClient, Request};

use crate::config::{SesConfig, SesCredentials};
use crate::connector::ChainClient;
use crate::endpoint;
use crate::keys::Keys;

/// AWS's name of the service in a signature.
const SIGNING_NAME: &str = "ses";
const SEND_PATH: [&str; 3] = ["v2", "email", "outbound-emails"];
/// The credentials' name for their own source.
const CREDENTIALS_SOURCE: &str = "recado";

#[derive(Debug)]
pub(crate) struct Client {
    pub http: HttpClient,
    pub keys: Keys,
    region: String,
    url: Url,
}

impl Client {
    /// Makes a client. It looks a region up if none was given; keys are looked up when first needed.
    pub async fn connect(config: &SesConfig) -> Result<Self, Fault> {
        let (region, source, found) = match (&config.region, &config.credentials) {
            (Some(region), Some(credentials)) => (region.clone(), Some(fixed(credentials)), None),
            _ => {
                let found = from_chain(config).await;
                let region = found.region().ok_or_else(no_region)?.to_string();
                (region, found.credentials_provider(), Some(found))
            }
        };
        let address = match &config.endpoint_url {
            Some(url) => Ok(url.clone()),
            None => endpoint::of_region(&region, found.as_ref()),
        };
        let http =
            HttpClient::new(config.connect_timeout, config.answer_wait).map_err(|error| unusable(&error))?;
        Ok(Client {
            http: http.with_environment_proxies(),
            keys: Keys::new(source.ok_or_else(no_source)?),
            region,
            url: send_url(address?),
        })
    }

    /// Makes the signed request for `body`, with the keys of this moment.
    pub fn request(&self, body: Vec<u8>, keys: Credentials, now: Timestamp) -> Result<Request, Fault> {
        let mut request = Request::json(self.url.clone(), body);
        let unsignable = || Fault::invalid_payload("no request can be made of this data");
        let identity = keys.into();
        let since_epoch = Duration::from_millis(now.as_millis().try_into().unwrap_or_default());
        let params = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(SIGNING_NAME)
            .time(UNIX_EPOCH + since_epoch)
            .settings(SigningSettings::default())
            .build()
            .map_err(|_| unsignable())?
            .into();
        let headers =
            request.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let body = SignableBody::Bytes(&request.body);
        let signable = SignableRequest::new(request.method.as_str(), request.url.as_str(), headers, body);
        let signed = sign(signable.map_err(|_| unsignable())?, &params).map_err(|_| unsignable())?;
        for header in signed.into_parts().0.into_parts().0 {
            let mut value = HeaderValue::from_str(header.value()).map_err(|_| unsignable())?;
            value.set_sensitive(header.sensitive());
            request.headers.insert(HeaderName::from_static(header.name()), value);
        }
        Ok(request)
    }
}

async fn from_chain(config: &SesConfig) -> SdkConfig {
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(ChainClient);
    if let Some(region) = &config.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(profile) = &config.profile {
        let chain = ProviderConfig::default().with_http_client(ChainClient);
        let credentials = ProfileFileCredentialsProvider::builder().configure(&chain).profile_name(profile);
        loader = loader.profile_name(profile).credentials_provider(credentials.build());
    }
    if let Some(credentials) = &config.credentials {
        loader = loader.credentials_provider(fixed(credentials));
    }
    loader.load().await
}

fn fixed(credentials: &SesCredentials) -> SharedCredentialsProvider {
    let SesCredentials { access_key_id, secret_access_key, session_token } = credentials.clone();
    let keys = Credentials::new(access_key_id, secret_access_key, session_token, None, CREDENTIALS_SOURCE);
    SharedCredentialsProvider::new(keys)
}

fn send_url(mut address: Url) -> Url {
    if let Ok(mut path) = address.path_segments_mut() {
        path.pop_if_empty().extend(SEND_PATH);
    }
    address
}

fn no_region() -> Fault {
    Fault::answer(
        "RegionNotFound",
        "no AWS region is known; write `region`, or set AWS_REGION or the profile's region",
    )
}

fn no_source() -> Fault {
    Fault::answer(
        "CredentialsNotFound",
        "no AWS credentials were found; write them, or give the process a role",
    )
}

fn unusable(error: &rustls::Error) -> Fault {
    Fault::network(NetworkKind::Tls, &format!("no connection to SES can be made: {error}"))
}
