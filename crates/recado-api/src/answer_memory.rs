//! Bounds the memory that large answers hold until their readers have taken them.
//!
//! A request takes *room* before it reads from the store, keeps as much of it as its answer needs once that is
//! written, and gives it back when the answer's last byte is with the system, or its connection is gone. One address has a
//! share of all the memory. A request that finds none waits, in line behind the others of its address; meanwhile the oldest
//! answers, of the address that holds the most, are cut off if their readers had time enough. So readers that
//! take nothing hold back neither other addresses nor, for long, requests from their own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::answer::{self, ApiError, ApiResult};
use crate::connections::Proof;
use crate::state::ApiState;

/// All large answers together.
const ANSWERS_MAX_BYTES: usize = 160 << 20;

/// Those of one address.
const ADDRESS_ANSWERS_MAX_BYTES: usize = ANSWERS_MAX_BYTES / 4 * 3;

/// The part of it that pages leave to single items, so that a job can be looked at while lists are waited for.
const LEFT_TO_ITEMS_BYTES: usize = 16 << 20;

/// Answers below this are not counted once they are written.
const COUNTED_MIN_BYTES: usize = 16 << 10;

/// Longest wait of a request for memory.
const ROOM_WAIT: Duration = Duration::from_secs(10);

/// Time that an answer's reader has before it may be cut off for another.
const READER_GRACE: Duration = Duration::from_secs(5);

/// Pause between two looks at what may be cut off by now.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The kind of an answer, by the room that it needs at most while it is read and written. Pages leave a part of each
/// bound to items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Size {
    bytes: usize,
    left_to_others_bytes: usize,
}

/// A page of the store: [`recado_store::PAGE_MAX_BYTES`] and one item more, twice.
const PAGE: Size = Size { bytes: 16 << 20, left_to_others_bytes: LEFT_TO_ITEMS_BYTES };

/// A job or a dead letter, twice.
const ITEM: Size = Size { bytes: 4 << 20, left_to_others_bytes: 0 };

/// The room of all large answers.
#[derive(Debug, Default)]
pub(crate) struct AnswerMemory {
    held: Mutex<HeldAnswers>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct HeldAnswers {
    next_number: u64,
    bytes: usize,
    addresses: HashMap<IpAddr, AddressAnswers>,
}

#[derive(Debug, Default)]
struct AddressAnswers {
    bytes: usize,
    /// By number: the oldest first.
    answers: BTreeMap<u64, Answer>,
    /// Requests that wait for memory: of each size the oldest goes first.
    waiting: BTreeSet<(Size, u64)>,
}

#[derive(Debug)]
struct Answer {
    bytes: usize,
    /// The time when it was written; absent while it is being read from the store.
    written_at: Option<Instant>,
    /// Closes its connection.
    cut: CancellationToken,
}

/// The right to hold the memory of one answer, until this is dropped.
#[derive(Debug)]
pub(crate) struct AnswerPermit {
    answers: Arc<AnswerMemory>,
    address: IpAddr,
    number: u64,
}

/// A place in the line of requests that wait.
struct QueuePlace<'a> {
    answers: &'a AnswerMemory,
    address: IpAddr,
    place: (Size, u64),
}

impl HeldAnswers {
    fn next_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// The bytes that are missing, and the address that has to give them up; `None` when there is enough.
    fn missing(&self, address: IpAddr, size: Size) -> Option<(IpAddr, usize)> {
        let wanted = size.bytes + size.left_to_others_bytes;
        let over = |held: usize, max_bytes| (held + wanted).checked_sub(max_bytes).filter(|over| *over > 0);
        let own = self.addresses.get(&address).map_or(0, |own| own.bytes);
        let most = || self.addresses.iter().max_by_key(|(_, held)| held.bytes).map(|(most, _)| *most);
        match over(own, ADDRESS_ANSWERS_MAX_BYTES) {
            Some(bytes) => Some((address, bytes)),
            None => over(self.bytes, ANSWERS_MAX_BYTES).and_then(|bytes| Some((most()?, bytes))),
        }
    }

    /// Cuts off the oldest answers of an address whose readers had time enough, until so many bytes will be free.
    fn cut(&mut self, address: IpAddr, mut bytes: usize, now: Instant) {
        let Some(own) = self.addresses.get_mut(&address) else { return };
        for answer in own.answers.values_mut() {
            if bytes == 0 {
                return;
            }
            let is_late = answer.written_at.is_some_and(|at| at + READER_GRACE <= now);
            if !is_late {
                continue;
            }
            if !answer.cut.is_cancelled() {
                tracing::info!(%address, bytes = answer.bytes, "An answer was cut off: its reader is slow and others need the memory");
                answer.cut.cancel();
            }
            bytes = bytes.saturating_sub(answer.bytes);
        }
    }

