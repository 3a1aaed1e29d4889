//! Providers: the transport that reaches each, as data.

use recado_transport::{ConfigError, EvolutionConfig, HttpConfig, Url};
use recado_transport_smtp::SmtpConfig;
use recado_transport_webhook::{Guard, WebhookConfig};

use crate::catalogue::{self, CONCURRENCY_DEFAULT, Kind};
use crate::keys::provider::{Address, ProviderKeys};
use crate::keys::table::Section;
use crate::reading::checker::{Checker, Scope};
use crate::resolve::routes;
use crate::{Provider, TransportConfig};

/// One provider as it is written, while its transport's configuration is made.
struct ProviderBuilder<'a> {
    /// `providers.<name>`.
    scope: Scope<'a>,
    keys: &'a ProviderKeys,
    concurrency: usize,
    guard: &'a Guard,
}

pub fn resolve(name: &str, keys: &ProviderKeys, guard: &Guard, checker: &Checker) -> Provider {
    let row = catalogue::ROUTES.iter().find(|row| row.provider == name);
    let concurrency = keys.protection.concurrency.or(row.map(|row| row.concurrency));
    let builder = ProviderBuilder {
        scope: checker.scope(format!("providers.{name}")),
        keys,
        concurrency: concurrency.unwrap_or(CONCURRENCY_DEFAULT),
        guard,
    };
    let kind = builder.kind(row.map(|row| row.kind));
    builder.refuse_keys_of_others(kind);
    let transport = match kind {
        Kind::Smtp => builder.smtp(),
        Kind::Ses => builder.ses(),
        Kind::Http => builder.http(),
        Kind::Whatsapp => builder.evolution(),
        Kind::Webhook => builder.webhook(),
        Kind::Worker | Kind::Sandbox => None,
    };
    Provider { kind, transport, is_addressed: keys.url.is_some() || keys.ses.region.is_some() }
}

/// Makes the webhook provider, which needs no configuration: its endpoints are in the store.
pub fn webhook_by_default(guard: &Guard) -> Provider {
    let config = WebhookConfig { guard: guard.clone(), ..WebhookConfig::default() };
    Provider { kind: Kind::Webhook, transport: Some(TransportConfig::Webhook(config)), is_addressed: false }
}

