//! A route's ways out: the provider it names, and those that take over when that one is closed off.

use std::collections::BTreeMap;
use std::sync::Arc;

use recado_engine::Carrier;
use recado_transport::Transport;

use super::Provider;
use super::fault::At;
use super::raw::RawRoute;
use super::reader::FaultList;
use crate::catalogue::Kind;

pub struct Legs {
    /// All but the first.
    pub others: Vec<(Box<str>, Arc<dyn Transport>)>,
    /// Rules that know the answers of every leg, where one transport's own do not.
    pub classifier: Option<&'static str>,
}

/// The providers that a route names, in order; none when it leaves that to its row or its own name.
pub fn said(raw: &RawRoute, faults: &FaultList) -> Option<Vec<At<String>>> {
    let fault = |fault| faults.borrow_mut().push(fault);
    match (&raw.provider, &raw.providers) {
        (Some(_), Some(several)) => {
            fault(several.fault("provider and providers stand side by side; write one of the two"));
            None
        }
        (None, Some(several)) if several.value.is_empty() => {
            fault(several.fault("names no provider; write [\"first\", \"second\"], or take it out"));
            None
        }
        (None, Some(several)) => {
            let names = &several.value;
            let again =
                (1..names.len()).find(|at| names[..*at].iter().any(|it| it.value == names[*at].value));
            if let Some(at) = again {
                fault(names[at].fault("stands here for the second time; write each provider once"));
                return None;
            }
            Some(names.clone())
        }
        (one, None) => Some(one.iter().cloned().collect()),
    }
}

/// The transports of the providers after the first. A provider that takes over has to understand the same
/// data.
pub fn resolve(
    said: &[At<String>],
    raw: &RawRoute,
    carrier: &Carrier,
    kind: Kind,
    providers: &BTreeMap<String, Provider>,
    faults: &FaultList,
) -> Option<Legs> {
    let fault = |fault| faults.borrow_mut().push(fault);
    let Some((first, rest)) = said.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return Some(Legs { others: Vec::new(), classifier: None });
    };
    let transport = match carrier {
        Carrier::Transport(transport) => transport,
        Carrier::Workers => {
            let place =
                raw.transport.as_ref().map_or_else(|| first.clone().map(drop), |it| it.clone().map(drop));
            fault(place.fault("workers choose their provider themselves; write one provider"));
            return None;
        }
        Carrier::Missing(_) => {
            fault(first.fault(no_address(&first.value)));
            return None;
        }
    };
    let mut others = Vec::new();
    let mut kinds = vec![kind];
    for name in rest {
        if kind == Kind::Sandbox {
            others.push((name.value.as_str().into(), transport.clone()));
            continue;
        }
        match providers.get(&name.value) {
            Some(Provider { kind: other, transport: Some(transport), .. }) if takes_the_same(kind, *other) => {
                kinds.push(*other);
                others.push((name.value.as_str().into(), transport.clone()));
            }
            Some(Provider { kind: other, transport: Some(_), .. }) => fault(name.fault(format!(
                "it is reached by \"{}\" and `{}` by \"{}\", and they do not take the same data; name providers of one \
                 transport, or of \"smtp\" and \"ses\"",
                other.as_str(),
                first.value,
                kind.as_str()
            ))),
            // When the provider is there and faulty, its own fault says enough.
            Some(provider) if !provider.says_nothing() => {}
            _ => fault(name.fault(no_address(&name.value))),
        }
    }
    let is_whole = others.len() == rest.len();
    // The rules of SES know the codes of SMTP as well.
    let mixed = kinds.iter().any(|other| *other != kind).then_some(Kind::Ses.classifier());
    is_whole.then_some(Legs { others, classifier: mixed })
}

fn takes_the_same(one: Kind, other: Kind) -> bool {
    let mail = |kind| matches!(kind, Kind::Smtp | Kind::Ses);
    one == other || (mail(one) && mail(other))
}

fn no_address(name: &str) -> String {
    format!("provider `{name}` has no address; write url = \"https://…\" in [providers.{name}]")
}
