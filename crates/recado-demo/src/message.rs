//! The companies' messages. Their customers read Portuguese.

use fastrand::Rng;
use recado_client::{JobRequest, Payload};
use serde_json::{Value, json};

use super::world::{
    EXPIRED_ACCOUNT, FULL_MAILBOX, MISSPELLED_DOMAIN, NO_MAILBOX, NO_WHATSAPP, UNKNOWN_PRIVACY,
};

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
        let (endpoint, number, person) = (&self.endpoint, self.written, Customer::draw(rng));
        kind(&mut Draft { company, endpoint, number, person, rng })
    }
}

/// A kind of message: the function that writes one.
pub type MessageKind = fn(&mut Draft<'_>) -> JobRequest;

/// A message to write.
#[derive(Debug)]
pub struct Draft<'a> {
    company: &'a str,
    endpoint: &'a str,
    number: u64,
    person: Customer,
    rng: &'a mut Rng,
}

impl Draft<'_> {
    /// The job, whose id begins with this word.
    fn job(&self, route: &str, word: &str, data: Value) -> JobRequest {
        let data = Payload::trusted(data.to_string());
        JobRequest::new(route, self.company, data).with_id(format!("{word}-{:05}", self.number))
    }

    fn mail(&self, route: &str, word: &str, to: &str, subject: &str, text: String) -> JobRequest {
        let from = format!("{0} <nao-responda@{0}.example>", self.company);
        self.job(route, word, json!({ "from": from, "to": [to], "subject": subject, "text": text }))
    }

    fn chat(&self, word: &str, text: String) -> JobRequest {
        self.job("whatsapp", word, json!({ "number": self.person.phone(), "text": text }))
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        pick(self.rng, from)
    }

    fn appointment(&mut self) -> String {
        let doctor = self.pick(&["a Dra. Helena", "o Dr. Caio", "a Dra. Beatriz", "o Dr. Renato"]);
        let (hour, minute) = (self.rng.u32(8..18), self.pick(&["00", "15", "30", "45"]));
        format!("Sua consulta com {doctor} é amanhã às {hour}h{minute}.")
    }
}

#[derive(Debug)]
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

pub fn reminder(on: &mut Draft<'_>) -> JobRequest {
    let appointment = on.appointment();
    let text = format!("Olá, {}! {appointment}", on.person.first);
    let to = on.person.address("exemplo.example");
    let mut job = on.mail("email", "lembrete", &to, "Lembrete da sua consulta", text);
    job.delay_ms = (on.rng.u8(..100) < 15).then_some(REMINDER_DELAY_MS);
    job
}

pub fn login_code(on: &mut Draft<'_>) -> JobRequest {
    let text = format!("Seu código de acesso é {}.", on.rng.u32(100_000..1_000_000));
    JobRequest { ttl_ms: Some(LOGIN_CODE_TTL_MS), priority: Some(1), ..on.chat("codigo", text) }
}

pub fn mailing(on: &mut Draft<'_>) -> JobRequest {
    let (product, share) = (on.pick(&PRODUCTS), on.rng.u32(1..6) * 10);
    let text = format!("{}, hoje tem {product} com {share}% de desconto.", on.person.first);
    let to = on.person.address("exemplo.example");
    let job = on.mail("email", "oferta", &to, &format!("{share}% só hoje"), text);
    JobRequest { priority: Some(8), ..job }
}

/// One in three never arrives.
pub fn careless_mail(on: &mut Draft<'_>) -> JobRequest {
    let person = &on.person;
    let to = match on.rng.u32(..18) {
        0..3 => person.address(MISSPELLED_DOMAIN),
        3..5 => format!("{NO_MAILBOX}.{}@exemplo.example", person.slug()),
        5 => format!("{FULL_MAILBOX}.{}@exemplo.example", person.slug()),
        _ => person.address("exemplo.example"),
    };
    order(on, "email", "pedido", &to)
}

pub fn receipt(on: &mut Draft<'_>) -> JobRequest {
    let domain = if on.rng.u8(..100) < 4 { MISSPELLED_DOMAIN } else { "exemplo.example" };
    let to = on.person.address(domain);
    order(on, "email-ses", "nota", &to)
}

fn order(on: &mut Draft<'_>, route: &str, word: &str, to: &str) -> JobRequest {
    let (product, reais) = (on.pick(&PRODUCTS), on.rng.u32(30..400));
    let text = format!("{}, recebemos o seu pedido: {product}, R$ {reais},90.", on.person.first);
    on.mail(route, word, to, "Pedido recebido", text)
}

