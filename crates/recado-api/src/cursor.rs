//! Places in a list, opaque to clients.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::answer::{ApiError, ApiResult};

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

fn encode(list: List, place: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode([&[VERSION, list as u8], place].concat())
}

fn decode<T>(
    list: List,
    cursor: Option<&str>,
    read: impl FnOnce(&[u8]) -> Option<T>,
) -> ApiResult<Option<T>> {
    let Some(cursor) = cursor else { return Ok(None) };
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).unwrap_or_default();
    let place = bytes.strip_prefix(&[VERSION, list as u8]).and_then(read);
    place.map(Some).ok_or_else(not_a_cursor)
}

pub(crate) fn write(list: List, place: u64) -> String {
    encode(list, &place.to_be_bytes())
}

pub(crate) fn read(list: List, cursor: Option<&str>) -> ApiResult<Option<u64>> {
    let place = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_be_bytes);
    // Stores number their rows within an i64.
    decode(list, cursor, |bytes| place(bytes).filter(|place| i64::try_from(*place).is_ok()))
}

/// Writes the cursor of a list that is ordered by name: it goes on after this one.
pub(crate) fn write_name(list: List, name: &str) -> String {
    encode(list, name.as_bytes())
}

pub(crate) fn read_name(list: List, cursor: Option<&str>) -> ApiResult<Option<String>> {
    decode(list, cursor, |name| String::from_utf8(name.to_vec()).ok())
}

/// Takes a page off a list that is ordered by name, with the cursor of the next page if there is one.
pub(crate) fn take_page<T>(
    list: List,
    mut items: impl Iterator<Item = T>,
    limit: usize,
    name: impl Fn(&T) -> String,
) -> (Vec<T>, Option<String>) {
    let page: Vec<T> = items.by_ref().take(limit).collect();
    let last = page.last().filter(|_| items.next().is_some());
    let next_cursor = last.map(|last| write_name(list, &name(last)));
    (page, next_cursor)
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