    fn resize(&mut self, address: IpAddr, number: u64, bytes: usize) {
        let Some(own) = self.addresses.get_mut(&address) else { return };
        let Some(answer) = own.answers.get_mut(&number) else { return };
        own.bytes = own.bytes - answer.bytes + bytes;
        self.bytes = self.bytes - answer.bytes + bytes;
        answer.bytes = bytes;
        if bytes == 0 {
            own.answers.remove(&number);
            self.forget_if_idle(address);
        }
    }

    fn forget_if_idle(&mut self, address: IpAddr) {
        let own = self.addresses.get(&address);
        if own.is_some_and(|own| own.answers.is_empty() && own.waiting.is_empty()) {
            self.addresses.remove(&address);
        }
    }
}

impl AnswerMemory {
    /// Waits for room in the line of the reader's address.
    async fn reserve(self: &Arc<Self>, reader: &Reader, size: Size) -> Option<AnswerPermit> {
        let deadline = Instant::now() + ROOM_WAIT;
        let waiting = self.join_queue(reader.address, size);
        loop {
            let freed = self.freed.notified();
            if let Some(permit) = self.try_reserve(&waiting, reader) {
                return Some(permit);
            }
            let now = Instant::now();
            if now >= deadline {
                return None;
            }
            let _ = tokio::time::timeout_at(deadline.min(now + LOOK_AGAIN), freed).await;
        }
    }

    fn join_queue(&self, address: IpAddr, size: Size) -> QueuePlace<'_> {
        let mut held = self.held.lock();
        let place = (size, held.next_number());
        held.addresses.entry(address).or_default().waiting.insert(place);
        QueuePlace { answers: self, address, place }
    }

    fn try_reserve(self: &Arc<Self>, waiting: &QueuePlace<'_>, reader: &Reader) -> Option<AnswerPermit> {
        let ((size, _), mut held) = (waiting.place, self.held.lock());
        let line = &held.addresses.get(&reader.address)?.waiting;
        if line.range((size, 0)..).next() != Some(&waiting.place) {
            return None;
        }
        if let Some((payer, missing)) = held.missing(reader.address, size) {
            held.cut(payer, missing, Instant::now());
            return None;
        }
        Some(self.take(&mut held, reader, size.bytes))
    }

    fn take(self: &Arc<Self>, held: &mut HeldAnswers, reader: &Reader, bytes: usize) -> AnswerPermit {
        let number = held.next_number();
        held.bytes += bytes;
        let own = held.addresses.entry(reader.address).or_default();
        own.bytes += bytes;
        own.answers.insert(number, Answer { bytes, written_at: None, cut: reader.cut.clone() });
        AnswerPermit { answers: self.clone(), address: reader.address, number }
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let mut held = self.answers.held.lock();
        if let Some(own) = held.addresses.get_mut(&self.address) {
            own.waiting.remove(&self.place);
        }
        held.forget_if_idle(self.address);
        drop(held);
        self.answers.freed.notify_waiters();
    }
}

impl AnswerPermit {
    /// Writes an answer into the memory of this permit. It gives back what it does not need now, and the rest when it has been sent.
    pub fn ok<T: Serialize>(self, value: &T) -> ApiResult {
        Ok(answer::written(StatusCode::OK, self.hold(answer::write(value)?)))
    }

    /// Keeps room for these bytes until the last of them has been sent.
    pub fn hold(self, mut bytes: Vec<u8>) -> Bytes {
        bytes.shrink_to_fit();
        if bytes.len() < COUNTED_MIN_BYTES {
            return bytes.into();
        }
        let mut held = self.answers.held.lock();
        held.resize(self.address, self.number, bytes.len());
        let own = held.addresses.get_mut(&self.address);
        if let Some(answer) = own.and_then(|own| own.answers.get_mut(&self.number)) {
            answer.written_at = Some(Instant::now());
        }
        drop(held);
        self.answers.freed.notify_waiters();
        Bytes::from_owner(PermittedBytes { bytes, _permit: self })
    }
}

impl Drop for AnswerPermit {
    fn drop(&mut self) {
        self.answers.held.lock().resize(self.address, self.number, 0);
        self.answers.freed.notify_waiters();
    }
}

struct PermittedBytes {
    bytes: Vec<u8>,
    _permit: AnswerPermit,
}

impl AsRef<[u8]> for PermittedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The reader of an answer: where it is, and how it is cut off.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    address: IpAddr,
    cut: CancellationToken,
}

impl Reader {
    fn of(parts: &Parts) -> Self {
        let nowhere = || Reader { address: Ipv4Addr::UNSPECIFIED.into(), cut: CancellationToken::new() };
        let proof = parts.extensions.get::<Proof>();
        proof.map_or_else(nowhere, |proof| Reader { address: proof.address(), cut: proof.cut().clone() })
    }

