//! Providers: where they are and who goes there.

use std::fmt::Display;
use std::sync::Arc;

use recado_engine::notify::endpoints::EndpointRegistry;
use recado_transport::{ConfigError, Evolution, EvolutionConfig, Http, HttpConfig, Transport, Url};
use recado_transport_smtp::{Smtp, SmtpConfig};
use recado_transport_webhook::{Guard, Webhook, WebhookConfig};

use super::fault::At;
use super::raw::{OWN_KEYS, RawProvider};
use super::reader::FaultList;
use super::show::{duration, key, text};
use super::{Provider, routes};
use crate::catalogue::{self, CONCURRENCY_DEFAULT, Kind};

/// Parts that transports share with the rest of the process.
pub struct Given {
    pub guard: Guard,
    pub endpoints: Arc<EndpointRegistry>,
}

/// One provider as it was written, while its transport is built.
struct Builder<'a> {
    raw: &'a RawProvider,
    faults: &'a FaultList,
    concurrency: usize,
}

pub fn resolve(name: &str, raw: &RawProvider, given: &Given, faults: &FaultList) -> Provider {
    let row = catalogue::ROUTES.iter().find(|row| row.provider == name);
    let concurrency = raw.concurrency.as_ref().and_then(|said| usize::try_from(said.value).ok());
    let builder = Builder {
        raw,
        faults,
        concurrency: concurrency.or(row.map(|row| row.concurrency)).unwrap_or(CONCURRENCY_DEFAULT),
    };
    let kind = builder.kind(row.map(|row| row.kind));
    builder.refuse_keys_of_others(kind);
    let mut webhook = None;
    let transport = match kind {
        Kind::Smtp => builder.smtp(),
        Kind::Ses => builder.ses(),
        Kind::Http => builder.http(),
        Kind::Whatsapp => builder.evolution(),
        Kind::Webhook => {
            webhook = builder.webhook(given);
            webhook.clone().map(|webhook| webhook as Arc<dyn Transport>)
        }
        Kind::Worker | Kind::Sandbox => None,
    };
    Provider { kind, shown: builder.shown(kind), transport, webhook }
}

/// Webhooks need nothing but endpoints, which are no matter of configuration.
pub fn webhook_by_default(given: &Given) -> Provider {
    let config = WebhookConfig { guard: given.guard.clone(), ..WebhookConfig::default() };
    let webhook = Webhook::new(config, given.endpoints.clone()).ok().map(Arc::new);
    Provider {
        kind: Kind::Webhook,
        shown: vec![("transport", text(Kind::Webhook.as_str()))],
        transport: webhook.clone().map(|webhook| webhook as Arc<dyn Transport>),
        webhook,
    }
}

