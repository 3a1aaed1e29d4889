//! An Evolution API server, version 2, with one paired phone.

use serde_json::{Value, json};

use super::http::{Act, Request, json};

pub const KEY: &str = "evolution-key-0123456789";
pub const INSTANCE: &str = "main";

/// The lines of a server's configuration for it.
pub fn provider(url: &str) -> String {
    format!("[providers.evolution]\nurl = \"{url}\"\napi_key = \"{KEY}\"\ninstance = \"{INSTANCE}\"\n")
}

/// Its usual answer.
pub fn manners(request: &Request) -> Act {
    if request.header("apikey") != KEY {
        return refusal(401, "Unauthorized", json!("Unauthorized"));
    }
    let message = request.json();
    let sent = match request.path.strip_prefix("/message/").and_then(|path| path.split_once('/')) {
        Some(("sendText", INSTANCE)) => json!({ "conversation": message["text"] }),
        Some(("sendMedia", INSTANCE)) => json!({ "imageMessage": { "caption": message["caption"] } }),
        Some(("sendWhatsAppAudio", INSTANCE)) => json!({ "audioMessage": { "ptt": true } }),
        Some((_, other)) => return unknown_instance(other),
        None => return refusal(404, "Not Found", json!([format!("Cannot POST {}", request.path)])),
    };
    let Some(number) = message["number"].as_str() else {
        return refusal(400, "Bad Request", json!([["instance requires property \"number\""]]));
    };
    let key =
        json!({ "remoteJid": format!("{number}@s.whatsapp.net"), "fromMe": true, "id": "BAE594145F4C59B4" });
    json(201, json!({ "key": key, "message": sent, "messageTimestamp": "1717689097", "status": "PENDING" }))
}

fn refusal(status: u16, error: &str, message: Value) -> Act {
    json(status, json!({ "status": status, "error": error, "response": { "message": message } }))
}

/// Baileys lost its socket; any failure to send may come under this status.
pub fn connection_closed() -> Act {
    refusal(400, "Bad Request", json!(["Error: Connection Closed"]))
}

pub fn not_on_whatsapp(number: &str) -> Act {
    let number = json!({ "jid": format!("{number}@s.whatsapp.net"), "exists": false, "number": number });
    refusal(400, "Bad Request", json!([number]))
}

pub fn wrong_payload() -> Act {
    refusal(400, "Bad Request", json!([["instance.text is not of a type(s) string"]]))
}

pub fn rate_overlimit() -> Act {
    refusal(400, "Bad Request", json!(["Error: rate-overlimit"]))
}

pub fn timed_out() -> Act {
    refusal(400, "Bad Request", json!(["Error: Timed Out"]))
}

pub fn not_found() -> Act {
    refusal(404, "Not Found", json!(["The number is not known"]))
}

pub fn unknown_instance(name: &str) -> Act {
    refusal(404, "Not Found", json!([format!("The \"{name}\" instance does not exist")]))
}

pub fn too_many_requests() -> Act {
    refusal(429, "Too Many Requests", json!("Too many requests"))
}

pub fn internal_error() -> Act {
    refusal(500, "Internal Server Error", json!("Internal server error"))
}

/// The Cloud API channel: Meta's refusal, passed on under a yes.
pub fn refusal_in_a_yes() -> Act {
    let message = "(#131026) Message undeliverable";
    json(
        201,
        json!({ "message": message, "type": "OAuthException", "code": 131_026, "fbtrace_id": "AbCdEf" }),
    )
}
