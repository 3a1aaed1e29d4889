//! The keys of `[providers.<name>]`, as tables: the address, the keys of each transport, the protection.

use std::ops::RangeInclusive;
use std::time::Duration;

use recado_transport::Url;

use crate::Secret;
use crate::catalogue::Kind;
use crate::format::{
    Format, Named, Switchable, count, custom, duration, named, secret, switch, switchable, table, text, word,
};
use crate::sections::{DAY, MINUTE};
use crate::table::section;
use crate::tree::Text;

/// Any time that a breaker or a rate may name.
const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=DAY;

section! {
    ProviderKeys {
        transport: Kind, word("transport", Kind::ALL.map(|kind| (kind.as_str(), kind)));
        url: Address, custom("https://api.example.com", Address::read, Address::show).unlisted();
        headers: Named<Secret>, named(secret("Bearer ${API_TOKEN}"));
        whatsapp: WhatsappKeys;
        smtp: SmtpKeys;
        webhook: WebhookKeys;
        ses: SesKeys;
        connect_timeout: Duration, duration(Duration::from_millis(1)..=10 * MINUTE);
        protection: ProtectionKeys;
    }
}

section! {
    WhatsappKeys {
        instance: String, text("main").or_number().unlisted();
        api_key: Secret, secret("${EVOLUTION_API_KEY}").or_number().unlisted();
    }
}

section! {
    SmtpKeys {
        hello: String, text("mail.example.com").or_number().unlisted();
        ca_file: String, text("/etc/ssl/private-ca.pem").or_number().unlisted();
        connections: usize, count(1..=1_000).or_quoted();
    }
}

section! {
    WebhookKeys {
        secret: Secret, secret("${WEBHOOK_SECRET}").or_number().unlisted();
    }
}

section! {
    SesKeys {
        region: String, text("sa-east-1").or_number().unlisted();
        profile: String, text("mail").or_number().unlisted();
        access_key_id: Secret, secret("${AWS_ACCESS_KEY_ID}").or_number().unlisted();
        secret_access_key: Secret, secret("${AWS_SECRET_ACCESS_KEY}").or_number().unlisted();
        session_token: Secret, secret("${AWS_SESSION_TOKEN}").or_number().unlisted();
        configuration_set: String, text("transactional").or_number().unlisted();
        content: &'static str, word("content", ["auto", "raw", "simple"].map(|word| (word, word)));
        tags: Named<String>, named(text("campaign"));
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
        failures: u32, count(1..=10_000);
        within: Duration, duration(TIMES);
        reset: Duration, duration(TIMES);
        slow: Duration, duration(TIMES);
        ramp: Duration, duration(Duration::ZERO..=DAY);
    }
}

section! {
    RateKeys {
        max: u32, count(1..=10_000_000);
        per: Duration, duration(TIMES);
    }
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