impl Builder<'_> {
    fn fault(&self, at: &At<impl Clone>, message: impl Display) {
        self.faults.borrow_mut().push(at.clone().map(drop).fault(message.to_string()));
    }

    fn own(&self, key: &str) -> Option<&At<String>> {
        self.raw.own.get(key)
    }

    fn own_text(&self, key: &str) -> Option<String> {
        self.own(key).map(|said| said.value.clone())
    }

    /// Its own kind, else the one of its address, else the one of the built-in route of that name.
    fn kind(&self, built_in: Option<Kind>) -> Kind {
        if let Some(said) = &self.raw.transport {
            let word = said.value.as_str();
            match said.value {
                Kind::Worker | Kind::Sandbox => self.fault(
                    said,
                    format!(
                        "transport \"{word}\" needs no provider; write transport = \"{word}\" in the route"
                    ),
                ),
                unbuilt if !unbuilt.is_built() => self.fault(said, routes::not_in_this_build(unbuilt)),
                _ => {}
            }
            return said.value;
        }
        let scheme = self.raw.url.as_ref().and_then(|said| said.value.0.split_once("://"));
        match (scheme, built_in) {
            (Some(("smtp" | "smtps", _)), _) => Kind::Smtp,
            (_, Some(kind)) if kind.needs_provider() || kind == Kind::Webhook => kind,
            _ => Kind::Http,
        }
    }

    fn refuse_keys_of_others(&self, kind: Kind) {
        for (key, owner, _) in OWN_KEYS.iter().filter(|(_, owner, _)| *owner != kind) {
            let Some(said) = self.own(key) else { continue };
            let advice = match kind {
                Kind::Http => {
                    "write credentials as headers, such as headers = { Authorization = \"Bearer ${API_TOKEN}\" }"
                }
                _ => "take it out",
            };
            self.fault(said, format!("only transport \"{}\" has this; {advice}", owner.as_str()));
        }
        let others = [
            (self.raw.headers.first(), matches!(kind, Kind::Http | Kind::Whatsapp), "http"),
            (self.raw.tags.first(), kind == Kind::Ses, "ses"),
            (self.raw.configuration_sets.first(), kind == Kind::Ses, "ses"),
        ];
        for (said, fits, owner) in others {
            if let (Some((_, said)), false) = (said, fits) {
                self.fault(said, format!("only transport \"{owner}\" has this; take it out"));
            }
        }
        if let (Some(said), true) = (&self.raw.url, kind == Kind::Webhook) {
            self.fault(said, "webhooks go to their endpoints, not to one address; take it out");
        }
    }

    /// A provider without an address is allowed: it may carry a worker's routes.
    fn address(&self, example: &str) -> Option<&At<(String, Option<String>)>> {
        let raw = self.raw;
        let reaching = !raw.headers.is_empty() || !raw.own.is_empty() || raw.transport.is_some();
        if raw.url.is_none() && reaching {
            self.fault(&raw.here, format!("the provider has no address; write url = \"{example}\""));
        }
        raw.url.as_ref()
    }

    fn web_address(&self) -> Option<Url> {
        let said = self.address("https://…")?;
        let url = said.value.0.parse();
        url.map_err(|_| {
            self.fault(said, "this is not a web address; write one that begins with https:// or http://");
        })
        .ok()
    }

    fn http_config(&self, config: HttpConfig) -> HttpConfig {
        let headers = self.raw.headers.iter();
        let config = headers.fold(config, |config, (name, value)| config.with_header(name, &value.value));
        let said = self.raw.connect_timeout.as_ref();
        HttpConfig { connect_timeout: said.map_or(config.connect_timeout, |said| said.value), ..config }
    }

    fn http(&self) -> Option<Arc<dyn Transport>> {
        let config = self.http_config(HttpConfig::new(self.web_address()?));
        self.built(Http::new(config))
    }

    fn evolution(&self) -> Option<Arc<dyn Transport>> {
        let url = self.web_address()?;
        let Some(api_key) = self.own("api_key") else {
            self.fault(
                &self.raw.here,
                "the Evolution API wants a key; write api_key = \"${EVOLUTION_API_KEY}\"",
            );
            return None;
        };
        let EvolutionConfig { http, .. } = EvolutionConfig::new(url, &api_key.value);
        self.built(Evolution::new(EvolutionConfig {
            http: self.http_config(http),
            instance: self.own_text("instance"),
        }))
    }

    fn built<T: Transport + 'static>(&self, built: Result<T, ConfigError>) -> Option<Arc<dyn Transport>> {
        match built {
            Ok(transport) => Some(Arc::new(transport)),
            Err(error) => {
                self.fault(&self.place_of(&error), error);
                None
            }
        }
    }

    fn place_of(&self, error: &ConfigError) -> At<()> {
        let raw = self.raw;
        let place = match error {
            ConfigError::Header { name, .. } => {
                let header = raw.headers.iter().find(|(header, _)| header == name);
                header.map(|(_, value)| value).or(self.own("api_key")).cloned().map(|said| said.map(drop))
            }
            ConfigError::Instance(_) => self.own("instance").cloned().map(|said| said.map(drop)),
            _ => raw.url.clone().map(|said| said.map(drop)),
        };
        place.unwrap_or_else(|| raw.here.clone())
    }

    fn smtp(&self) -> Option<Arc<dyn Transport>> {
        let said = self.address("smtp://user:${SMTP_PASSWORD}@mail.example.com:587")?;
        let mut config = SmtpConfig::from_url(&said.value.0).map_err(|error| self.fault(said, error)).ok()?;
        config.connections_max = match self.own("connections") {
            None => self.concurrency,
            Some(said) => {
                said.value.parse().ok().filter(|count| (1..=1_000).contains(count)).or_else(|| {
                    self.fault(said, "write a whole number from 1 to 1000");
                    None
                })?
            }
        };
        if let Some(timeout) = &self.raw.connect_timeout {
            config.timeouts.connect = timeout.value;
        }
        if let Some(said) = self.own("hello") {
            config.hello_name = Some(said.value.clone());
        }
        if let Some(said) = self.own("ca_file") {
            let pem = std::fs::read_to_string(&said.value);
            let pem = pem.map_err(|error| self.fault(said, format!("cannot read the file: {error}")));
            config.trusted_roots_pem = Some(pem.ok()?);
        }
        match Smtp::new(config) {
            Ok(transport) => Some(Arc::new(transport)),
            Err(error) => {
                self.fault(said, error);
                None
            }
        }
    }

    #[cfg(feature = "ses")]
    fn ses(&self) -> Option<Arc<dyn Transport>> {
        use recado_core::CompanyId;
        use recado_transport_ses::{Content, Ses, SesConfig, SesCredentials};

        // AWS's own chain may know all the rest, but not that it is to be used.
        if self.raw.own.is_empty() && self.raw.url.is_none() && self.raw.transport.is_none() {
            return None;
        }
        let endpoint_url = match &self.raw.url {
            Some(_) => Some(self.web_address()?),
            None => None,
        };
        let credentials = match (self.own("access_key_id"), self.own("secret_access_key")) {
            (None, None) => None,
            (Some(id), Some(secret)) => Some(SesCredentials {
                access_key_id: id.value.clone(),
                secret_access_key: secret.value.clone(),
                session_token: self.own_text("session_token"),
            }),
            (one, other) => {
                let said = one.or(other)?;
                self.fault(said, "access_key_id and secret_access_key go together; write both, or neither and AWS's own chain finds them");
                return None;
            }
        };
        let content = match self.own("content").map(|said| (said, said.value.as_str())) {
            None | Some((_, "auto")) => Content::Auto,
            Some((_, "raw")) => Content::Raw,
            Some((_, "simple")) => Content::Simple,
            Some((said, _)) => {
                self.fault(said, "write \"auto\", \"raw\" or \"simple\"");
                return None;
            }
        };
        let mut config = SesConfig {
            region: self.own_text("region"),
            endpoint_url,
            profile: self.own_text("profile"),
            credentials,
            configuration_set: self.own_text("configuration_set"),
            tags: self.raw.tags.iter().map(|(name, said)| (name.clone(), said.value.clone())).collect(),
            content,
            ..SesConfig::default()
        };
        for (company, set) in &self.raw.configuration_sets {
            let company = CompanyId::new(company.as_str())
                .map_err(|error| self.fault(set, format!("the company's name {error}")))
                .ok()?;
            config.configuration_sets.insert(company, set.value.clone());
        }
        if let Some(said) = &self.raw.connect_timeout {
            config.connect_timeout = said.value;
        }
        match Ses::new(config) {
            Ok(transport) => Some(Arc::new(transport)),
            Err(error) => {
                self.fault(&self.raw.here, error);
                None
            }
        }
    }

    #[cfg(not(feature = "ses"))]
    fn ses(&self) -> Option<Arc<dyn Transport>> {
        None
    }

    fn webhook(&self, given: &Given) -> Option<Arc<Webhook>> {
        let secret = match self.own("secret") {
            None => None,
            Some(said) => Some(said.value.parse().map_err(|error| self.fault(said, error)).ok()?),
        };
        let mut config = WebhookConfig { guard: given.guard.clone(), secret, ..WebhookConfig::default() };
        if let Some(said) = &self.raw.connect_timeout {
            config.connect_timeout = said.value;
        }
        let webhook = Webhook::new(config, given.endpoints.clone());
        webhook.map(Arc::new).map_err(|error| self.fault(&self.raw.here, error)).ok()
    }

    /// Its keys as a page shows them: secrets are not.
    fn shown(&self, kind: Kind) -> Vec<(&'static str, String)> {
        let raw = self.raw;
        let mut shown = vec![("transport", text(kind.as_str()))];
        let written = raw.url.as_ref().map(|said| match &said.value {
            (_, Some(written)) => written.clone(),
            (url, None) => without_password(url),
        });
        shown.extend(written.map(|url| ("url", text(&url))));
        let table = |values: &[(String, At<String>)], hidden: bool| {
            let line = |(name, said): &(String, At<String>)| {
                format!("{} = {}", key(name), if hidden { text("***") } else { text(&said.value) })
            };
            (!values.is_empty())
                .then(|| format!("{{ {} }}", values.iter().map(line).collect::<Vec<_>>().join(", ")))
        };
        shown.extend(table(&raw.headers, true).map(|line| ("headers", line)));
        for (key, _, _) in OWN_KEYS {
            let hidden =
                ["api_key", "secret", "access_key_id", "secret_access_key", "session_token"].contains(&key);
            shown.extend(self.own(key).map(|said| (key, text(if hidden { "***" } else { &said.value }))));
        }
        shown.extend(table(&raw.tags, false).map(|line| ("tags", line)));
        shown.extend(table(&raw.configuration_sets, false).map(|line| ("configuration_sets", line)));
        shown.extend(raw.connect_timeout.as_ref().map(|said| ("connect_timeout", duration(said.value))));
        shown
    }
}

fn without_password(url: &str) -> String {
    match url.parse::<Url>() {
        Ok(mut parsed) if parsed.password().is_some() => {
            let _ = parsed.set_password(Some("***"));
            parsed.to_string()
        }
        _ => url.to_owned(),
    }
}