impl ProviderBuilder<'_> {
    /// Its own kind, else the one of its address, else the one of the built-in route of that name.
    fn kind(&self, built_in: Option<Kind>) -> Kind {
        if let Some(kind) = self.keys.transport {
            let word = kind.as_str();
            if matches!(kind, Kind::Worker | Kind::Sandbox) {
                let message = format!(
                    "transport \"{word}\" needs no provider; write transport = \"{word}\" in the route"
                );
                self.scope.fault("transport", message);
            } else if !kind.is_built() {
                self.scope.fault("transport", routes::not_in_this_build(kind));
            }
            return kind;
        }
        let scheme = self.keys.url.as_ref().and_then(|address| address.url.reveal().split_once("://"));
        match (scheme, built_in) {
            (Some(("smtp" | "smtps", _)), _) => Kind::Smtp,
            (_, Some(kind)) if kind.needs_provider() || kind == Kind::Webhook => kind,
            _ => Kind::Http,
        }
    }

    /// Every written key that only one transport has, with that transport.
    fn keys_of_transports(&self) -> impl Iterator<Item = (&'static str, Kind)> {
        let ProviderKeys { whatsapp, smtp, webhook, ses, .. } = self.keys;
        let groups = [
            (whatsapp.rows(), Kind::Whatsapp),
            (smtp.rows(), Kind::Smtp),
            (webhook.rows(), Kind::Webhook),
            (ses.rows(), Kind::Ses),
        ];
        let keys =
            groups.into_iter().flat_map(|(rows, kind)| rows.into_iter().map(move |row| (row.key, kind)));
        keys.filter(|(key, _)| self.scope.has(key))
    }

    fn refuse_keys_of_others(&self, kind: Kind) {
        for (key, owner) in self.keys_of_transports().filter(|(_, owner)| *owner != kind) {
            let is_credential = kind == Kind::Http && !matches!(key, "tags" | "configuration_sets");
            let advice = match is_credential {
                true => {
                    "write credentials as headers, such as headers = { Authorization = \"Bearer ${API_TOKEN}\" }"
                }
                false => "take it out",
            };
            self.scope.fault(key, format!("only transport \"{}\" has this; {advice}", owner.as_str()));
        }
        if self.scope.has("headers") && !matches!(kind, Kind::Http | Kind::Whatsapp) {
            self.scope.fault("headers", "only transports \"http\" and \"whatsapp\" have this; take it out");
        }
        if self.scope.has("url") && kind == Kind::Webhook {
            self.scope.fault("url", "webhooks go to their endpoints, not to one address; take it out");
        }
    }

    /// Its URL. A provider without one is allowed: it may carry a worker's routes.
    fn address(&self, example: &str) -> Option<&Address> {
        let has_others = || ["headers", "transport"].iter().any(|key| self.scope.has(key));
        if !self.scope.has("url") && (self.keys_of_transports().next().is_some() || has_others()) {
            self.scope.fault("", format!("the provider has no address; write url = \"{example}\""));
        }
        self.keys.url.as_ref()
    }

    fn web_address(&self) -> Option<Url> {
        let refusal = "this is not a web address; write one that begins with https:// or http://";
        self.scope.accept("url", self.address("https://…")?.url.reveal().parse().map_err(|_| refusal))
    }

    fn http_config(&self, config: HttpConfig) -> HttpConfig {
        let headers = self.keys.headers.iter().flatten();
        let config = headers.fold(config, |config, (name, value)| config.with_header(name, value.reveal()));
        HttpConfig { connect_timeout: self.keys.connect_timeout.unwrap_or(config.connect_timeout), ..config }
    }

    fn http(&self) -> Option<TransportConfig> {
        let config = self.http_config(HttpConfig::new(self.web_address()?));
        self.report(config.check())?;
        Some(TransportConfig::Http(config))
    }

    fn evolution(&self) -> Option<TransportConfig> {
        let url = self.web_address()?;
        let Some(api_key) = &self.keys.whatsapp.api_key else {
            let message = "the Evolution API wants a key; write api_key = \"${EVOLUTION_API_KEY}\"";
            return self.scope.refuse("", message);
        };
        let EvolutionConfig { http, .. } = EvolutionConfig::new(url, api_key.reveal());
        let config =
            EvolutionConfig { http: self.http_config(http), instance: self.keys.whatsapp.instance.clone() };
        self.report(config.check())?;
        Some(TransportConfig::Whatsapp(config))
    }

    /// Reports what is wrong at the key that it is about.
    fn report(&self, checked: Result<(), ConfigError>) -> Option<()> {
        let key = match &checked {
            Err(ConfigError::Header { name, .. }) => match format!("headers.{name}") {
                header if self.scope.has(&header) => header,
                _ => "api_key".to_owned(),
            },
            Err(ConfigError::Instance(_)) => "instance".to_owned(),
            _ => "url".to_owned(),
        };
        self.scope.accept(&key, checked)
    }

    fn smtp(&self) -> Option<TransportConfig> {
        let address = self.address("smtp://user:${SMTP_PASSWORD}@mail.example.com:587")?;
        let mut config = self.scope.accept("url", SmtpConfig::from_url(address.url.reveal()))?;
        if self.scope.has("connections") && self.keys.smtp.connections.is_none() {
            return None;
        }
        config.connections_max = self.keys.smtp.connections.unwrap_or(self.concurrency);
        config.timeouts.connect = self.keys.connect_timeout.unwrap_or(config.timeouts.connect);
        config.hello_name.clone_from(&self.keys.smtp.hello);
        if let Some(path) = &self.keys.smtp.ca_file {
            let pem = std::fs::read_to_string(path).map_err(|error| format!("cannot read the file: {error}"));
            config.trusted_roots_pem = Some(self.scope.accept("ca_file", pem)?);
        }
        self.scope.accept("url", config.check())?;
        Some(TransportConfig::Smtp(config))
    }

    #[cfg(feature = "ses")]
    fn ses(&self) -> Option<TransportConfig> {
        use recado_core::CompanyId;
        use recado_transport_ses::{Content, SesConfig, SesCredentials};

        use crate::Secret;

        let keys = &self.keys.ses;
        // AWS's own chain may know all the rest, but not that it is to be used.
        let is_used = self.keys_of_transports().next().is_some();
        if !is_used && self.keys.url.is_none() && self.keys.transport.is_none() {
            return None;
        }
        let endpoint_url = match &self.keys.url {
            Some(_) => Some(self.web_address()?),
            None => None,
        };
        let reveal = |secret: &Secret| secret.reveal().to_owned();
        let credentials = match (&keys.access_key_id, &keys.secret_access_key) {
            (None, None) => None,
            (Some(id), Some(secret)) => Some(SesCredentials {
                access_key_id: reveal(id),
                secret_access_key: reveal(secret),
                session_token: keys.session_token.as_ref().map(reveal),
            }),
            (id, _) => {
                let key = if id.is_some() { "access_key_id" } else { "secret_access_key" };
                let message = "access_key_id and secret_access_key go together; write both, or neither and AWS's own chain finds them";
                return self.scope.refuse(key, message);
            }
        };
        let mut config = SesConfig {
            region: keys.region.clone(),
            endpoint_url,
            profile: keys.profile.clone(),
            credentials,
            configuration_set: keys.configuration_set.clone(),
            tags: keys.tags.clone().unwrap_or_default(),
            content: match keys.content {
                Some("raw") => Content::Raw,
                Some("simple") => Content::Simple,
                _ => Content::Auto,
            },
            ..SesConfig::default()
        };
        for (company, set) in keys.configuration_sets.iter().flatten() {
            let known =
                CompanyId::new(company.as_str()).map_err(|error| format!("the company's name {error}"));
            let known = self.scope.accept(&format!("configuration_sets.{company}"), known)?;
            config.configuration_sets.insert(known, set.clone());
        }
        config.connect_timeout = self.keys.connect_timeout.unwrap_or(config.connect_timeout);
        self.scope.accept("", config.check())?;
        Some(TransportConfig::Ses(config))
    }

    #[cfg(not(feature = "ses"))]
    fn ses(&self) -> Option<TransportConfig> {
        None
    }

    fn webhook(&self) -> Option<TransportConfig> {
        let secret = match &self.keys.webhook.secret {
            None => None,
            Some(secret) => Some(self.scope.accept("secret", secret.reveal().parse())?),
        };
        let mut config = WebhookConfig { guard: self.guard.clone(), secret, ..WebhookConfig::default() };
        config.connect_timeout = self.keys.connect_timeout.unwrap_or(config.connect_timeout);
        Some(TransportConfig::Webhook(config))
    }
}
