//! The scripts, each put together from the files that it needs.
//!
//! A full server refuses scripts that take jobs in. It runs those that make room, or that must not stop because of it.
//! A script that only reads says so, and the server holds it to that.

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
    settle: "#!lua flags=allow-oom" "settle" ["root" "jobs" "lanes" "intake" "dead_letters" "settle"]
    operator: "#!lua flags=allow-oom" "operator" ["root" "jobs" "lanes" "intake" "dead_letters" "operator"]
    adopt: "#!lua" "adopt" ["root" "jobs" "lanes" "intake" "dead_letters" "adopt"]
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
    split_entries: "#!lua flags=no-writes" "split_entries" ["root" "jobs" "split_entries"]
    dead_letters_below: "#!lua flags=no-writes" "dead_letters_below" ["root" "jobs" "dead_letters_below"]
    oldest_dead_letters: "#!lua flags=no-writes" "oldest_dead_letters" ["root" "jobs" "oldest_dead_letters"]
    dead_letter: "#!lua flags=no-writes" "dead_letter" ["root" "jobs" "dead_letter"]
    expired_dead_letters: "#!lua flags=no-writes" "expired_dead_letters" ["root" "jobs" "expired_dead_letters"]
    dead_letter_groups: "#!lua flags=no-writes" "dead_letter_groups" ["root" "jobs" "dead_letter_groups"]
    counts: "#!lua flags=allow-oom" "counts" ["root" "jobs" "lanes" "counts"]
    due: "#!lua flags=allow-oom" "due" ["root" "jobs" "lanes" "due"]
    tenant_stats: "#!lua flags=allow-oom" "tenant_stats" ["root" "jobs" "lanes" "tenant_stats"]
    fence: "#!lua flags=allow-oom" "fence" ["root" "fence"]
    kv_write: "#!lua flags=allow-oom" "kv_write" ["root" "kv_versions" "kv_write"]
    kv_prune: "#!lua flags=allow-oom" "kv_prune" ["root" "kv_versions" "kv_prune"]
    upgrade_1_leases: "#!lua" "upgrade_1_leases" ["root" "upgrade" "upgrade_1_leases"]
    upgrade_1_audit: "#!lua" "upgrade_1_audit" ["root" "upgrade" "upgrade_1_audit"]
    upgrade_1_finish: "#!lua" "upgrade_1_finish" ["root" "upgrade" "upgrade_1_finish"]
}
