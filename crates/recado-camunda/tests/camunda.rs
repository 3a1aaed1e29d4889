//! The worker against both process engines, faithful and moody.

mod camunda {
    mod credentials;
    mod deciding;
    mod faults;
    mod given;
    mod stopping;
    mod waiting;
}
