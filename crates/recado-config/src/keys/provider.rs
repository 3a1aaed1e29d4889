//! The keys of `[providers.<name>]`, as tables: the address, the keys of each transport, the protection.

use std::ops::RangeInclusive;
use std::time::Duration;

use recado_transport::Url;

use crate::Secret;
use crate::catalogue::Kind;
use crate::keys::format::{
    Named, Switchable, count, custom, custom_or_number, duration, named, secret, secret_or_number, switch,
    switchable, table, text, text_or_number, word,
};
use crate::keys::table::section;
use crate::reading::tree::Text;
use crate::units::{DAY, MINUTE};

/// Any time that a breaker or a rate may name.
const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=DAY;

section! {
    /// A provider, by name: its address and the keys of its transport, and how it is protected.
    ProviderKeys {
        /// The transport that reaches it; its URL and its name say so by default.
        transport: Kind, word("transport", Kind::ALL.map(|kind| (kind.as_str(), kind)));
        /// Its address: https:// or http://, and for e-mail smtp:// or smtps://.
        url: Address, custom("https://api.example.com", Address::read, Address::show).unlisted();
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
        instance: String, text_or_number("main");
        /// Transport whatsapp: the key of the Evolution API.
        api_key: Secret, secret_or_number("${EVOLUTION_API_KEY}");
    }
}

section! {
    SmtpKeys {
        /// Transport smtp: our name at EHLO.
        hello: String, text_or_number("mail.example.com");
        /// Transport smtp: PEM certificates to trust besides the system's.
        ca_file: String, text_or_number("/etc/ssl/private-ca.pem");
        /// Transport smtp: connections at most, 1 to 1000; as many as `concurrency` by default.
        connections: usize, custom_or_number("5", connections, usize::to_string);
    }
}

section! {
    WebhookKeys {
        /// Transport webhook: it signs for jobs that name a URL themselves.
        secret: Secret, secret_or_number("${WEBHOOK_SECRET}");
    }
}

section! {
    SesKeys {
        /// Transport ses: the region of AWS.
        region: String, text_or_number("sa-east-1");
        /// Transport ses: a profile of the AWS configuration files.
        profile: String, text_or_number("mail");
        /// Transport ses: fixed credentials; AWS's own chain finds them by default.
        access_key_id: Secret, secret_or_number("${AWS_ACCESS_KEY_ID}");
        /// Transport ses: the other half of the credentials.
        secret_access_key: Secret, secret_or_number("${AWS_SECRET_ACCESS_KEY}");
        /// Transport ses: for temporary credentials.
        session_token: Secret, secret_or_number("${AWS_SESSION_TOKEN}");
        /// Transport ses: the configuration set of companies without one of their own.
        configuration_set: String, text_or_number("transactional");
        /// Transport ses: the composer of the message: SES where it can (auto, the default), Recado (raw) or SES (simple).
        content: &'static str, word("content", ["auto", "raw", "simple"].map(|word| (word, word)));
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
        /// So many failures of the provider within a time close it off; after `reset` one probe goes out, and when that
        /// succeeds, work is let back in over `ramp`. slow = "10s" counts slow answers as failures. false: no breaker.
        breaker: Switchable<BreakerKeys>, switchable();
        /// So many deliveries at most in such a time; what is over waits and spends no attempt.
        rate: RateKeys, table().such_as("{ max = 100, per = \"1m\" }");
        /// The same for each company on its own.
        tenant_rate: RateKeys, table().such_as("{ max = 10, per = \"1s\" }");
        /// Of the deliveries at the same time, so many at most for one company. Left out, a company may have them all;
        /// at a provider of webhooks as many as are still free, which is half of them while it is alone.
        tenant_concurrency: usize, count(1..=100_000).such_as("2");
        /// Webhooks: so many at most for one endpoint, or for one host of a company. Left out, a quarter.
        endpoint_concurrency: usize, count(1..=100_000).such_as("16");
        /// Concurrency rises while the provider answers well and falls when it throttles.
        adaptive: bool, switch().such_as("true");
        /// Silences the warning of an anti-pattern, with the reason.
        allow: Named<String>, named(text("the reason")).such_as("{ shared_breaker = \"why it is meant\" }");
    }
}

section! {
    BreakerKeys {
        /// So many failures close the provider off.
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
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub url: String,
    /// As it stands in the file, when variables were replaced in it.
    written: Option<String>,
}

impl Address {
    fn read(written: &Text) -> Result<Address, String> {
        Ok(Address { url: written.text.clone(), written: written.written.clone() })
    }

    fn show(&self) -> String {
        match (&self.written, self.url.parse::<Url>()) {
            (Some(written), _) => written.clone(),
            (None, Ok(mut url)) if url.password().is_some() => {
                let _ = url.set_password(Some("***"));
                url.to_string()
            }
            _ => self.url.clone(),
        }
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.show())
    }
}
