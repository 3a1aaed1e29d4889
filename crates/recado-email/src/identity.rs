//! The Message-ID, by which every system on the way recognises a repetition.

use recado_core::JobId;

/// The same on every attempt: made of the job's id and the sender's domain, in angle brackets.
///
/// A job's id may hold colons, and dots where RFC 5322 wants none. Those become `=` and two digits, which
/// no job's id holds by itself, so that two jobs never share a Message-ID.
pub fn message_id(job: &JobId, sender_domain: &str) -> String {
    let id = job.as_str();
    let mut left = String::with_capacity(id.len());
    for (index, c) in id.char_indices() {
        let lone_dot = c == '.' && !matches!(id[..index].chars().next_back(), None | Some('.'));
        let inner = index + 1 < id.len();
        match c {
            '.' if lone_dot && inner => left.push('.'),
            '.' => left.push_str("=2E"),
            ':' => left.push_str("=3A"),
            plain => left.push(plain),
        }
    }
    format!("<{left}@{sender_domain}>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(job: &str) -> String {
        message_id(&JobId::new(job).unwrap(), "acme.example")
    }

    #[test]
    fn a_message_id_is_made_of_the_job_and_the_domain() {
        assert_eq!(
            id("123e4567-e89b-12d3-a456-426614174000"),
            "<123e4567-e89b-12d3-a456-426614174000@acme.example>"
        );
        assert_eq!(id("CLM_1:a.b"), "<CLM_1=3Aa.b@acme.example>");
    }

    #[test]
    fn dots_stand_only_where_the_standard_wants_them() {
        for (job, left) in [(".", "=2E"), ("..", "=2E=2E"), (".a.", "=2Ea=2E"), ("a..b", "a.=2Eb")] {
            assert_eq!(id(job), format!("<{left}@acme.example>"));
        }
    }
}
