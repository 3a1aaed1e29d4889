//! WhatsApp through an Evolution API server (v2), one message per job.
//!
//! Text, and image, video, audio or document by URL or base64. Each is one POST with the server's
//! `apikey`, to the instance (the paired phone) that the job names or the configuration defaults to.
//! A 201 is not yet a yes: the Cloud API channel passes Meta's refusals on under that status, so the
//! body has the last word. One that is no JSON object was not written by Evolution, and what became of the
//! message is then uncertain. So it is when the body breaks off, and after a refusal that says "Timed Out".
//!
//! Absent on purpose: instances and their pairing, asking whether a number exists, media types (the
//! server derives them from the file's name), templates, buttons and the rest of its API, for which the
//! plain [`Http`] transport serves.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use ::http::StatusCode;
use async_trait::async_trait;
use recado_core::{Fault, NetworkKind, Outcome, Payload};
use serde::{Serialize, Serializer};
use serde_json::Value;
use url::Url;

use crate::data::{self, Object};
use crate::http::{self, Answer, BodyEnd, ConfigError, Http, HttpConfig, Request};
use crate::{DataFault, Delivery, Transport, TransportKind};

const INSTANCE_LEN_MAX_BYTES: usize = 128;
const NUMBER_DIGITS: RangeInclusive<usize> = 8..=20;
const MEDIA_TYPES: [&str; 4] = ["image", "video", "audio", "document"];

#[derive(Clone, Debug)]
pub struct EvolutionConfig {
    pub http: HttpConfig,
    /// For jobs that name no instance themselves.
    pub instance: Option<String>,
}

impl EvolutionConfig {
    pub fn new(base_url: Url, api_key: &str) -> Self {
        EvolutionConfig { http: HttpConfig::new(base_url).with_header("apikey", api_key), instance: None }
    }

    /// Reports the first reason why no server could be reached with it. Opens nothing.
    pub fn check(&self) -> Result<(), ConfigError> {
        match self.instance.as_deref().and_then(instance_fault) {
            Some(wrong) => Err(ConfigError::Instance(wrong)),
            None => self.http.check(),
        }
    }
}

#[derive(Debug)]
pub struct Evolution {
    http: Http,
    instance: Option<String>,
}

impl Evolution {
    pub fn new(config: EvolutionConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Evolution { http: Http::new(config.http)?, instance: config.instance })
    }

    fn request(&self, data: &Payload) -> Result<Request, Vec<DataFault>> {
        data::read(data, |data| {
            data.allow_only(&["instance", "number", "text", "media"]);
            let instance = self.instance(data);
            let number = number(data);
            let message = message(data);
            let (instance, number, message) = (instance?, number?, message?);
            let url = self.endpoint(message.action, &instance)?;
            let mut fields = vec![("number", Cow::from(number))];
            fields.extend(message.fields);
            Some(Request::json(url, serde_json::to_vec(&InOrder(fields)).ok()?))
        })
    }

    fn endpoint(&self, action: &str, instance: &str) -> Option<Url> {
        let mut url = self.http.base().clone();
        url.path_segments_mut().ok()?.pop_if_empty().extend(["message", action, instance]);
        Some(url)
    }

    fn instance(&self, data: &Object<'_, '_>) -> Option<String> {
        if data.has("instance") {
            let instance = data.text("instance")?;
            if let Some(wrong) = instance_fault(&instance) {
                data.fault("instance", wrong);
            }
            return Some(instance.into_owned());
        }
        if self.instance.is_none() {
            data.fault(
                "instance",
                "is missing and the provider has no default; name the Evolution instance to send from",
            );
        }
        self.instance.clone()
    }
}

#[async_trait]
impl Transport for Evolution {
    fn kind(&self) -> TransportKind {
        TransportKind::WhatsApp
    }

    fn check(&self, data: &Payload) -> Result<(), Vec<DataFault>> {
        self.request(data).map(drop)
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome {
        let request = match self.request(&delivery.job.data) {
            Ok(request) => request,
            Err(faults) => return Outcome::Failed(data::unusable(&faults)),
        };
        match self.http.exchange(request, delivery).await.and_then(without_refusal) {
            Ok(answer) => Outcome::Accepted { answer: answer.json },
            Err(mut fault) => {
                fault.uncertain |= fault.text.contains("Timed Out");
                Outcome::Failed(fault)
            }
        }
    }
}

/// One of Evolution's actions, and the fields that it takes beside the number.
struct Message<'a> {
    action: &'static str,
    fields: Vec<(&'static str, Cow<'a, str>)>,
}

/// A JSON object whose members stand in this order.
struct InOrder<'a>(Vec<(&'static str, Cow<'a, str>)>);

impl Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

fn instance_fault(instance: &str) -> Option<&'static str> {
    match instance {
        "" => Some("is empty; write the name of an Evolution instance"),
        "." | ".." => Some("is not a name; write the name of an Evolution instance"),
        long if long.len() > INSTANCE_LEN_MAX_BYTES => Some("is too long; write at most 128 bytes"),
        odd if odd.contains(|c: char| c == '/' || c == '\\' || c.is_control()) => {
            Some("holds a slash, a backslash or a control character; write the instance's plain name")
        }
        _ => None,
    }
}

