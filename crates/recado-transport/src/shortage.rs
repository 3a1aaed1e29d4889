//! Tells a shortage of our own process or machine from a failure of the other side.
//!
//! No free descriptor, buffer, port or memory, and no resolver that answers, say nothing about a provider or a message:
//! nothing was handed over. A name that does not exist is the other side's, and is no shortage.

use std::error::Error;
use std::io;
use std::iter::successors;

use recado_core::Fault;
use rustix::io::Errno;

/// Words of `getaddrinfo` for "no resolver answered": EAI_AGAIN in glibc and the BSDs, and in musl. It has no number
/// here, for the standard library keeps the words alone.
const NO_RESOLVER: [&str; 2] = ["temporary failure in name resolution", "try again"];

/// Returns the resource shortage behind an I/O error, if there is one.
pub fn of_io(error: &io::Error) -> Option<Fault> {
    let lacks = match Errno::from_io_error(error) {
        Some(Errno::MFILE) => "this process has no free file descriptor; raise its limit (ulimit -n)",
        Some(Errno::NFILE) => "this machine has no free file descriptor",
        Some(Errno::NOMEM | Errno::NOBUFS) => "this machine has no free memory for a connection",
        Some(Errno::ADDRNOTAVAIL) => "this machine has no free port or no address to connect from",
        Some(_) => return None,
        None => {
            // Another library may have wrapped it.
            if let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref::<io::Error>()) {
                return of_io(inner);
            }
            let words = error.to_string().to_ascii_lowercase();
            let is_lookup = words.contains("lookup address information");
            if !is_lookup || !NO_RESOLVER.iter().any(|known| words.contains(known)) {
                return None;
            }
            "no name server of this machine answers"
        }
    };
    Some(Fault::shortage(&format!("{lacks}: {error}")))
}

/// The shortage among an error's causes, if there is one.
pub fn of_causes(error: &(dyn Error + 'static)) -> Option<Fault> {
    successors(Some(error), |&cause| cause.source()).find_map(|cause| of_io(cause.downcast_ref()?))
}

/// A lookup that no name server answered in time.
pub fn no_answer_to_lookup() -> Fault {
    Fault::shortage("no name server of this machine answered in time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_machine_lacks_is_no_failure_of_the_other_side() {
        for lacking in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::ADDRNOTAVAIL] {
            let error = io::Error::from(lacking);
            assert!(of_io(&error).is_some(), "{error}");
            assert!(of_causes(&io::Error::other(error)).is_some(), "wrapped");
        }
        for theirs in [Errno::CONNREFUSED, Errno::CONNRESET, Errno::HOSTUNREACH, Errno::TIMEDOUT] {
            assert_eq!(of_io(&io::Error::from(theirs)), None);
        }
    }

    #[test]
    fn a_resolver_that_does_not_answer_is_ours_and_a_name_that_does_not_exist_is_not() {
        let said =
            |words: &str| of_io(&io::Error::other(format!("failed to lookup address information: {words}")));
        assert!(said("Temporary failure in name resolution").is_some());
        assert!(said("Try again").is_some());
        assert_eq!(said("Name or service not known"), None);
        assert_eq!(said("No address associated with hostname"), None);
        assert_eq!(of_io(&io::Error::other("try again")), None, "not about a name");
    }
}
