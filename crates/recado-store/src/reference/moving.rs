//! The reference's jobs, given and taken whole.

use recado_core::{DeadLetter, Job, Status};

use super::{Phase, Record, State};
use crate::contract::{Adopted, JobSnapshot, Standing};
use crate::inspect::Page;

impl State {
    pub fn adopt(&mut self, transfer: JobSnapshot) -> Adopted {
        let checksum = Some(transfer.checksum());
        let JobSnapshot { job, body_hash, standing, dead_letter, queue_place, audit, archived } = transfer;
        let job = Job { checksum, ..job };
        let seq = self.last_seq + 1;
        let mut known = Vec::new();
        if let Some(at) = self.records.iter().position(|record| record.job.id == job.id) {
            let given_up = matches!(self.records[at].phase, Phase::Ended { status: Status::Discarded, .. });
            if !given_up || standing != Standing::Dead {
                return Adopted::Known;
            }
            let gone = self.records.remove(at);
            known = self.trail.take_over(gone.seq, seq);
        }
        self.last_seq = seq;
        let phase = match standing {
            Standing::Waiting => Phase::Waiting,
            Standing::Dead => Phase::Dead,
            Standing::Ended { status, at, answer } => Phase::Ended { status, at, answer },
        };
        self.records.push(Record { seq, job, body_hash, phase });
        if let Some(entry) = dead_letter {
            self.file(DeadLetter { checksum, ..entry }, queue_place);
        }
        for (nth, event) in audit.into_iter().enumerate().filter(|(_, event)| !known.contains(event)) {
            self.trail.append(Some(seq), event, nth < archived);
        }
        Adopted::Done
    }

    pub fn transfers(&self, after: Option<u64>, limit: usize) -> Page<JobSnapshot> {
        let rest = self.records.iter().filter(|record| after.is_none_or(|after| record.seq > after));
        let mut taken: Vec<&Record> = rest.take(limit + 1).collect();
        let more = taken.len() > limit;
        taken.truncate(limit);
        let next = taken.last().map(|record| record.seq).filter(|_| more);
        Page { items: taken.into_iter().map(|record| self.transfer(record)).collect(), next }
    }

    pub fn transfer(&self, record: &Record) -> JobSnapshot {
        let entry = self.dead.iter().map(|(_, entry)| entry).find(|entry| entry.job_id == record.job.id);
        JobSnapshot {
            job: record.job.clone(),
            body_hash: record.body_hash,
            standing: match &record.phase {
                Phase::Waiting | Phase::Leased(_) => Standing::Waiting,
                Phase::Dead => Standing::Dead,
                Phase::Ended { status, at, answer } => {
                    Standing::Ended { status: *status, at: *at, answer: answer.clone() }
                }
            },
            dead_letter: entry.cloned(),
            queue_place: None,
            audit: self.trail.of(record.seq),
            archived: 0,
        }
    }
}