    /// Waits for the memory of a page.
    pub async fn permit(&self, api: &ApiState) -> ApiResult<AnswerPermit> {
        self.permit_for(api, PAGE).await
    }

    async fn permit_for(&self, api: &ApiState, size: Size) -> ApiResult<AnswerPermit> {
        let busy = "too many large answers wait to be read; read yours, or try again in a moment";
        api.answers.reserve(self, size).await.ok_or_else(|| ApiError::busy(busy))
    }

    /// Writes an answer that cannot be refused any more: something was done. It counts, and may go beyond the bound.
    pub fn ok<T: Serialize>(&self, api: &ApiState, value: &T) -> ApiResult {
        let json = answer::write(value)?;
        let (answers, mut held) = (&api.answers, api.answers.held.lock());
        if let Some((payer, missing)) = held.missing(self.address, Size { bytes: json.len(), ..ITEM }) {
            held.cut(payer, missing, Instant::now());
        }
        let permit = answers.take(&mut held, self, json.len());
        drop(held);
        Ok(answer::written(StatusCode::OK, permit.hold(json)))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Reader {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Reader::of(parts))
    }
}

/// The permit for a page, as an argument. It comes last, after what may be wrong with the request.
impl FromRequestParts<ApiState> for AnswerPermit {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &ApiState) -> ApiResult<Self> {
        Reader::of(parts).permit(api).await
    }
}

/// The permit for a job or a dead letter, as an argument.
#[derive(Debug)]
pub(crate) struct ItemPermit(pub AnswerPermit);

impl FromRequestParts<ApiState> for ItemPermit {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &ApiState) -> ApiResult<Self> {
        Reader::of(parts).permit_for(api, ITEM).await.map(ItemPermit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn reader(address: &str) -> Reader {
        Reader { address: ip(address), cut: CancellationToken::new() }
    }

    async fn stalled(all: &Arc<AnswerMemory>, address: &str) -> (Bytes, CancellationToken) {
        let reader = reader(address);
        let (cut, permit) = (reader.cut.clone(), all.reserve(&reader, PAGE).await.expect("room"));
        (permit.hold(vec![0; 4 << 20]), cut)
    }

    #[tokio::test(start_paused = true)]
    async fn readers_of_one_address_leave_room_for_others_at_once() {
        let all = Arc::new(AnswerMemory::default());
        let mut held = Vec::new();
        while all.held.lock().missing(ip("10.0.0.1"), PAGE).is_none() {
            held.push(stalled(&all, "10.0.0.1").await);
        }
        let began = Instant::now();
        stalled(&all, "10.0.0.2").await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(held.iter().all(|(_, cut)| !cut.is_cancelled()));
        drop(held);
        let left = all.held.lock();
        assert_eq!((left.bytes, left.addresses.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_answer_makes_room_once_its_reader_had_time_enough() {
        let all = Arc::new(AnswerMemory::default());
        let mut held = Vec::new();
        while all.held.lock().missing(ip("10.0.0.1"), PAGE).is_none() {
            held.push(stalled(&all, "10.0.0.1").await);
        }
        // A connection that is cut off lets go of its answer.
        let (oldest, cut) = held.remove(0);
        let closing = tokio::spawn(async move {
            cut.cancelled().await;
            drop(oldest);
        });
        let began = Instant::now();
        stalled(&all, "10.0.0.1").await;
        assert!(began.elapsed() >= READER_GRACE && began.elapsed() < ROOM_WAIT);
        closing.await.expect("closed");
        assert!(all.held.lock().bytes <= ADDRESS_ANSWERS_MAX_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_can_be_looked_at_while_pages_fill_the_rest() {
        let all = Arc::new(AnswerMemory::default());
        let mut held = Vec::new();
        while all.held.lock().missing(ip("10.0.0.1"), PAGE).is_none() {
            held.push(stalled(&all, "10.0.0.1").await);
        }
        let began = Instant::now();
        let _waits = all.join_queue(ip("10.0.0.1"), PAGE);
        assert!(all.reserve(&reader("10.0.0.1"), ITEM).await.is_some());
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_finds_no_room_is_refused_after_a_while() {
        let all = Arc::new(AnswerMemory::default());
        let mut rooms = Vec::new();
        while all.held.lock().missing(ip("10.0.0.1"), PAGE).is_none() {
            rooms.push(all.reserve(&reader("10.0.0.1"), PAGE).await);
        }
        assert!(all.reserve(&reader("10.0.0.1"), PAGE).await.is_none());
        rooms.pop();
        assert!(all.reserve(&reader("10.0.0.1"), PAGE).await.is_some());
    }
}
