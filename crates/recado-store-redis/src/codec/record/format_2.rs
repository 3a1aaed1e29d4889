//! Reads what differs in heads that format 2 wrote. They stay as they are until their job changes.

use recado_core::{BodyHash, Priority};

use super::{Header, Phase};
use crate::codec::bytes::Reader;
use crate::codec::keys;

pub fn read_header<'a>(head: &mut Reader<'a>) -> Option<Header<'a>> {
    let (due_at, expires_at) = (head.time()?, head.time()?);
    let priority = Priority::new(head.byte()?);
    let phase = Phase::ALL.get(usize::from(head.byte()?)).copied();
    let (route, company) = (String::from_utf8_lossy(head.name()?), String::from_utf8_lossy(head.name()?));
    head.short()?;
    let id = keys::unpack(head.name()?)?;
    Some(Header { due_at, expires_at, priority, phase, route, company, id, first: None })
}

pub fn read_body_hash(head: &mut Reader<'_>) -> Option<BodyHash> {
    Some(BodyHash(u128::from_be_bytes(head.fixed(16)?.try_into().ok()?)))
}
