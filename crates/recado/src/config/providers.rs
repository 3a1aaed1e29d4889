//! Providers: where they are and who goes there.

use std::sync::Arc;

use recado_transport::{ConfigError, Evolution, EvolutionConfig, Http, HttpConfig, Transport, Url};

use super::fault::At;
use super::raw::RawProvider;
use super::reader::FaultList;
use super::{Provider, Secret, routes};
use crate::catalogue::{self, Kind};

pub fn resolve(name: &str, raw: RawProvider, faults: &FaultList) -> Provider {
    let fault = |fault| faults.borrow_mut().push(fault);
    let built_in = catalogue::ROUTES.iter().find(|row| row.provider == name).map(|row| row.kind);
    let kind = raw
        .transport
        .as_ref()
        .map_or(built_in.filter(|kind| kind.needs_address()).unwrap_or(Kind::Http), |said| said.value);
    if let Some(said) = raw.transport.as_ref().filter(|said| !said.value.needs_address()) {
        fault(said.fault(match said.value {
            Kind::Worker | Kind::Sandbox => format!(
                "transport \"{0}\" needs no provider; write transport = \"{0}\" in the route",
                said.value.as_str()
            ),
            unbuilt => routes::not_in_this_build(unbuilt),
        }));
    }
    if kind != Kind::Whatsapp {
        for said in [&raw.instance, &raw.api_key].into_iter().flatten() {
            let message = "only transport \"whatsapp\" has this; write credentials as headers, such as headers = \
                           { Authorization = \"Bearer ${API_TOKEN}\" }";
            fault(said.fault(message));
        }
    }
    let reaching = !raw.headers.is_empty() || raw.api_key.is_some() || raw.transport.is_some();
    if raw.url.is_none() && reaching {
        fault(raw.here.fault("the provider has no address; write url = \"https://…\""));
    }
    let url = raw.url.as_ref().and_then(|said| match said.value.0.parse::<Url>() {
        Ok(url) => Some((url, said.value.1.clone().unwrap_or_else(|| said.value.0.clone()))),
        Err(_) => {
            fault(said.fault("this is not a web address; write one that begins with https:// or http://"));
            None
        }
    });
    let transport =
        url.as_ref().filter(|_| kind.needs_address()).and_then(|(url, _)| transport(kind, url, &raw, faults));
    Provider {
        kind,
        url,
        headers: raw.headers.into_iter().map(|(name, value)| (name, Secret::new(value.value))).collect(),
        connect_timeout: raw.connect_timeout.map(|said| said.value),
        concurrency: raw.concurrency.and_then(|said| usize::try_from(said.value).ok()),
        instance: raw.instance.map(|said| said.value),
        api_key: raw.api_key.map(|said| Secret::new(said.value)),
        transport,
    }
}

/// The client of a provider that has an address. One serves all its routes.
fn transport(kind: Kind, url: &Url, raw: &RawProvider, faults: &FaultList) -> Option<Arc<dyn Transport>> {
    let http = |config: HttpConfig| {
        let config =
            raw.headers.iter().fold(config, |config, (name, value)| config.with_header(name, &value.value));
        let connect_timeout = raw.connect_timeout.as_ref().map_or(config.connect_timeout, |said| said.value);
        HttpConfig { connect_timeout, ..config }
    };
    let built: Result<Arc<dyn Transport>, ConfigError> = if kind == Kind::Whatsapp {
        let Some(key) = &raw.api_key else {
            let message = "the Evolution API wants a key; write api_key = \"${EVOLUTION_API_KEY}\"";
            faults.borrow_mut().push(raw.here.fault(message));
            return None;
        };
        let EvolutionConfig { http: config, .. } = EvolutionConfig::new(url.clone(), &key.value);
        let instance = raw.instance.as_ref().map(|said| said.value.clone());
        Evolution::new(EvolutionConfig { http: http(config), instance }).map(|it| Arc::new(it) as _)
    } else {
        Http::new(http(HttpConfig::new(url.clone()))).map(|it| Arc::new(it) as _)
    };
    built.map_err(|error| faults.borrow_mut().push(place_of(&error, raw).fault(error.to_string()))).ok()
}

fn place_of(error: &ConfigError, raw: &RawProvider) -> At<()> {
    let url = || raw.url.clone().map(|said| said.map(drop));
    let place = match error {
        ConfigError::Scheme(_) | ConfigError::UserInfo | ConfigError::QueryOrFragment => url(),
        ConfigError::Header { name, .. } => {
            let header = raw.headers.iter().find(|(header, _)| header == name);
            header
                .map(|(_, value)| value.clone().map(drop))
                .or_else(|| raw.api_key.clone().map(|said| said.map(drop)))
        }
        ConfigError::Instance(_) => raw.instance.clone().map(|said| said.map(drop)),
        ConfigError::Client(_) => url(),
    };
    place.unwrap_or_else(|| raw.here.clone())
}
