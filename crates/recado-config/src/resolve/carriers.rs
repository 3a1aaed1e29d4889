//! The way out of a route: workers, the sandbox, or the transports of the providers that it names.

use crate::catalogue::{self, Kind};
use crate::keys::route::RouteKeys;
use crate::reading::fault::{closest, suggestion};
use crate::resolve::routes::{Resolver, not_in_this_build};
use crate::{Delivery, Provider};

/// A provider that a route names.
#[derive(Debug)]
pub struct ProviderChoice {
    pub name: String,
    /// Its key in the route: `provider` or `providers[<position>]`.
    key: String,
}

/// The providers that a route names, in order; none when it leaves that to its row or its own name.
pub fn named_providers(route: &Resolver<'_>) -> Option<Vec<ProviderChoice>> {
    let RouteKeys { provider, providers, .. } = route.keys;
    if provider.is_some() && providers.is_some() {
        let message = "provider and providers stand side by side; write one of the two";
        return route.scope.refuse("providers", message);
    }
    if providers.is_some() && !route.scope.has("providers[0]") {
        let message = "names no provider; write [\"first\", \"second\"], or take it out";
        return route.scope.refuse("providers", message);
    }
    let several = providers.as_deref().unwrap_or_default();
    if let Some(at) = (1..several.len()).find(|at| several[..*at].contains(&several[*at])) {
        let message = "stands here for the second time; write each provider once";
        return route.scope.refuse(&format!("providers[{at}]"), message);
    }
    let one = provider.iter().map(|name| (name, "provider".to_owned()));
    let several = several.iter().enumerate().map(|(at, name)| (name, format!("providers[{at}]")));
    let chosen = one.chain(several).map(|(name, key)| ProviderChoice { name: name.clone(), key });
    let chosen: Vec<_> = chosen.collect();
    // All are looked at, so that every fault is reported.
    let known = chosen.iter().filter(|choice| is_known(route, choice)).count();
    (known == chosen.len()).then_some(chosen)
}

fn is_known(route: &Resolver<'_>, choice: &ProviderChoice) -> bool {
    let rows = catalogue::ROUTES.iter().map(|row| row.provider.as_str());
    let known: Vec<_> = route.around.providers.keys().map(String::as_str).chain(rows).collect();
    let is_known = known.contains(&choice.name.as_str());
    if !is_known {
        let advice = suggestion(&choice.name, known, "ones");
        let message = format!("there is no provider `{0}`; write [providers.{0}], or {advice}", choice.name);
        route.scope.fault(&choice.key, message);
    }
    is_known
}