/// Digits as Evolution takes them, or the JID of a person or a group.
fn number(data: &Object<'_, '_>) -> Option<String> {
    let number = data.words("number", "5511987654321")?;
    let is_number =
        |text: &str| NUMBER_DIGITS.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let is_group = |text: &str| {
        let (creator, created) = text.split_once('-').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        text.len() <= 40 && digits(creator) && digits(created)
    };
    let known = match number.split_once('@') {
        Some((person, "s.whatsapp.net")) => is_number(person),
        Some((group, "g.us")) => is_group(group),
        Some(_) => false,
        None => is_number(number.strip_prefix('+').unwrap_or(&number)),
    };
    if !known {
        data.fault(
            "number",
            "is not a WhatsApp number; write 8 to 20 digits with the country code and no spaces or dashes, \
             such as \"5511987654321\", or a JID that ends in @s.whatsapp.net or @g.us",
        );
    }
    Some(number.trim_start_matches('+').to_owned())
}

fn message<'a>(data: &Object<'a, '_>) -> Option<Message<'a>> {
    match (data.has("text"), data.has("media")) {
        (true, true) => {
            data.fault(
                "media",
                "cannot be combined with `text`; give one of the two, words under a picture go into `media.caption`",
            );
            data.words("text", "Olá!");
            media(&data.object("media")?)
        }
        (true, false) => {
            Some(Message { action: "sendText", fields: vec![("text", data.words("text", "Olá!")?)] })
        }
        (false, true) => media(&data.object("media")?),
        (false, false) => {
            data.fault_here(
                "holds nothing to send; write `text`, or `media` with a `type` and a `url` or `base64`",
            );
            None
        }
    }
}

fn media<'a>(media: &Object<'a, '_>) -> Option<Message<'a>> {
    media.allow_only(&["type", "url", "base64", "caption", "fileName"]);
    if !media.has("type") {
        media.fault("type", format!("is missing; write one of {}", MEDIA_TYPES.join(", ")));
    }
    let kind = media.choice("type", &MEDIA_TYPES);
    let content = content(media);
    let (caption, file_name) = (media.text("caption"), media.text("fileName"));
    match kind {
        Some("audio") => {
            for name in ["caption", "fileName"].into_iter().filter(|name| media.has(name)) {
                media.fault(name, "is not sent with audio; leave it out");
            }
            Some(Message { action: "sendWhatsAppAudio", fields: vec![("audio", content?)] })
        }
        Some("document") if media.has("base64") && file_name.is_none() => {
            media.fault("fileName", "is missing; a document in base64 needs one, such as \"invoice.pdf\"");
            None
        }
        _ => {
            let fields = [
                ("mediatype", Some(kind?.into())),
                ("media", Some(content?)),
                ("caption", caption),
                ("fileName", file_name),
            ];
            let given = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
            Some(Message { action: "sendMedia", fields: given.collect() })
        }
    }
}

/// Evolution's `media`: an address to fetch it from, or the file itself.
fn content<'a>(media: &Object<'a, '_>) -> Option<Cow<'a, str>> {
    let (url, file) = (web_address(media), file(media));
    match (media.has("url"), media.has("base64")) {
        (true, true) => media.fault("base64", "cannot be combined with `url`; give one of the two"),
        (false, false) => media.fault_here("has no content; write `url` or `base64`"),
        _ => {}
    }
    url.or(file)
}

fn web_address<'a>(media: &Object<'a, '_>) -> Option<Cow<'a, str>> {
    let url = media.text("url")?;
    if !Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "http" | "https")) {
        media.fault("url", "is not a web address; write one that begins with http:// or https://");
    }
    Some(url)
}

fn file<'a>(media: &Object<'a, '_>) -> Option<Cow<'a, str>> {
    if media.base64("base64")?.is_empty() {
        media.fault("base64", "is empty; write the file's bytes");
    }
    media.text("base64")
}

/// Looks for a refusal inside a 2xx answer: the server's own error body, or Meta's passed on.
fn without_refusal(answer: Answer) -> Result<Answer, Fault> {
    let is_object = answer.json.as_ref().is_some_and(|json| json.as_str().starts_with('{'));
    match answer.body_end {
        BodyEnd::Whole if !is_object => return Err(not_evolution()),
        BodyEnd::BrokenOff => return Err(http::answer_lost(answer.status)),
        // A yes repeats the message, file included; a refusal is short.
        BodyEnd::Whole | BodyEnd::TooLong => {}
    }
    let body = answer.json.as_ref().and_then(|json| json.parse::<Value>().ok()).unwrap_or_default();
    let status = body["status"].as_u64().filter(|status| (400..=599).contains(status));
    let given = |name: &str| !matches!(body[name], Value::Null | Value::Bool(false));
    let refused = status.is_some()
        || body["status"] == "ERROR"
        || given("error")
        || given("error_data")
        // In a yes, `message` is the message that was sent, which is an object.
        || body["message"].is_string();
    if !refused {
        return Ok(answer);
    }
    let status = status.and_then(|status| StatusCode::from_u16(status as u16).ok()).unwrap_or(answer.status);
    let text = answer.json.as_ref().map(Payload::as_str).unwrap_or_default();
    let mut fault = Fault { retry_after: answer.retry_after, ..http::refusal(status, text) };
    if let Value::Number(code) = &body["code"] {
        fault.code = Some(code.to_string().into());
    }
    Err(fault)
}

/// A yes that Evolution cannot have written.
fn not_evolution() -> Fault {
    let text = "the answer is a yes without a JSON object, so it is not from Evolution but from a proxy or a \
                login page before it; check the URL";
    Fault { uncertain: true, ..Fault::network(NetworkKind::Protocol, text) }
}
