//! Channels: the destinations of notices to people.

use recado_core::Payload;
use recado_engine::notify::notices::{Channel, Notices, Shape};
use recado_transport::Url;
use recado_transport_webhook::{Guard, Secret as SigningKey};

use crate::catalogue::Kind;
use crate::keys::alerts::OWN_CHANNEL;
use crate::keys::channel::ChannelKeys;
use crate::keys::sections::Settings;
use crate::reading::checker::{Checker, Scope};
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
    let alerts = checker.scope("alerts");
    for (at, channel) in settings.alerts.notify.iter().flatten().enumerate() {
        let item = format!("notify[{at}]");
        let key = if alerts.has(&item) { &item } else { "notify" };
        check_channel(&alerts.path(key), channel, &names, checker);
    }
    let mut builder = NoticesBuilder { routes, guard, endpoints: Vec::new() };
    let mut notices = Notices {
        default: settings.dlq.notify.as_deref().map(Into::into),
        alerts: settings.alerts.notify.iter().flatten().map(|name| name.as_str().into()).collect(),
        ..Notices::default()
    };
    for (name, keys) in &settings.notify {
        let channel = builder.channel(name, &checker.scope(format!("notify.{name}")), keys);
        notices.channels.extend(channel.map(|channel| (name.as_str().into(), channel)));
    }
    if settings.alerts.webhook.is_some() {
        if names.contains(&OWN_CHANNEL) {
            let message = format!(
                "the webhook makes a channel `{OWN_CHANNEL}`; give [notify.{OWN_CHANNEL}] another name"
            );
            alerts.fault("", message);
        }
        notices.alerts.push(OWN_CHANNEL.into());
        let channel = builder.channel(OWN_CHANNEL, &alerts, &settings.alerts.own_channel());
        notices.channels.extend(channel.map(|channel| (OWN_CHANNEL.into(), channel)));
    } else if let Some(key) = ["secret", "format"].into_iter().find(|key| alerts.has(key)) {
        alerts.fault(key, "needs the webhook that it is for; write webhook = \"https://…\"");
    }
    (notices, builder.endpoints)
}

struct NoticesBuilder<'a> {
    routes: &'a [RouteConfig],
    guard: &'a Guard,
    endpoints: Vec<NoticeEndpoint>,
}

impl NoticesBuilder<'_> {
    fn channel(&mut self, name: &str, scope: &Scope<'_>, keys: &ChannelKeys) -> Option<Channel> {
        match (scope.has("webhook"), scope.has("to")) {
            (true, false) => self.webhook(name, scope, keys),
            (false, true) => self.email(scope, keys),
            (true, true) => {
                scope.refuse("webhook", "a webhook cannot be combined with `to`; make two channels of it")
            }
            (false, false) => {
                scope.refuse("", "the channel leads nowhere; write webhook = \"https://…\", or from and to")
            }
        }
    }

    fn webhook(&mut self, name: &str, scope: &Scope<'_>, keys: &ChannelKeys) -> Option<Channel> {
        let Some(route) = self.carried(keys, |kind| kind == Kind::Webhook) else {
            return scope.refuse("", "no route delivers webhooks; give one transport = \"webhook\"");
        };
        let url = keys.webhook.as_ref()?.reveal().parse::<Url>();
        let url = scope.accept("webhook", url.map_err(|_| "is not a web address; write https://…"))?;
        scope.accept("webhook", self.guard.check_url(&url))?;
        let shape = keys.format.unwrap_or_default();
        let key = match &keys.secret {
            Some(secret) => Some(scope.accept("secret", secret.reveal().parse())?),
            None if shape == Shape::Slack || name == OWN_CHANNEL => None,
            None => {
                let message = "a webhook must be signed; write secret = \"${OPS_WEBHOOK_SECRET}\" \
                               (`whsec_` and then 24 to 64 bytes in base64), or format = \"slack\"";
                return scope.refuse("", message);
            }
        };
        let id = format!("notify-{name}");
        let channel = Channel::Webhook { route: route.name.clone(), endpoint: id.as_str().into(), shape };
        self.endpoints.push(NoticeEndpoint { id, url, key });
        Some(channel)
    }

    fn email(&self, scope: &Scope<'_>, keys: &ChannelKeys) -> Option<Channel> {
        let Some(from) = &keys.from else {
            return scope.refuse("", "an e-mail needs a sender; write from = \"recado@example.com\"");
        };
        let Some(route) = self.carried(keys, |kind| matches!(kind, Kind::Smtp | Kind::Ses)) else {
            let message = "no such route delivers e-mail yet; give one a provider, such as [providers.smtp] with url = \"smtp://…\"";
            return scope.refuse(scope.written("route"), message);
        };
        let to = keys.to.as_ref()?;
        let data = serde_json::json!({ "from": from, "to": to, "subject": "x", "text": "x" });
        // A notice that could not be delivered had better be found now.
        if route.kind != Kind::Sandbox
            && let Err(found) = recado_email::Email::read(&Payload::trusted(data.to_string()))
        {
            for one in found {
                let field = if one.pointer.starts_with("/to") { "" } else { one.pointer.as_str() };
                scope.fault("to", format!("{field} {}", one.message).trim());
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
