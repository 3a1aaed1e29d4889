//! Traces: who collects them, and how many.

use http::{HeaderName, HeaderValue};
use recado_transport::Url;

use super::fault::At;
use super::reader::{FaultList, Section};
use super::{Secret, Traces};

const SAMPLE_DEFAULT: f64 = 1.0;

#[derive(Default)]
pub struct RawTraces {
    endpoint: Option<At<String>>,
    headers: Vec<(String, At<String>)>,
    sample: Option<At<f64>>,
}

pub fn read(section: &Section<'_>) -> RawTraces {
    RawTraces {
        endpoint: section.get("endpoint", |it| it.text("\"http://127.0.0.1:4318\"")),
        headers: section.named("headers", |it| it.text("\"Bearer ${OTLP_TOKEN}\"")),
        sample: section.get("sample", |it| it.number("0.1")),
    }
}

pub fn resolve(raw: RawTraces, faults: &FaultList) -> Traces {
    let fault = |fault| faults.borrow_mut().push(fault);
    let endpoint = raw.endpoint.and_then(|said| match address(&said.value) {
        Ok(url) => Some(url),
        Err(why) => {
            fault(said.fault(why));
            None
        }
    });
    for (name, value) in &raw.headers {
        if name.parse::<HeaderName>().is_err() {
            fault(value.fault("is not a header's name; use letters, digits and `-`"));
        } else if HeaderValue::from_str(&value.value).is_err() {
            fault(value.fault("has a value with control characters; leave them out"));
        }
    }
    if let Some(sample) = raw.sample.as_ref().filter(|said| !(0.0..=1.0).contains(&said.value)) {
        fault(sample.fault("is a share of all traces; write a number from 0 to 1, such as 0.1"));
    }
    Traces {
        endpoint,
        headers: raw.headers.into_iter().map(|(name, value)| (name, Secret::new(value.value))).collect(),
        sample: raw.sample.map_or(SAMPLE_DEFAULT, |said| said.value),
    }
}

/// URL that spans are posted to. A URL without a path gets the collector's usual path.
fn address(text: &str) -> Result<Url, &'static str> {
    let mut url: Url =
        text.parse().map_err(|_| "is not a web address; write one such as \"http://127.0.0.1:4318\"")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("is neither http:// nor https://; OTLP is spoken over HTTP here");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "holds a user or a password; write credentials as headers = { Authorization = \"Bearer ${OTLP_TOKEN}\" }",
        );
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("has a query or a fragment; write it without, and credentials as headers");
    }
    if !url.path().ends_with("/v1/traces") {
        let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    Ok(url)
}
