//! The companies' messages. Their customers read Portuguese.

use fastrand::Rng;
use recado_client::{JobRequest, Payload};
use serde_json::{Value, json};

use super::world::{
    EXPIRED_ACCOUNT, FULL_MAILBOX, MISSPELLED_DOMAIN, NO_MAILBOX, NO_WHATSAPP, UNKNOWN_PRIVACY,
};

/// Kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    Reminder,
    LoginCode,
    Mailing,
    CarelessMail,
    Receipt,
    Confirmation,
    CarelessChat,
    Claim,
    Post,
    PostWithoutToken,
    Video,
    Upload,
    Caption,
    Hook,
}

const FIRST_NAMES: [&str; 16] = [
    "Ana", "Bruno", "Carla", "Diego", "Elisa", "Felipe", "Gabriela", "Heitor", "Isabela", "Joana", "Lucas",
    "Marina", "Otavio", "Paula", "Rafael", "Sofia",
];

const LAST_NAMES: [&str; 16] = [
    "Almeida", "Barbosa", "Cardoso", "Duarte", "Esteves", "Ferreira", "Gomes", "Lima", "Moreira", "Nunes",
    "Oliveira", "Pereira", "Ribeiro", "Souza", "Teixeira", "Vieira",
];

const PRODUCTS: [&str; 6] =
    ["vestido de linho", "tênis branco", "ração para gatos", "café especial", "bolsa de couro", "luminária"];

/// Procedures of the insurers' table, and two that make an insurer say no.
const PROCEDURES: [&str; 6] = ["10101012", "40304361", "20104065", "31009166", "40901122", "10102019"];
pub const NO_PROCEDURE: &str = "99999999";
pub const DENIED_PROCEDURE: &str = "30715016";

/// A login code is worth nothing after this.
const LOGIN_CODE_TTL_MS: u64 = 10_000;
/// Some reminders are written long before they are due.
const REMINDER_DELAY_MS: u64 = 25_000;

/// Writes messages, and numbers them.
#[derive(Debug)]
pub struct Writer {
    endpoint: String,
    written: u64,
}

impl Writer {
    pub fn new(endpoint: &str) -> Self {
        Writer { endpoint: endpoint.to_owned(), written: 0 }
    }

    pub fn write(&mut self, kind: MessageKind, company: &str, rng: &mut Rng) -> JobRequest {
        self.written += 1;
        let number = self.written;
        let person = Customer::draw(rng);
        let (route, word, data) = match kind {
            MessageKind::Reminder => {
                ("email", "lembrete", reminder(company, &person.address("exemplo.example"), &person, rng))
            }
            MessageKind::LoginCode => (
                "whatsapp",
                "codigo",
                chat(&person, format!("Seu código de acesso é {}.", rng.u32(100_000..1_000_000))),
            ),
            MessageKind::Mailing => ("email", "oferta", mailing(company, &person, rng)),
            MessageKind::CarelessMail => {
                ("email", "pedido", receipt(company, &careless_address(&person, rng), &person, rng))
            }
            MessageKind::Receipt => {
                let domain = if rng.u8(..100) < 4 { MISSPELLED_DOMAIN } else { "exemplo.example" };
                ("email-ses", "nota", receipt(company, &person.address(domain), &person, rng))
            }
            MessageKind::Confirmation => ("whatsapp", "consulta", chat(&person, confirmation(&person, rng))),
            MessageKind::CarelessChat => ("whatsapp", "aviso", careless_chat(&person, rng)),
            MessageKind::Claim => ("tiss-claims", "guia", claim(number, &person, rng)),
            MessageKind::Post => ("instagram", "post", post("17841405309211844", rng)),
            MessageKind::PostWithoutToken => ("instagram", "post", post(EXPIRED_ACCOUNT, rng)),
            MessageKind::Video => ("tiktok", "video", video(rng)),
            MessageKind::Upload => ("youtube", "upload", upload(rng)),
            MessageKind::Caption => ("openai", "legenda", caption(rng)),
            MessageKind::Hook => ("webhook", "evento", self.hook(number, rng)),
        };
        let mut job = JobRequest::new(route, company, Payload::trusted(data.to_string()))
            .with_id(format!("{word}-{number:05}"));
        match kind {
            MessageKind::LoginCode => {
                job.ttl_ms = Some(LOGIN_CODE_TTL_MS);
                job.priority = Some(1);
            }
            MessageKind::Reminder if rng.u8(..100) < 15 => job.delay_ms = Some(REMINDER_DELAY_MS),
            MessageKind::Mailing => job.priority = Some(8),
            MessageKind::Claim => job.correlation_id = Some(format!("lote-{:03}", number / 50)),
            MessageKind::Post | MessageKind::Video | MessageKind::Upload => job.user_id = Some(person.slug()),
            _ => {}
        }
        job
    }

    fn hook(&self, number: u64, rng: &mut Rng) -> Value {
        let payload = json!({ "pedido": number, "situacao": pick(rng, &["pago", "enviado", "entregue"]) });
        json!({ "endpointId": self.endpoint, "event": "pedido.atualizado", "payload": payload })
    }
}

struct Customer {
    first: &'static str,
    last: &'static str,
    number: u32,
}

impl Customer {
    fn draw(rng: &mut Rng) -> Self {
        Customer {
            first: pick(rng, &FIRST_NAMES),
            last: pick(rng, &LAST_NAMES),
            // Never four zeros at the end: such a number stands for one that does not exist.
            number: rng.u32(9_000_000..10_000_000) * 10 + rng.u32(1..10),
        }
    }

