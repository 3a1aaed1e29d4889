//! Channels: how a person is told.

use recado_core::RouteName;
use recado_engine::notify::notices::{Channel, Notices, Shape};
use recado_engine::{Carrier, Route};
use recado_transport::Url;
use recado_transport_webhook::{NotASecret, Secret};

use super::RouteConfig;
use super::alerts::OWN_CHANNEL;
use super::fault::At;
use super::providers::Given;
use super::raw::RawChannel;
use super::reader::FaultList;
use super::routes::check_channel;
use crate::catalogue::Kind;

/// All that is said about channels.
pub struct Asked {
    pub channels: Vec<(String, RawChannel)>,
    /// The one that `[alerts]` makes for itself.
    pub of_alerts: Option<RawChannel>,
    pub dlq: Option<At<String>>,
    pub alerts: Vec<At<String>>,
}

pub fn resolve(asked: Asked, routes: &[RouteConfig], given: &Given, faults: &FaultList) -> Notices {
    let Asked { mut channels, of_alerts, dlq, alerts } = asked;
    let names: Vec<_> = channels.iter().map(|(name, _)| name.clone()).collect();
    for said in dlq.iter().chain(&alerts) {
        check_channel(said, &names, faults);
    }
    let mut heard_by: Vec<Box<str>> = alerts.into_iter().map(|said| said.value.into()).collect();
    if let Some(own) = of_alerts {
        if names.iter().any(|name| name == OWN_CHANNEL) {
            let message = format!(
                "the webhook makes a channel `{OWN_CHANNEL}`; give [notify.{OWN_CHANNEL}] another name"
            );
            faults.borrow_mut().push(own.here.fault(message));
        }
        heard_by.push(OWN_CHANNEL.into());
        channels.push((OWN_CHANNEL.to_owned(), own));
    }
    let read = |(name, raw): (String, RawChannel)| {
        let channel = channel(&name, &raw, routes, given, faults)?;
        Some((name.into(), channel))
    };
    Notices {
        channels: channels.into_iter().filter_map(read).collect(),
        default: dlq.map(|said| said.value.into()),
        alerts: heard_by,
    }
}

fn channel(
    name: &str,
    raw: &RawChannel,
    routes: &[RouteConfig],
    given: &Given,
    faults: &FaultList,
) -> Option<Channel> {
    let fault = |fault| faults.borrow_mut().push(fault);
    match (&raw.webhook, &raw.to) {
        (Some(url), None) => {
            let route = carried(routes, raw.route.as_ref(), |kind| kind == Kind::Webhook);
            let Some(route) = route else {
                fault(raw.here.fault("no route delivers webhooks; give one transport = \"webhook\""));
                return None;
            };
            let address = url.value.parse::<Url>();
            let address = address.map_err(|_| "is not a web address; write https://…".to_owned());
            let checked = address.and_then(|address| {
                given.guard.check_url(&address).map(|()| address).map_err(|refusal| refusal.to_string())
            });
            let address = checked.map_err(|why| fault(url.fault(why))).ok()?;
            let shape = raw.format.as_ref().map_or(Shape::Event, |said| said.value);
            let key = match &raw.secret {
                Some(secret) => {
                    let key = secret.value.parse();
                    key.map_err(|error: NotASecret| fault(secret.fault(error.to_string()))).ok()?
                }
                // Without a configured secret, the signature is made with a random one.
                None if shape == Shape::Slack || name == OWN_CHANNEL => Secret::generate(random()),
                None => {
                    fault(raw.here.fault(
                        "a webhook must be signed; write secret = \"${OPS_WEBHOOK_SECRET}\" \
                         (`whsec_` and then 24 to 64 bytes in base64), or format = \"slack\"",
                    ));
                    return None;
                }
            };
            let endpoint = format!("notify-{name}");
            given.endpoints.fix(&endpoint, address, key);
            Some(Channel::Webhook { route: route.name.clone(), endpoint: endpoint.into(), shape })
        }
        (None, Some(to)) => {
            let Some(from) = &raw.from else {
                fault(raw.here.fault("an e-mail needs a sender; write from = \"recado@example.com\""));
                return None;
            };
            let email = |kind| matches!(kind, Kind::Smtp | Kind::Ses);
            let Some(route) = carried(routes, raw.route.as_ref(), email) else {
                let here = raw.route.as_ref().map_or_else(|| raw.here.clone(), |said| said.clone().map(drop));
                fault(here.fault(
                    "no such route delivers e-mail yet; give one a provider, such as [providers.smtp] with url = \"smtp://…\"",
                ));
                return None;
            };
            let addresses: Vec<_> = to.value.iter().map(|said| said.value.as_str()).collect();
            let data =
                serde_json::json!({ "from": from.value, "to": addresses, "subject": "x", "text": "x" });
            check(route, &data, to, "/to", faults)?;
            Some(Channel::Email {
                route: route.name.clone(),
                from: from.value.as_str().into(),
                to: addresses.into_iter().map(Into::into).collect(),
            })
        }
        (Some(both), Some(_)) => {
            fault(both.fault("a webhook stands beside `to`; make two channels of it"));
            None
        }
        (None, None) => {
            fault(raw.here.fault("the channel leads nowhere; write webhook = \"https://…\", or from and to"));
            None
        }
    }
}

fn random() -> [u8; 32] {
    let halves = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()];
    std::array::from_fn(|at| halves[at / 16].as_bytes()[at % 16])
}

/// The route that was named, or the first of its kind, if this process carries it.
fn carried<'a>(
    routes: &'a [RouteConfig],
    named: Option<&At<String>>,
    fits: impl Fn(Kind) -> bool,
) -> Option<&'a Route> {
    let wanted = |name: &RouteName| named.is_none_or(|said| said.value == name.as_str());
    let carried = |config: &&RouteConfig| {
        matches!(config.route.carrier, Carrier::Transport(_)) && wanted(&config.route.name)
    };
    // A sandboxed route stands in for any.
    let fits = |config: &&RouteConfig| fits(config.kind) || (named.is_some() && config.kind == Kind::Sandbox);
    routes.iter().filter(carried).find(fits).map(|config| &config.route)
}

/// A notice that could not be delivered had better be found now.
fn check<T: Clone>(
    route: &Route,
    data: &serde_json::Value,
    said: &At<T>,
    pointer: &str,
    faults: &FaultList,
) -> Option<()> {
    let Err(found) = route.check(&recado_core::Payload::trusted(data.to_string())) else { return Some(()) };
    for one in found {
        let field = if one.pointer.starts_with(pointer) { "" } else { one.pointer.as_str() };
        let message = format!("{field} {}", one.message);
        faults.borrow_mut().push(said.clone().map(drop).fault(message.trim().to_owned()));
    }
    None
}
