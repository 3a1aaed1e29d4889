//! From a job's data to the request that SES takes.

use std::collections::HashSet;

use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::error::BuildError;
use aws_sdk_sesv2::operation::send_email::builders::SendEmailFluentBuilder;
use aws_sdk_sesv2::primitives::Blob;
use aws_sdk_sesv2::types::{
    Body, Content as Text, Destination, EmailContent, Message, MessageHeader, MessageTag, RawMessage,
};
use recado_core::{Job, Payload};
use recado_email::{Email, Mailbox, message_id};
use recado_transport::DataFault;

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
    let ours = email.headers().iter().find(|(name, _)| name.eq_ignore_ascii_case(JOB_HEADER));
    let ours = ours.map(|(name, _)| fault(&format!("/headers/{name}"), "is set by Recado; leave it out"));
    [crowd, composed, ours].into_iter().flatten()
}

/// The request, the same on every attempt.
pub(crate) fn build(
    client: &Client,
    config: &SesConfig,
    email: &Email,
    job: &Job,
) -> Result<SendEmailFluentBuilder, BuildError> {
    let raw = config.content == Content::Raw || !email.is_simple();
    let content = EmailContent::builder();
    let content = if raw { content.raw(composed(email, job)?) } else { content.simple(parts(email, job)?) };
    let tags = config.tags.iter().map(|(name, value)| (&**name, value.clone()));
    let own = [(COMPANY_TAG, plain(job.company.as_str())), (JOB_TAG, plain(job.id.as_str()))];
    let tags = tags.chain(own).map(|(name, value)| MessageTag::builder().name(name).value(value).build());
    // SES makes headers of the destination if it composes the message, and an envelope only if not.
    let destination = match raw {
        true => destination(email, |mailbox| mailbox.address().to_owned()),
        false => destination(email, Mailbox::in_header),
    };
    let mut request = client
        .send_email()
        .from_email_address(email.sender().in_header())
        .destination(destination)
        .content(content.build())
        .set_email_tags(Some(tags.collect::<Result<_, _>>()?))
        .set_configuration_set_name(config.configuration_set(&job.company));
    if !raw && !email.reply_to().is_empty() {
        request =
            request.set_reply_to_addresses(Some(email.reply_to().iter().map(Mailbox::in_header).collect()));
    }
    Ok(request)
}

/// A message of ours. Bcc is in no header of it, so the destination has to say who gets it.
fn composed(email: &Email, job: &Job) -> Result<RawMessage, BuildError> {
    let id = message_id(&job.id, email.sender().domain());
    let mut message = format!("{JOB_HEADER}: {}\r\n", job.id).into_bytes();
    message.extend(email.message(&id, job.enqueued_at));
    RawMessage::builder().data(Blob::new(message)).build()
}

/// The parts of a message that SES composes.
fn parts(email: &Email, job: &Job) -> Result<Message, BuildError> {
    let text = |text: &str| Text::builder().data(text).charset("UTF-8").build();
    let body = Body::builder()
        .set_text(email.text().map(text).transpose()?)
        .set_html(email.html().map(text).transpose()?)
        .build();
    let header = MessageHeader::builder().name(JOB_HEADER).value(job.id.as_str()).build()?;
    Ok(Message::builder().subject(text(email.subject())?).body(body).headers(header).build())
}

/// Names every recipient once.
fn destination(email: &Email, write: fn(&Mailbox) -> String) -> Destination {
    let mut seen = HashSet::new();
    let mut once = |list: &[Mailbox]| {
        let new = list.iter().filter(|mailbox| seen.insert(mailbox.address().to_owned()));
        let written = new.map(write);
        Some(written.collect::<Vec<_>>()).filter(|list| !list.is_empty())
    };
    Destination::builder()
        .set_to_addresses(once(email.to()))
        .set_cc_addresses(once(email.cc()))
        .set_bcc_addresses(once(email.bcc()))
        .build()
}

/// A name in the characters that SES takes in a tag.
fn plain(name: &str) -> String {
    name.chars().map(|c| if is_plain_character(c) { c } else { '_' }).collect()
}