    fn slug(&self) -> String {
        format!("{}.{}", self.first, self.last).to_lowercase()
    }

    fn address(&self, domain: &str) -> String {
        format!("{} {} <{}@{domain}>", self.first, self.last, self.slug())
    }

    fn phone(&self) -> String {
        format!("5511{}", self.number)
    }
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

fn mail(company: &str, to: &str, subject: String, text: String) -> Value {
    json!({ "from": format!("{company} <nao-responda@{company}.example>"), "to": [to], "subject": subject, "text": text })
}

fn reminder(company: &str, to: &str, person: &Customer, rng: &mut Rng) -> Value {
    let text = format!("Olá, {}! {}", person.first, appointment(rng));
    mail(company, to, "Lembrete da sua consulta".to_owned(), text)
}

fn appointment(rng: &mut Rng) -> String {
    let doctor = pick(rng, &["a Dra. Helena", "o Dr. Caio", "a Dra. Beatriz", "o Dr. Renato"]);
    format!(
        "Sua consulta com {doctor} é amanhã às {}h{}.",
        rng.u32(8..18),
        pick(rng, &["00", "15", "30", "45"])
    )
}

fn mailing(company: &str, person: &Customer, rng: &mut Rng) -> Value {
    let (product, share) = (pick(rng, &PRODUCTS), rng.u32(1..6) * 10);
    let text = format!("{}, hoje tem {product} com {share}% de desconto.", person.first);
    mail(company, &person.address("exemplo.example"), format!("{share}% só hoje"), text)
}

fn receipt(company: &str, to: &str, person: &Customer, rng: &mut Rng) -> Value {
    let (product, reais) = (pick(rng, &PRODUCTS), rng.u32(30..400));
    let text = format!("{}, recebemos o seu pedido: {product}, R$ {reais},90.", person.first);
    mail(company, to, "Pedido recebido".to_owned(), text)
}

/// One in three never arrives.
fn careless_address(person: &Customer, rng: &mut Rng) -> String {
    match rng.u32(..18) {
        0..3 => person.address(MISSPELLED_DOMAIN),
        3..5 => format!("{NO_MAILBOX}.{}@exemplo.example", person.slug()),
        5 => format!("{FULL_MAILBOX}.{}@exemplo.example", person.slug()),
        _ => person.address("exemplo.example"),
    }
}

fn chat(person: &Customer, text: String) -> Value {
    json!({ "number": person.phone(), "text": text })
}

fn confirmation(person: &Customer, rng: &mut Rng) -> String {
    format!("Oi, {}! {} Responda 1 para confirmar.", person.first, appointment(rng))
}

/// One in four numbers is not on WhatsApp.
fn careless_chat(person: &Customer, rng: &mut Rng) -> Value {
    let mut message = chat(person, format!("{}, seu pedido saiu para entrega.", person.first));
    if rng.u32(..4) == 0 {
        message["number"] = json!(format!("551198765{NO_WHATSAPP}"));
    }
    message
}

fn claim(number: u64, person: &Customer, rng: &mut Rng) -> Value {
    let procedure = match rng.u32(..100) {
        0..4 => NO_PROCEDURE,
        4..7 => DENIED_PROCEDURE,
        _ => pick(rng, &PROCEDURES),
    };
    json!({
        "guia": format!("{number:09}"),
        "beneficiario": format!("{} {}", person.first, person.last),
        "procedimento": procedure,
        "valor": f64::from(rng.u32(8_000..90_000)) / 100.0,
    })
}

fn post(account: &str, rng: &mut Rng) -> Value {
    let body = json!({
        "image_url": format!("https://cdn.example/{}.jpg", rng.u32(1_000..10_000)),
        "caption": format!("Chegou: {}", pick(rng, &PRODUCTS)),
    });
    json!({ "path": format!("v21.0/{account}/media"), "body": body })
}

fn video(rng: &mut Rng) -> Value {
    let privacy = if rng.u32(..100) < 5 { UNKNOWN_PRIVACY } else { "PUBLIC_TO_EVERYONE" };
    let body = json!({
        "post_info": { "title": format!("{} em 30 segundos", pick(rng, &PRODUCTS)), "privacy_level": privacy },
        "source_info": { "source": "PULL_FROM_URL", "video_url": format!("https://cdn.example/{}.mp4", rng.u32(1_000..10_000)) },
    });
    json!({ "path": "v2/post/publish/video/init/", "body": body })
}

fn upload(rng: &mut Rng) -> Value {
    let category = if rng.u32(..100) < 5 { "0" } else { "22" };
    let snippet =
        json!({ "title": format!("Como escolher: {}", pick(rng, &PRODUCTS)), "categoryId": category });
    json!({ "path": "youtube/v3/videos", "query": { "part": "snippet" }, "body": { "snippet": snippet } })
}

/// A few requests lack what they are about.
fn caption(rng: &mut Rng) -> Value {
    let content = format!("Escreva uma legenda para a foto de um {}.", pick(rng, &PRODUCTS));
    let mut body = json!({ "model": "gpt-4o-mini", "messages": [{ "role": "user", "content": content }] });
    if rng.u32(..100) < 3 {
        body = json!({ "model": "gpt-4o-mini", "prompt": content });
    }
    json!({ "path": "v1/chat/completions", "body": body })
}
