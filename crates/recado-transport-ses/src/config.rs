//! Configuration of an SES account, and its faults.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use recado_core::CompanyId;
use recado_transport::Url;

use crate::request::{COMPANY_TAG, JOB_TAG};

const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
const ANSWER_WAIT_DEFAULT: Duration = Duration::from_secs(5);
const REGION_LEN_MAX_BYTES: usize = 64;
const TAG_LEN_MAX_BYTES: usize = 256;
const CONFIGURATION_SET_LEN_MAX_BYTES: usize = 64;

/// Settings of SES. AWS's own chain finds those that are left out: environment, profile, container, instance.
#[derive(Clone)]
pub struct SesConfig {
    pub region: Option<String>,
    /// Another address than the region's own: a VPC endpoint, or a stand-in for tests.
    pub endpoint_url: Option<Url>,
    /// A profile of the AWS configuration files. What it says about credentials comes before the chain.
    pub profile: Option<String>,
    /// Fixed credentials. With these and a region, nothing is looked up anywhere.
    pub credentials: Option<SesCredentials>,
    /// The configuration set of every company that has none of its own.
    pub configuration_set: Option<String>,
    pub configuration_sets: BTreeMap<CompanyId, String>,
    /// Message tags for every e-mail, beside the company's and the job's.
    pub tags: BTreeMap<String, String>,
    pub content: Content,
    /// Bounds name lookup, TCP and TLS together.
    pub connect_timeout: Duration,
    /// Bounds the wait for an answer's body once its status is known: the status alone tells whether SES
    /// took it, and a body that never ends must not turn a yes into a timeout.
    pub answer_wait: Duration,
}

/// Keys from the configuration, rather than from AWS's chain.
#[derive(Clone)]
pub struct SesCredentials {
    pub access_key_id: String,
    pub secret_access_key: String,
    pub session_token: Option<String>,
}

/// The composer of the message: SES or Recado.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// SES if it can, Recado otherwise.
    #[default]
    Auto,
    /// Recado, always.
    Raw,
    /// SES, always: an e-mail with attachments or headers of its own is refused.
    Simple,
}

impl Default for SesConfig {
    fn default() -> Self {
        SesConfig {
            region: None,
            endpoint_url: None,
            profile: None,
            credentials: None,
            configuration_set: None,
            configuration_sets: BTreeMap::new(),
            tags: BTreeMap::new(),
            content: Content::Auto,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            answer_wait: ANSWER_WAIT_DEFAULT,
        }
    }
}

impl SesConfig {
    /// Reports the first reason why SES could not be reached with it. Opens nothing.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.endpoint_url.as_ref().map_or(Ok(()), check_url)?;
        if self.region.as_ref().is_some_and(|region| !is_plain(region, REGION_LEN_MAX_BYTES)) {
            return Err(ConfigError::Region);
        }
        if let Some(credentials) = &self.credentials {
            if self.profile.is_some() {
                return Err(ConfigError::TwoCredentials);
            }
            credentials.check()?;
        }
        let sets = self.configuration_set.iter().chain(self.configuration_sets.values());
        for set in sets {
            if !is_plain(set, CONFIGURATION_SET_LEN_MAX_BYTES) {
                return Err(ConfigError::ConfigurationSet(set.clone()));
            }
        }
        for (name, value) in &self.tags {
            let why = match &**name {
                COMPANY_TAG | JOB_TAG => "is set by the transport itself; leave it out",
                name if !is_plain(name, TAG_LEN_MAX_BYTES) => "has a name that SES does not take",
                _ if !is_plain(value, TAG_LEN_MAX_BYTES) => "has a value that SES does not take",
                _ => continue,
            };
            return Err(ConfigError::Tag { name: name.clone(), why });
        }
        Ok(())
    }

    pub(crate) fn configuration_set(&self, company: &CompanyId) -> Option<String> {
        self.configuration_sets.get(company).or(self.configuration_set.as_ref()).cloned()
    }
}

impl SesCredentials {
    fn check(&self) -> Result<(), ConfigError> {
        let given = [
            ("access key id", Some(&self.access_key_id)),
            ("secret access key", Some(&self.secret_access_key)),
            ("session token", self.session_token.as_ref()),
        ];
        let blank = |text: &String| text.is_empty() || text.contains(char::is_whitespace);
        match given.into_iter().find(|(_, value)| value.is_some_and(blank)) {
            Some((name, _)) => Err(ConfigError::Credentials(name)),
            None => Ok(()),
        }
    }
}

/// The characters that AWS takes in tags and in names of configuration sets and regions.
pub(crate) fn is_plain_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn is_plain(text: &str, max_bytes: usize) -> bool {
    (1..=max_bytes).contains(&text.len()) && text.chars().all(is_plain_character)
}

fn check_url(url: &Url) -> Result<(), ConfigError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(ConfigError::Scheme(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ConfigError::UserInfo);
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(ConfigError::QueryOrFragment);
    }
    Ok(())
}

/// Shows where it leads and whose name it goes by, and no key.
impl fmt::Debug for SesConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SesConfig")
            .field("region", &self.region)
            .field("host", &self.endpoint_url.as_ref().and_then(|url| url.host_str()))
            .field("profile", &self.profile)
            .field("credentials", &self.credentials)
            .field("configuration_set", &self.configuration_set)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SesCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SesCredentials").finish_non_exhaustive()
    }
}

/// The reason why an account's configuration cannot work. It repeats no credential.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("the endpoint's scheme is `{0}`; write http:// or https://")]
    Scheme(String),
    #[error("the endpoint holds a user or a password; give the keys as credentials")]
    UserInfo,
    #[error("the endpoint has a query or a fragment; write it without")]
    QueryOrFragment,
    #[error("the region is not a name of AWS's; write one, such as sa-east-1, or leave it out for the chain")]
    Region,
    #[error("the {0} is empty or holds white space; write it as AWS shows it")]
    Credentials(&'static str),
    #[error("both a profile and credentials are given; keep one of them")]
    TwoCredentials,
    #[error("configuration set `{0}` is not a name that SES takes; write 1 to 64 letters, digits, _ and -")]
    ConfigurationSet(String),
    #[error("tag `{name}` {why}; write 1 to 256 letters, digits, _ and -")]
    Tag { name: String, why: &'static str },
}
