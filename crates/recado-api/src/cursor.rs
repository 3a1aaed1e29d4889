//! Places in a list, opaque to clients.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::answer::ApiError;

const VERSION: u8 = 1;

/// The list that a cursor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Jobs = 1,
    DeadLetters = 2,
    Tenants = 3,
    Audit = 4,
    Endpoints = 5,
    Holds = 6,
}

pub(crate) fn write(list: List, place: u64) -> String {
    let mut bytes = [VERSION, list as u8, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes[2..].copy_from_slice(&place.to_be_bytes());
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn read(list: List, cursor: Option<&str>) -> Result<Option<u64>, ApiError> {
    let Some(cursor) = cursor else { return Ok(None) };
    let place = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| match bytes.as_slice() {
        [VERSION, tag, place @ ..] if *tag == list as u8 => place.try_into().ok().map(u64::from_be_bytes),
        _ => None,
    });
    // Stores number their rows within an i64.
    place.filter(|place| i64::try_from(*place).is_ok()).map(Some).ok_or_else(not_a_cursor)
}

/// The same for a list that is ordered by name: it goes on after this one.
pub(crate) fn write_name(list: List, name: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode([&[VERSION, list as u8], name.as_bytes()].concat())
}

pub(crate) fn read_name(list: List, cursor: Option<&str>) -> Result<Option<String>, ApiError> {
    let Some(cursor) = cursor else { return Ok(None) };
    let name = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| match bytes.as_slice() {
        [VERSION, tag, name @ ..] if *tag == list as u8 => String::from_utf8(name.to_vec()).ok(),
        _ => None,
    });
    name.map(Some).ok_or_else(not_a_cursor)
}

pub(crate) fn not_a_cursor() -> ApiError {
    ApiError::invalid_at("/cursor", "is not a cursor of this list; use the `nextCursor` of the page before")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_place_in_its_own_list_only() {
        for place in [0, 1, 77, i64::MAX.cast_unsigned()] {
            let cursor = write(List::Jobs, place);
            assert_eq!(read(List::Jobs, Some(&cursor)).unwrap(), Some(place));
            assert!(read(List::DeadLetters, Some(&cursor)).is_err());
        }
        assert_eq!(read(List::Jobs, None).unwrap(), None);
    }

    #[test]
    fn a_cursor_by_name_leads_back_to_its_name_in_its_own_list_only() {
        let cursor = write_name(List::Tenants, "acme");
        assert_eq!(read_name(List::Tenants, Some(&cursor)).unwrap().as_deref(), Some("acme"));
        assert!(read(List::Jobs, Some(&cursor)).is_err());
        assert!(read_name(List::Tenants, Some(&write(List::Jobs, 7))).is_err());
        assert_eq!(read_name(List::Tenants, None).unwrap(), None);
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        let other_version = BASE64_URL_SAFE_NO_PAD.encode([9, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        let too_short = BASE64_URL_SAFE_NO_PAD.encode([1, 1, 0]);
        for wrong in ["", "1", "!!", "AAAA", &other_version, &too_short, &write(List::Jobs, u64::MAX)] {
            assert!(read(List::Jobs, Some(wrong)).is_err(), "{wrong:?} was read");
        }
    }
}
