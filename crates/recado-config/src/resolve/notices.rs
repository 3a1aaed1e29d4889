//! Channels: the destinations of notices to people.

use recado_core::Payload;
use recado_engine::notify::notices::{Channel, Notices, Shape};
use recado_transport::Url;
use recado_transport_webhook::{Guard, NotASecret, Secret as SigningKey};

use crate::catalogue::Kind;
use crate::keys::alerts::OWN_CHANNEL;
use crate::keys::channel::ChannelKeys;
use crate::keys::sections::Settings;
use crate::reading::checker::Checker;
use crate::resolve::routes::check_channel;
use crate::{Delivery, RouteConfig};

/// An endpoint that notices alone go to.
#[derive(Clone, Debug)]
pub struct NoticeEndpoint {
    pub id: String,
    pub url: Url,
    /// Absent where the receiver checks no signature.
    pub key: Option<SigningKey>,
}

/// The channels of `[notify]` and `[alerts]`, and the endpoints of those that are webhooks.
pub fn resolve(
    settings: &Settings,
    routes: &[RouteConfig],
    guard: &Guard,
    checker: &Checker,
) -> (Notices, Vec<NoticeEndpoint>) {
    let names = settings.channel_names();
    if let Some(channel) = &settings.dlq.notify {
        check_channel("dlq.notify", channel, &names, checker);
    }
    let alerts = settings.alerts.notify.iter().flatten().enumerate();
    for (at, channel) in alerts {
        let item = format!("alerts.notify[{at}]");
        check_channel(if checker.has(&item) { &item } else { "alerts.notify" }, channel, &names, checker);
    }
    let mut builder = Builder { routes, guard, checker, endpoints: Vec::new() };
    let mut notices = Notices {
        default: settings.dlq.notify.as_deref().map(Into::into),
        alerts: settings.alerts.notify.iter().flatten().map(|name| name.as_str().into()).collect(),
        ..Notices::default()
    };
    for (name, keys) in &settings.notify {
        let channel = builder.channel(name, &format!("notify.{name}"), keys);
        notices.channels.extend(channel.map(|channel| (name.as_str().into(), channel)));
    }
    if settings.alerts.webhook.is_some() {
        if names.contains(&OWN_CHANNEL) {
            let message = format!(
                "the webhook makes a channel `{OWN_CHANNEL}`; give [notify.{OWN_CHANNEL}] another name"
            );
            checker.fault("alerts", message);
        }
        notices.alerts.push(OWN_CHANNEL.into());
        let channel = builder.channel(OWN_CHANNEL, "alerts", &settings.alerts.own_channel());
        notices.channels.extend(channel.map(|channel| (OWN_CHANNEL.into(), channel)));
    } else if let Some(key) =
        ["secret", "format"].into_iter().find(|key| checker.has(&format!("alerts.{key}")))
    {
        let message = "stands without the webhook it is for; write webhook = \"https://…\"";
        checker.fault(&format!("alerts.{key}"), message);
    }
    (notices, builder.endpoints)
}

struct Builder<'a> {
    routes: &'a [RouteConfig],
    guard: &'a Guard,
    checker: &'a Checker,
    endpoints: Vec<NoticeEndpoint>,
}

impl Builder<'_> {
    fn channel(&mut self, name: &str, path: &str, keys: &ChannelKeys) -> Option<Channel> {
        let (has_webhook, has_to) =
            (self.checker.has(&format!("{path}.webhook")), self.checker.has(&format!("{path}.to")));
        let message = match (has_webhook, has_to) {
            (true, false) => return self.webhook(name, path, keys),
            (false, true) => return self.email(path, keys),
            (true, true) => {
                let message = "a webhook stands beside `to`; make two channels of it";
                self.checker.fault(&format!("{path}.webhook"), message);
                return None;
            }
            (false, false) => "the channel leads nowhere; write webhook = \"https://…\", or from and to",
        };
        self.checker.fault(path, message);
        None
    }

    fn webhook(&mut self, name: &str, path: &str, keys: &ChannelKeys) -> Option<Channel> {
        let fault = |key: &str, message: String| self.checker.fault(&format!("{path}.{key}"), message);
        let Some(route) = self.carried(keys, |kind| kind == Kind::Webhook) else {
            self.checker.fault(path, "no route delivers webhooks; give one transport = \"webhook\"");
            return None;
        };
        let url = keys.webhook.as_ref()?.reveal().parse::<Url>();
        let url = url.map_err(|_| "is not a web address; write https://…".to_owned());
        let url = url
            .and_then(|url| self.guard.check_url(&url).map(|()| url).map_err(|refusal| refusal.to_string()));
        let url = url.map_err(|why| fault("webhook", why)).ok()?;
        let shape = keys.format.unwrap_or_default();
        let key = match &keys.secret {
            Some(secret) => {
                let key = secret.reveal().parse();
                Some(key.map_err(|error: NotASecret| fault("secret", error.to_string())).ok()?)
            }
            None if shape == Shape::Slack || name == OWN_CHANNEL => None,
            None => {
                self.checker.fault(
                    path,
                    "a webhook must be signed; write secret = \"${OPS_WEBHOOK_SECRET}\" \
                     (`whsec_` and then 24 to 64 bytes in base64), or format = \"slack\"",
                );
                return None;
            }
        };
        let id = format!("notify-{name}");
        let channel = Channel::Webhook { route: route.name.clone(), endpoint: id.as_str().into(), shape };
        self.endpoints.push(NoticeEndpoint { id, url, key });
        Some(channel)
    }

    fn email(&self, path: &str, keys: &ChannelKeys) -> Option<Channel> {
        let Some(from) = &keys.from else {
            self.checker.fault(path, "an e-mail needs a sender; write from = \"recado@example.com\"");
            return None;
        };
        let Some(route) = self.carried(keys, |kind| matches!(kind, Kind::Smtp | Kind::Ses)) else {
            let key = format!("{path}.route");
            let message = "no such route delivers e-mail yet; give one a provider, such as [providers.smtp] with url = \"smtp://…\"";
            self.checker.fault(if self.checker.has(&key) { &key } else { path }, message);
            return None;
        };
        let to = keys.to.as_ref()?;
        let data = serde_json::json!({ "from": from, "to": to, "subject": "x", "text": "x" });
        // A notice that could not be delivered had better be found now.
        if route.kind != Kind::Sandbox
            && let Err(found) = recado_email::Email::read(&Payload::trusted(data.to_string()))
        {
            for one in found {
                let field = if one.pointer.starts_with("/to") { "" } else { one.pointer.as_str() };
                let message = format!("{field} {}", one.message);
                self.checker.fault(&format!("{path}.to"), message.trim());
            }
            return None;
        }
        let to = to.iter().map(|address| address.as_str().into()).collect();
        Some(Channel::Email { route: route.name.clone(), from: from.as_str().into(), to })
    }

    /// The route that was named, or the first of its kind, if this process carries it. A sandboxed route stands in for
    /// any.
    fn carried(&self, keys: &ChannelKeys, fits: impl Fn(Kind) -> bool) -> Option<&RouteConfig> {
        let named = keys.route.as_deref();
        self.routes.iter().find(|route| {
            let is_wanted = named.is_none_or(|name| name == route.name.as_str());
            let fits = fits(route.kind) || (named.is_some() && route.kind == Kind::Sandbox);
            is_wanted && fits && matches!(route.delivery, Delivery::Transport)
        })
    }
}
