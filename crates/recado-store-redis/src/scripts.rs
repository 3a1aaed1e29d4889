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
    enqueue: "#!lua" "enqueue" ["root" "jobs" "lanes" "intake" "enqueue"]
    claim: "#!lua flags=allow-oom" "claim" ["root" "jobs" "lanes" "claim"]
    extend: "#!lua flags=allow-oom" "extend" ["root" "jobs" "extend"]
    settle: "#!lua flags=allow-oom" "settle" ["root" "jobs" "lanes" "intake" "letters" "settle"]
    act: "#!lua flags=allow-oom" "act" ["root" "jobs" "lanes" "intake" "letters" "act"]
    adopt: "#!lua" "adopt" ["root" "jobs" "lanes" "intake" "letters" "adopt"]
    ended: "#!lua flags=no-writes" "ended" ["root" "jobs" "ended"]
    prune: "#!lua flags=allow-oom" "prune" ["root" "jobs" "prune"]
    forget: "#!lua flags=allow-oom" "forget" ["root" "jobs" "forget"]
    record: "#!lua flags=allow-oom" "record" ["root" "jobs" "record"]
    reserve: "#!lua flags=allow-oom" "reserve" ["root" "jobs" "reserve"]
    release: "#!lua flags=allow-oom" "release" ["root" "jobs" "release"]
    heads: "#!lua flags=no-writes" "heads" ["root" "jobs" "heads"]
    job: "#!lua flags=no-writes" "job" ["root" "jobs" "views" "job"]
    pick: "#!lua flags=no-writes" "pick" ["root" "jobs" "views" "pick"]
    list: "#!lua flags=no-writes" "list" ["root" "jobs" "list"]
    walk: "#!lua flags=no-writes" "walk" ["root" "jobs" "walk"]
    trail: "#!lua flags=no-writes" "trail" ["root" "jobs" "trail"]
    apart: "#!lua flags=no-writes" "apart" ["root" "jobs" "apart"]
    dead: "#!lua flags=no-writes" "dead" ["root" "jobs" "dead"]
    oldest: "#!lua flags=no-writes" "oldest" ["root" "jobs" "oldest"]
    letter: "#!lua flags=no-writes" "letter" ["root" "jobs" "letter"]
    expired: "#!lua flags=no-writes" "expired" ["root" "jobs" "expired"]
    groups: "#!lua flags=no-writes" "groups" ["root" "jobs" "groups"]
    counts: "#!lua flags=allow-oom" "counts" ["root" "jobs" "lanes" "counts"]
    due: "#!lua flags=allow-oom" "due" ["root" "jobs" "lanes" "due"]
    tenants: "#!lua flags=allow-oom" "tenants" ["root" "jobs" "lanes" "tenants"]
    fence: "#!lua flags=allow-oom" "fence" ["root" "fence"]
    notes: "#!lua flags=allow-oom" "notes" ["root" "note-versions" "notes"]
    notes_prune: "#!lua flags=allow-oom" "notes-prune" ["root" "note-versions" "notes-prune"]
}
