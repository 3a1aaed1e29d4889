//! The reference's notes: a list, scanned.

use std::collections::HashMap;

use recado_core::Timestamp;

use crate::notes::{Note, NoteWrite, Noted, Shelf};

#[derive(Debug, Default)]
pub struct Shelves {
    notes: Vec<(Shelf, Note)>,
    last_version: u64,
    /// Changes of each shelf.
    changes: HashMap<Shelf, u64>,
}

impl Shelves {
    pub fn write(&mut self, write: NoteWrite, now: Timestamp) -> Noted {
        let NoteWrite { shelf, key, value, expect, expires_at, audit: _ } = write;
        let current = self.note(shelf, &key, now).map_or(0, |note| note.version);
        if expect.is_some_and(|expected| expected != current) {
            return Noted::Conflict { version: current };
        }
        self.notes.retain(|(on, note)| !(*on == shelf && note.key == key));
        *self.changes.entry(shelf).or_default() += 1;
        let Some(value) = value else { return Noted::Done { version: 0 } };
        self.last_version += 1;
        let version = self.last_version;
        self.notes.push((shelf, Note { key, value, version, expires_at }));
        Noted::Done { version }
    }

    pub fn note(&self, shelf: Shelf, key: &str, now: Timestamp) -> Option<&Note> {
        self.on(shelf, now).find(|note| *note.key == *key)
    }

    pub fn notes(&self, shelf: Shelf, now: Timestamp) -> Vec<Note> {
        let mut notes: Vec<Note> = self.on(shelf, now).cloned().collect();
        notes.sort_by(|a, b| a.key.cmp(&b.key));
        notes
    }

    pub fn prune(&mut self, now: Timestamp) -> u64 {
        let before = self.notes.len();
        for (shelf, _) in self.notes.iter().filter(|(_, note)| !note.is_there(now)) {
            *self.changes.entry(*shelf).or_default() += 1;
        }
        self.notes.retain(|(_, note)| note.is_there(now));
        (before - self.notes.len()) as u64
    }

    pub fn version(&self, shelf: Shelf) -> u64 {
        self.changes.get(&shelf).copied().unwrap_or_default()
    }

    fn on(&self, shelf: Shelf, now: Timestamp) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(move |(on, note)| *on == shelf && note.is_there(now)).map(|(_, note)| note)
    }
}
