//! E-mails: what a job's data says, checked, and the message made of it.