/// The delivery of a route: its own setting, else its provider if that has an address, else the row.
pub fn delivery(
    route: &Resolver<'_>,
    choice: Option<&ProviderChoice>,
    provider_name: &str,
) -> Option<(Kind, Delivery)> {
    let provider = route.around.providers.get(provider_name);
    let reached_by = provider.filter(|provider| provider.transport.is_some()).map(|provider| provider.kind);
    // When the provider is there and faulty, its own fault says enough.
    let is_faulty = reached_by.is_none() && provider.is_some_and(|provider| !provider.says_nothing());
    let sandbox_enabled = route.around.settings.sandbox.enabled == Some(true);
    let environment = route.around.environment;
    if let Some(kind) = route.keys.transport {
        let (word, by) = (kind.as_str(), reached_by.map_or("", Kind::as_str));
        let message = match kind {
            Kind::Worker => return Some((kind, Delivery::Workers)),
            Kind::Sandbox if sandbox_enabled => return Some((kind, Delivery::Transport)),
            Kind::Sandbox => format!(
                "the sandbox is off in {environment}, and this route would send nothing; take the line out, or write \
                 [sandbox] enabled = true"
            ),
            kind if !kind.is_built() => not_in_this_build(kind),
            kind if reached_by == Some(kind) => return Some((kind, Delivery::Transport)),
            _ if reached_by.is_some() => format!(
                "provider `{provider_name}` is reached by \"{by}\", not by \"{word}\"; take this line out, or \
                 write transport = \"{word}\" in [providers.{provider_name}]"
            ),
            _ if is_faulty => return None,
            kind => {
                let line = if kind == Kind::Ses { "region = \"…\"" } else { "url = \"https://…\"" };
                format!("the route has no address to send to; write [providers.{provider_name}] with {line}")
            }
        };
        return route.scope.refuse("transport", message);
    }
    if let Some(kind) = reached_by {
        return Some((kind, Delivery::Transport));
    }
    let row_kind = route.built_in.map(|row| row.kind);
    if let Some(choice) = choice
        && choice.name == Kind::Sandbox.as_str()
        && row_kind != Some(Kind::Sandbox)
    {
        let message = "the sandbox is a transport and no provider; write transport = \"sandbox\" (nothing is sent), or \
                       give [providers.sandbox] an address";
        return route.scope.refuse(&choice.key, message);
    }
    match (route.built_in, choice) {
        (Some(row), _) => {
            let delivery = match row.kind {
                Kind::Worker => Delivery::Workers,
                Kind::Sandbox if sandbox_enabled => Delivery::Transport,
                _ => Delivery::Missing(catalogue::missing(row, route.name, environment)),
            };
            Some((row.kind, delivery))
        }
        (None, _) if is_faulty => None,
        (None, Some(choice)) => route.scope.refuse(&choice.key, no_address(&choice.name)),
        (None, None) => {
            let meant = closest(route.name, catalogue::ROUTES.iter().map(|row| row.name.as_str()));
            let meant = meant.map(|meant| format!("; or did you mean [routes.{meant}]?")).unwrap_or_default();
            let message = format!(
                "the route does not say how it delivers; write provider = \"…\", transport = \"worker\" (your \
                 own code delivers) or transport = \"sandbox\" (nothing is sent){meant}"
            );
            route.scope.refuse("", message)
        }
    }
}

/// Checks the providers after the first: one that takes over has to understand the same data. Returns the rules that
/// know the answers of every provider, where one transport's own do not.
#[expect(clippy::option_option, reason = "the outer one says that there were faults")]
pub fn check_others(
    route: &Resolver<'_>,
    chosen: &[ProviderChoice],
    kind: Kind,
    delivery: &Delivery,
) -> Option<Option<&'static str>> {
    let Some((first, rest)) = chosen.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return Some(None);
    };
    match delivery {
        Delivery::Transport if kind == Kind::Sandbox => return Some(None),
        Delivery::Transport => {}
        Delivery::Workers => {
            let key = if route.scope.has("transport") { "transport" } else { &first.key };
            return route.scope.refuse(key, "workers choose their provider themselves; write one provider");
        }
        Delivery::Missing(_) => return route.scope.refuse(&first.key, no_address(&first.name)),
    }
    let mut kinds = Vec::new();
    for choice in rest {
        let message = match route.around.providers.get(&choice.name) {
            Some(Provider { kind: other, transport: Some(_), .. }) if takes_the_same(kind, *other) => {
                kinds.push(*other);
                continue;
            }
            Some(Provider { kind: other, transport: Some(_), .. }) => format!(
                "it is reached by \"{}\" and `{}` by \"{}\", and they do not take the same data; name providers of \
                 one transport, or of \"smtp\" and \"ses\"",
                other.as_str(),
                first.name,
                kind.as_str()
            ),
            // When the provider is there and faulty, its own fault says enough.
            Some(provider) if !provider.says_nothing() => continue,
            _ => no_address(&choice.name),
        };
        route.scope.fault(&choice.key, message);
    }
    // The rules of SES know the codes of SMTP as well.
    let mixed = kinds.iter().any(|other| *other != kind).then_some(Kind::Ses.classifier());
    (kinds.len() == rest.len()).then_some(mixed)
}

fn takes_the_same(one: Kind, other: Kind) -> bool {
    let mail = |kind| matches!(kind, Kind::Smtp | Kind::Ses);
    one == other || (mail(one) && mail(other))
}

fn no_address(name: &str) -> String {
    format!("provider `{name}` has no address; write url = \"https://…\" in [providers.{name}]")
}
