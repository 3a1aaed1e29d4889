//! The scripts, each put together from the files that it needs.
//!
//! What takes jobs in is refused on a full server; what makes room, or must not stop because of one, is not. What only
//! reads says so, and is held to it.

use crate::link::Script;

macro_rules! script {
    ($start:literal $name:literal: $($part:literal)*) => {
        Script::new($name, concat!($start, "\n", $(include_str!(concat!("../scripts/", $part, ".lua")), "\n",)*))
    };
}

macro_rules! scripts {
    ($($field:ident: $start:literal $name:literal [$($part:literal)*])*) => {
        #[derive(Debug)]
        pub struct Scripts {
            $(pub $field: Script,)*
        }

        impl Scripts {
            pub fn new() -> Self {
                Scripts { $($field: script!($start $name: $($part)*),)* }
            }
        }
    };
}

scripts! {
    enqueue: "#!lua" "enqueue" ["jobs" "lanes" "intake" "enqueue"]
    claim: "#!lua flags=allow-oom" "claim" ["jobs" "lanes" "claim"]
    extend: "#!lua flags=allow-oom" "extend" ["jobs" "extend"]
    settle: "#!lua flags=allow-oom" "settle" ["jobs" "lanes" "intake" "letters" "settle"]
    act: "#!lua flags=allow-oom" "act" ["jobs" "lanes" "intake" "letters" "act"]
    adopt: "#!lua" "adopt" ["jobs" "lanes" "intake" "letters" "adopt"]
    ended: "#!lua flags=no-writes" "ended" ["jobs" "ended"]
    prune: "#!lua flags=allow-oom" "prune" ["jobs" "prune"]
    forget: "#!lua flags=allow-oom" "forget" ["jobs" "forget"]
    record: "#!lua flags=allow-oom" "record" ["jobs" "record"]
    reserve: "#!lua flags=allow-oom" "reserve" ["jobs" "reserve"]
    release: "#!lua flags=allow-oom" "release" ["jobs" "release"]
    heads: "#!lua flags=no-writes" "heads" ["jobs" "heads"]
    job: "#!lua flags=no-writes" "job" ["jobs" "views" "job"]
    pick: "#!lua flags=no-writes" "pick" ["jobs" "views" "pick"]
    list: "#!lua flags=no-writes" "list" ["jobs" "list"]
    walk: "#!lua flags=no-writes" "walk" ["jobs" "walk"]
    trail: "#!lua flags=no-writes" "trail" ["jobs" "trail"]
    apart: "#!lua flags=no-writes" "apart" ["jobs" "apart"]
    dead: "#!lua flags=no-writes" "dead" ["jobs" "dead"]
    oldest: "#!lua flags=no-writes" "oldest" ["jobs" "oldest"]
    letter: "#!lua flags=no-writes" "letter" ["jobs" "letter"]
    expired: "#!lua flags=no-writes" "expired" ["jobs" "expired"]
    groups: "#!lua flags=no-writes" "groups" ["jobs" "groups"]
    counts: "#!lua flags=allow-oom" "counts" ["jobs" "lanes" "counts"]
    due: "#!lua flags=allow-oom" "due" ["jobs" "lanes" "due"]
    tenants: "#!lua flags=allow-oom" "tenants" ["jobs" "lanes" "tenants"]
    notes: "#!lua flags=allow-oom" "notes" ["note-versions" "notes"]
    notes_prune: "#!lua flags=allow-oom" "notes-prune" ["note-versions" "notes-prune"]
}
