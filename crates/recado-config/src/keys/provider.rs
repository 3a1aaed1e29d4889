//! The keys of `[providers.<name>]`, as tables: the address, the keys of each transport, the protection.

use std::ops::RangeInclusive;
use std::time::Duration;

use recado_transport::Url;

use crate::Secret;
use crate::catalogue::Kind;
use crate::keys::format::{
    Named, Switchable, count, custom, duration, name, named, secret, switch, switchable, table, text,
};
use crate::keys::route::provider_transport;
use crate::keys::table::section;
use crate::reading::tree::Text;
use crate::units::{DAY, MINUTE};

/// Any time that a breaker or a rate may name.
const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=DAY;

section! {
    /// A provider, by name: its address and the keys of its transport, and how it is protected.
    ProviderKeys {
        /// The transport that reaches it; its URL and its name say so by default.
        transport: Kind, provider_transport();
        /// Its address: https:// or http://, and for e-mail smtp:// or smtps://.
        url: Address, custom("https://api.example.com", Address::read, |address| address.shown.clone()).unlisted();
        /// Sent with every request. Transports http and whatsapp.
        headers: Named<Secret>, named(secret("Bearer ${API_TOKEN}"));
        whatsapp: WhatsappKeys;
        smtp: SmtpKeys;
        webhook: WebhookKeys;
        ses: SesKeys;
        /// Name lookup, connecting and TLS may take this long together.
        connect_timeout: Duration, duration(Duration::from_millis(1)..=10 * MINUTE);
        protection: ProtectionKeys;
    }
}

section! {
    WhatsappKeys {
        /// Transport whatsapp: the instance of jobs that name none.
        instance: String, text("main").or_number();
        /// Transport whatsapp: the key of the Evolution API.
        api_key: Secret, secret("${EVOLUTION_API_KEY}").or_number();
    }
}

section! {
    SmtpKeys {
        /// Transport smtp: our name at EHLO.
        hello: String, text("mail.example.com").or_number();
        /// Transport smtp: PEM certificates to trust besides the system's.
        ca_file: String, text("/etc/ssl/private-ca.pem").or_number();
        /// Transport smtp: connections at most, 1 to 1000; as many as `concurrency` by default.
        connections: usize, custom("5", connections, usize::to_string).or_number();
    }
}

section! {
    WebhookKeys {
        /// Transport webhook: it signs for jobs that name a URL themselves.
        secret: Secret, secret("${WEBHOOK_SECRET}").or_number();
    }
}

section! {
    SesKeys {
        /// Transport ses: the region of AWS.
        region: String, text("sa-east-1").or_number();
        /// Transport ses: a profile of the AWS configuration files.
        profile: String, text("mail").or_number();
        /// Transport ses: fixed credentials; AWS's own chain finds them by default.
        access_key_id: Secret, secret("${AWS_ACCESS_KEY_ID}").or_number();
        /// Transport ses: the other half of the credentials.
        secret_access_key: Secret, secret("${AWS_SECRET_ACCESS_KEY}").or_number();
        /// Transport ses: for temporary credentials.
        session_token: Secret, secret("${AWS_SESSION_TOKEN}").or_number();
        /// Transport ses: the configuration set of companies without one of their own.
        configuration_set: String, text("transactional").or_number();
        /// Transport ses: the composer of the message: SES where it can (auto, the default), Recado (raw) or SES (simple).
        content: &'static str, name("content", ["auto", "raw", "simple"]);
        /// Transport ses: message tags of every e-mail.
        tags: Named<String>, named(text("campaign"));
        /// Transport ses: configuration sets by company.
        configuration_sets: Named<String>, named(text("acme-mail"));
    }
}

section! {
    ProtectionKeys {
        /// Deliveries at the same time, over all routes that use it.
        concurrency: usize, count(1..=100_000);
        /// This many failures of the provider within `within` open its breaker: nothing is sent to it. After `reset` one
        /// probe goes out, and when that succeeds, work is let back in over `ramp`. slow = "10s" counts slow answers as
        /// failures. false: no breaker.
        breaker: Switchable<BreakerKeys>, switchable();
        /// The maximum of deliveries in a time; further ones wait and spend no attempt.
        rate: RateKeys, table().such_as("{ max = 100, per = \"1m\" }");
        /// The same for each company on its own.
        tenant_rate: RateKeys, table().such_as("{ max = 10, per = \"1s\" }");
        /// Concurrent deliveries that one company may have. Left out, a company may have them all; at a provider of
        /// webhooks as many as are still free, which is half of them while it is alone.
        tenant_concurrency: usize, count(1..=100_000).such_as("2");
        /// Webhooks: concurrent deliveries to one endpoint, or to one host of a company. Left out, a quarter of all.
        endpoint_concurrency: usize, count(1..=100_000).such_as("16");
        /// Concurrency rises while the provider answers well and falls when it throttles.
        adaptive: bool, switch().such_as("true");
        /// Silences the warning of an anti-pattern, with the reason.
        allow: Named<String>, named(text("the reason")).such_as("{ shared_breaker = \"why it is meant\" }");
    }
}

section! {
    BreakerKeys {
        /// Failures that open the breaker.
        failures: u32, count(1..=10_000);
        /// Failures count for this long.
        within: Duration, duration(TIMES);
        /// A probe goes out after this.
        reset: Duration, duration(TIMES);
        /// A success that took this long counts as a failure.
        slow: Duration, duration(TIMES);
        /// Work is let back in over this time.
        ramp: Duration, duration(Duration::ZERO..=DAY);
    }
}

section! {
    RateKeys {
        /// Deliveries at most.
        max: u32, count(1..=10_000_000);
        /// In this time.
        per: Duration, duration(TIMES);
    }
}

fn connections(written: &Text) -> Result<usize, String> {
    let count = written.text.trim().parse().ok().filter(|count| (1..=1_000).contains(count));
    count.ok_or_else(|| "write a whole number from 1 to 1000".to_owned())
}

/// A provider's URL. It may hold a password.
#[derive(Clone, Debug)]
pub struct Address {
    pub url: Secret,
    /// The URL to show: with the names of variables that were replaced in it, and without a password.
    shown: String,
}

impl Address {
    fn read(written: &Text) -> Result<Address, String> {
        let shown = match (&written.written, written.text.parse::<Url>()) {
            (Some(with_names), _) => with_names.clone(),
            (None, Ok(mut url)) if url.password().is_some() => {
                let _ = url.set_password(Some("***"));
                url.to_string()
            }
            _ => written.text.clone(),
        };
        Ok(Address { url: Secret::new(&written.text), shown })
    }
}
