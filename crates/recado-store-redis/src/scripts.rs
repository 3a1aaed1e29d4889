//! The scripts, each put together from the files that it needs.
//!
//! A full server refuses scripts that take jobs in. It runs those that make room, or that must not stop because of it.
//! A script that only reads says so, and the server holds it to that.

use crate::link::Script;

macro_rules! scripts {
    ($($name:ident: $start:literal [$($part:literal)*])*) => {
        #[derive(Debug)]
        pub struct Scripts {
            $(pub $name: Script,)*
        }

        impl Scripts {
            pub fn new() -> Self {
                Scripts {
                    $($name: Script::new(
                        stringify!($name),
                        concat!($start, "\n", $(include_str!(concat!("../scripts/", $part, ".lua")), "\n",)*),
                    ),)*
                }
            }
        }
    };
}

scripts! {
    enqueue: "#!lua" ["root" "jobs" "lanes" "intake" "enqueue"]
    claim: "#!lua flags=allow-oom" ["root" "jobs" "lanes" "claim"]
    extend: "#!lua flags=allow-oom" ["root" "jobs" "extend"]
    settle: "#!lua flags=allow-oom" ["root" "jobs" "lanes" "intake" "dead_letters" "settle"]
    operator: "#!lua flags=allow-oom" ["root" "jobs" "lanes" "intake" "dead_letters" "operator"]
    adopt: "#!lua" ["root" "jobs" "lanes" "intake" "dead_letters" "adopt"]
    ended: "#!lua flags=no-writes" ["root" "jobs" "ended"]
    prune: "#!lua flags=allow-oom" ["root" "jobs" "prune"]
    forget: "#!lua flags=allow-oom" ["root" "jobs" "forget"]
    record: "#!lua flags=allow-oom" ["root" "jobs" "record"]
    reserve: "#!lua flags=allow-oom" ["root" "jobs" "reserve"]
    release: "#!lua flags=allow-oom" ["root" "jobs" "release"]
    heads: "#!lua flags=no-writes" ["root" "jobs" "heads"]
    job: "#!lua flags=no-writes" ["root" "jobs" "views" "job"]
    pick: "#!lua flags=no-writes" ["root" "jobs" "views" "pick"]
    list: "#!lua flags=no-writes" ["root" "jobs" "list"]
    walk: "#!lua flags=no-writes" ["root" "jobs" "walk"]
    trail: "#!lua flags=no-writes" ["root" "jobs" "trail"]
    split_entries: "#!lua flags=no-writes" ["root" "jobs" "split_entries"]
    dead_letters_below: "#!lua flags=no-writes" ["root" "jobs" "dead_letters_below"]
    oldest_dead_letters: "#!lua flags=no-writes" ["root" "jobs" "oldest_dead_letters"]
    dead_letter: "#!lua flags=no-writes" ["root" "jobs" "dead_letter"]
    expired_dead_letters: "#!lua flags=no-writes" ["root" "jobs" "expired_dead_letters"]
    dead_letter_groups: "#!lua flags=no-writes" ["root" "jobs" "dead_letter_groups"]
    counts: "#!lua flags=allow-oom" ["root" "jobs" "lanes" "counts"]
    due: "#!lua flags=allow-oom" ["root" "jobs" "lanes" "due"]
    tenant_stats: "#!lua flags=allow-oom" ["root" "jobs" "lanes" "tenant_stats"]
    fence: "#!lua flags=allow-oom" ["root" "fence"]
    kv_write: "#!lua flags=allow-oom" ["root" "kv_versions" "kv_write"]
    kv_prune: "#!lua flags=allow-oom" ["root" "kv_versions" "kv_prune"]
    upgrade_1_leases: "#!lua" ["root" "upgrade" "upgrade_1_leases"]
    upgrade_1_audit: "#!lua" ["root" "upgrade" "upgrade_1_audit"]
    upgrade_1_finish: "#!lua" ["root" "upgrade" "upgrade_1_finish"]
    upgrade_2: "#!lua" ["root" "upgrade" "upgrade_2"]
}
