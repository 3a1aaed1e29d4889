//! SES's answers, and its view of a request.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use recado_testkit::http::{Act, Request, raw};
use serde_json::json;

/// SES's yes.
pub fn yes() -> Act {
    raw("200 OK", "Content-Type: application/json\r\n", r#"{"MessageId":"0100018f-ses"}"#)
}

/// SES's no as it comes as a rule, with the error's name in a header.
pub fn no(status: u16, name: &str, message: &str) -> Act {
    let headers = format!(
        "Content-Type: application/json\r\nx-amzn-RequestId: 5f1c\r\nx-amzn-ErrorType: {name}:http://internal.amazon.com/coral/com.amazonaws.services.simpleemailv2/\r\n"
    );
    raw(&format!("{status} No"), &headers, &json!({ "message": message }).to_string())
}

/// The same with the name in the body, as gateways before SES write it.
pub fn no_in_body(status: u16, name: &str, message: &str) -> Act {
    let body = json!({ "__type": format!("com.amazon.coral.service#{name}"), "Message": message });
    raw(&format!("{status} No"), "Content-Type: application/x-amz-json-1.1\r\n", &body.to_string())
}

/// The raw message of a request, read as text.
pub fn message(request: &Request) -> String {
    let body = request.json();
    let data = body["Content"]["Raw"]["Data"].as_str().expect("raw content");
    String::from_utf8(BASE64_STANDARD.decode(data).expect("base64")).expect("ASCII")
}

pub fn tag(request: &Request, name: &str) -> Option<String> {
    let body = request.json();
    let tag = body["EmailTags"].as_array()?.iter().find(|tag| tag["Name"] == name)?;
    tag["Value"].as_str().map(str::to_owned)
}