pub fn confirmation(on: &mut Draft<'_>) -> JobRequest {
    let appointment = on.appointment();
    on.chat("consulta", format!("Oi, {}! {appointment} Responda 1 para confirmar.", on.person.first))
}

/// One in four numbers is not on WhatsApp.
pub fn careless_chat(on: &mut Draft<'_>) -> JobRequest {
    let text = format!("{}, seu pedido saiu para entrega.", on.person.first);
    match on.rng.u32(..4) {
        0 => {
            let number = format!("551198765{NO_WHATSAPP}");
            on.job("whatsapp", "aviso", json!({ "number": number, "text": text }))
        }
        _ => on.chat("aviso", text),
    }
}

pub fn claim(on: &mut Draft<'_>) -> JobRequest {
    let procedure = match on.rng.u32(..100) {
        0..4 => NO_PROCEDURE,
        4..7 => DENIED_PROCEDURE,
        _ => on.pick(&PROCEDURES),
    };
    let data = json!({
        "guia": format!("{:09}", on.number),
        "beneficiario": format!("{} {}", on.person.first, on.person.last),
        "procedimento": procedure,
        "valor": f64::from(on.rng.u32(8_000..90_000)) / 100.0,
    });
    let correlation_id = Some(format!("lote-{:03}", on.number / 50));
    JobRequest { correlation_id, ..on.job("tiss-claims", "guia", data) }
}

pub fn post(on: &mut Draft<'_>) -> JobRequest {
    JobRequest { user_id: Some(on.person.slug()), ..post_of("17841405309211844", on) }
}

pub fn post_without_token(on: &mut Draft<'_>) -> JobRequest {
    post_of(EXPIRED_ACCOUNT, on)
}

fn post_of(account: &str, on: &mut Draft<'_>) -> JobRequest {
    let body = json!({
        "image_url": format!("https://cdn.example/{}.jpg", on.rng.u32(1_000..10_000)),
        "caption": format!("Chegou: {}", on.pick(&PRODUCTS)),
    });
    on.job("instagram", "post", json!({ "path": format!("v21.0/{account}/media"), "body": body }))
}

pub fn video(on: &mut Draft<'_>) -> JobRequest {
    let privacy = if on.rng.u32(..100) < 5 { UNKNOWN_PRIVACY } else { "PUBLIC_TO_EVERYONE" };
    let title = format!("{} em 30 segundos", on.pick(&PRODUCTS));
    let url = format!("https://cdn.example/{}.mp4", on.rng.u32(1_000..10_000));
    let body = json!({
        "post_info": { "title": title, "privacy_level": privacy },
        "source_info": { "source": "PULL_FROM_URL", "video_url": url },
    });
    let data = json!({ "path": "v2/post/publish/video/init/", "body": body });
    JobRequest { user_id: Some(on.person.slug()), ..on.job("tiktok", "video", data) }
}

pub fn upload(on: &mut Draft<'_>) -> JobRequest {
    let category = if on.rng.u32(..100) < 5 { "0" } else { "22" };
    let title = format!("Como escolher: {}", on.pick(&PRODUCTS));
    let body = json!({ "snippet": { "title": title, "categoryId": category } });
    let data = json!({ "path": "youtube/v3/videos", "query": { "part": "snippet" }, "body": body });
    JobRequest { user_id: Some(on.person.slug()), ..on.job("youtube", "upload", data) }
}

/// A few requests lack what they are about.
pub fn caption(on: &mut Draft<'_>) -> JobRequest {
    let content = format!("Escreva uma legenda para a foto de um {}.", on.pick(&PRODUCTS));
    let body = match on.rng.u32(..100) {
        0..3 => json!({ "model": "gpt-4o-mini", "prompt": content }),
        _ => json!({ "model": "gpt-4o-mini", "messages": [{ "role": "user", "content": content }] }),
    };
    on.job("openai", "legenda", json!({ "path": "v1/chat/completions", "body": body }))
}

pub fn hook(on: &mut Draft<'_>) -> JobRequest {
    let payload = json!({ "pedido": on.number, "situacao": on.pick(&["pago", "enviado", "entregue"]) });
    let data = json!({ "endpointId": on.endpoint, "event": "pedido.atualizado", "payload": payload });
    on.job("webhook", "evento", data)
}
