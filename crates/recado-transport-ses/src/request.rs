//! From a job's data to the request that SES takes.

use std::collections::HashSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use recado_core::{Job, Payload};
use recado_email::{Email, Mailbox, message_id};
use recado_transport::DataFault;
use serde_json::{Value, json};

use crate::config::{Content, SesConfig, is_plain_character};

pub(crate) const COMPANY_TAG: &str = "companyId";
pub(crate) const JOB_TAG: &str = "jobId";
const JOB_HEADER: &str = "X-Recado-Job";
/// SES's own bound on one message, counted over to, cc and bcc.
const RECIPIENTS_MAX: usize = 50;

/// The e-mail that `data` describes, or everything that keeps SES from taking it.
pub(crate) fn read(data: &Payload, content: Content) -> Result<Email, Vec<DataFault>> {
    let email = Email::read(data)?;
    let faults: Vec<_> = beyond_ses(&email, content).collect();
    if faults.is_empty() { Ok(email) } else { Err(faults) }
}

fn beyond_ses(email: &Email, content: Content) -> impl Iterator<Item = DataFault> {
    let fault = |pointer: &str, message: &str| DataFault { pointer: pointer.into(), message: message.into() };
    let crowd = (email.recipients().len() > RECIPIENTS_MAX).then(|| {
        fault(
            "/to",
            "makes more than 50 recipients with cc and bcc; SES takes 50, so make several jobs of it",
        )
    });
    let composed = (content == Content::Simple && !email.is_simple()).then(|| {
        fault("", "has attachments or headers of its own, which content = \"simple\" rules out; use \"auto\"")
    });
    let ours = email.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(JOB_HEADER));
    let ours = ours.map(|(name, _)| fault(&format!("/headers/{name}"), "is set by Recado; leave it out"));
    [crowd, composed, ours].into_iter().flatten()
}

/// The body of the request, the same on every attempt.
pub(crate) fn build(config: &SesConfig, email: &Email, job: &Job) -> Value {
    let raw = config.content == Content::Raw || !email.is_simple();
    let tags = config.tags.iter().map(|(name, value)| (&**name, value.clone()));
    let own = [(COMPANY_TAG, plain(job.company.as_str())), (JOB_TAG, plain(job.id.as_str()))];
    let tags = tags.chain(own).map(|(name, value)| json!({ "Name": name, "Value": value }));
    let mut request = json!({
        "FromEmailAddress": email.from.in_header(),
        "Destination": destination(email, raw),
        "Content": if raw { composed(email, job) } else { parts(email, job) },
        "EmailTags": tags.collect::<Value>(),
    });
    if let Some(set) = config.configuration_set(&job.company) {
        request["ConfigurationSetName"] = set.into();
    }
    if !raw && !email.reply_to.is_empty() {
        request["ReplyToAddresses"] = email.reply_to.iter().map(Mailbox::in_header).collect();
    }
    request
}

/// A message of ours. Bcc is in no header of it, so the destination has to say who gets it.
fn composed(email: &Email, job: &Job) -> Value {
    let id = message_id(&job.id, email.from.domain());
    let mut message = format!("{JOB_HEADER}: {}\r\n", job.id).into_bytes();
    message.extend(email.message(&id, job.enqueued_at));
    json!({ "Raw": { "Data": BASE64_STANDARD.encode(message) } })
}

/// The parts of a message that SES composes.
fn parts(email: &Email, job: &Job) -> Value {
    let text = |text: &str| json!({ "Data": text, "Charset": "UTF-8" });
    let bodies = [("Text", &email.text), ("Html", &email.html)];
    let bodies =
        bodies.into_iter().filter_map(|(kind, body)| Some((kind.to_owned(), text(body.as_deref()?))));
    json!({ "Simple": {
        "Subject": text(&email.subject),
        "Body": bodies.collect::<Value>(),
        "Headers": [{ "Name": JOB_HEADER, "Value": job.id.as_str() }],
    } })
}

/// Returns the recipients without repeats. SES makes headers of it if it composes the message, and an envelope only if not.
fn destination(email: &Email, raw: bool) -> Value {
    let mut seen = HashSet::new();
    let lists = [("ToAddresses", &email.to), ("CcAddresses", &email.cc), ("BccAddresses", &email.bcc)];
    let once = lists.into_iter().map(|(name, list)| {
        let new = list.iter().filter(|mailbox| seen.insert(mailbox.address().to_owned()));
        let written = new.map(|one| if raw { one.address().to_owned() } else { one.in_header() });
        (name.to_owned(), written.collect::<Vec<_>>())
    });
    once.filter(|(_, list)| !list.is_empty()).map(|(name, list)| (name, Value::from(list))).collect()
}

/// A name in the characters that SES takes in a tag.
fn plain(name: &str) -> String {
    name.chars().map(|c| if is_plain_character(c) { c } else { '_' }).collect()
}
