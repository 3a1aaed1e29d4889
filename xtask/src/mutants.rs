//! Takes one safeguard at a time out of a copy of the sources, and expects the test that is named for it to fail.
//!
//! A test that stays green proves nothing about its safeguard. `tidy` checks that every text is still where the list
//! says, so that the list cannot rot.

use std::fs;
use std::path::Path;

use crate::{Outcome, cargo, planted, root};

/// One safeguard, the text that it is made of, and the test that misses it.
struct Mutant {
    safeguard: &'static str,
    file: &'static str,
    /// The file contains it exactly once.
    text: &'static str,
    replacement: &'static str,
    /// Selects the test's target, for `cargo test --all-features`.
    target: &'static str,
    test: &'static str,
}

/// A target of integration tests, in the selection of crates that CI builds.
macro_rules! workspace {
    ($target:literal) => {
        concat!("--workspace --test ", $target)
    };
}

/// Grouped by target, so that less is built again.
const MUTANTS: [Mutant; 16] = [
    Mutant {
        safeguard: "count of a breaker's failures",
        file: "crates/recado-core/src/breaker.rs",
        text: "        self.failures.push_back(now);\n",
        replacement: "",
        target: workspace!("core"),
        test: "breakers::f1_f2_the_fifth_failure_within_a_minute_opens_it",
    },
    Mutant {
        safeguard: "Retry-After",
        file: "crates/recado-core/src/decide.rs",
        text: "Some(asked) => asked.max(RETRY_AFTER_MIN).max(policy.floor.unwrap_or_default()),",
        replacement: "Some(_) => policy.delay(retry, previous, draw).max(RETRY_AFTER_MIN),",
        target: workspace!("core"),
        test: "decisions::f8_a_429_obeys_retry_after_even_beyond_the_policys_cap_and_ceiling",
    },
    Mutant {
        safeguard: "fence of a settlement",
        file: "crates/recado-store-embedded/src/writer/apply.rs",
        text: "Some(held) if make_token(seq, held.fence) == settlement.token => held.clone(),",
        replacement: "Some(held) => held.clone(),",
        target: workspace!("embedded"),
        test: "contract::settling::a_stale_settlement_changes_nothing_at_all",
    },
    Mutant {
        safeguard: "fence of an extension",
        file: "crates/recado-store-embedded/src/writer/apply.rs",
        text: "Some(held) if make_token(seq, held.fence) == given => {",
        replacement: "Some(_) => {",
        target: workspace!("embedded"),
        test: "contract::leasing::the_old_holder_is_fenced_off_after_a_takeover",
    },
    Mutant {
        safeguard: "tenant filter of a list",
        file: "crates/recado-store-embedded/src/store/inspect.rs",
        text: r#"    wanted.and_if("jobs.companyId = ?", filter.company.as_ref().map(|company| company.as_str().to_owned()));
"#,
        replacement: "",
        target: workspace!("embedded"),
        test: "contract::listing::jobs_are_found_by_company_route_user_and_correlation",
    },
    Mutant {
        safeguard: "blame: a message's fault opens no breaker",
        file: "crates/recado-engine/src/admission/breaker.rs",
        text: "                _ => BreakerFeedback::Inconclusive,\n            },",
        replacement: "                _ => BreakerFeedback::Failed(failure.reason.as_str().into()),\n            },",
        target: workspace!("engine"),
        test: "lanes::only_the_providers_own_failures_open_its_breaker",
    },
    Mutant {
        safeguard: "blame: a company's limit holds back no other",
        file: "crates/recado-engine/src/admission/breaker.rs",
        text: "self.change_limit(&provider.company_limit(company, now), quiet, now);",
        replacement: "self.change_limit(&provider.limit, quiet, now); let _ = company;",
        target: workspace!("engine"),
        test: "receivers::holds_on_a_provider_and_on_a_company_are_listed_and_lifted",
    },
    Mutant {
        safeguard: "audit record of an operator's act",
        file: "crates/recado-engine/src/admission/admin.rs",
        text: "let audit = [by.record(AuditEvent::about_provider(name, kind, now))];",
        replacement: "let audit: [AuditEvent; 0] = []; let _ = kind;",
        target: workspace!("engine"),
        test: "operators::every_act_of_an_operator_is_on_record_with_who_and_why",
    },
    Mutant {
        safeguard: "redaction of suggested rules",
        file: "crates/recado-observe/src/rule_suggestions/skeleton.rs",
        text: "&& !resembles_any(&folded, &known)",
        replacement: "",
        target: workspace!("engine"),
        test: "rule_suggestions::g24_words_of_the_payload_are_in_no_suggestion",
    },
    Mutant {
        safeguard: "fence of a settlement in Redis",
        file: "crates/recado-store-redis/scripts/settle.lua",
        text: "is_current = last_held and fence_in(last_held) == fence",
        replacement: "is_current = last_held",
        target: workspace!("redis"),
        test: "contract::settling::a_stale_settlement_changes_nothing_at_all",
    },
    Mutant {
        safeguard: "one quota over all partitions of Redis",
        file: "crates/recado-store-redis/src/verbs/claim.rs",
        text: "claim.turns.quota.values().all(|left| *left == 0)",
        replacement: "claim.max > 0",
        target: workspace!("redis"),
        test: "partitions::a_quota_holds_for_a_company_whose_follow_ups_are_in_several_partitions",
    },
    Mutant {
        safeguard: "share of a partition by the tenants that wait now",
        file: "crates/recado-store-redis/src/verbs/claim.rs",
        text: "of_route[usize::from(partition)] = tenants;",
        replacement: "of_route[usize::from(partition)] = tenants.max(of_route[usize::from(partition)]);",
        target: workspace!("redis"),
        test: "partitions::the_share_of_a_partition_follows_the_tenants_that_wait_now",
    },
    Mutant {
        safeguard: "grace for orphans after Redis was away",
        file: "crates/recado-store-redis/src/verbs/claim.rs",
        text: "let granted = if self.orphan_grace.is_over(partition, lease) {",
        replacement: "let granted = if true {",
        target: workspace!("redis"),
        test: "orphans::after_redis_was_away_living_nodes_extend_their_leases_before_others_take_them_over",
    },
    Mutant {
        safeguard: "address guard of webhooks",
        file: "crates/recado-transport-webhook/src/guard.rs",
        text: "name.is_some_and(is_internal) || !is_public(ip)",
        replacement: "name.is_some_and(is_internal)",
        target: workspace!("webhook"),
        test: "webhook::public_addresses::no_address_of_a_refused_range_passes_whatever_its_embedding",
    },
    Mutant {
        safeguard: "fsync before an answer",
        file: "crates/recado-store-embedded/src/writer/fsync_thread.rs",
        text: "        self.log.sync_data()?;\n",
        replacement: "        let _ = &self.log;\n",
        target: "--package recado-store-embedded --lib",
        test: "writer::fsync_thread::tests::a_failed_fsync_is_answered_to_every_caller_and_never_tried_again",
    },
    Mutant {
        safeguard: "checksum of a job's data",
        file: "crates/recado-core/src/checksum.rs",
        text: "        (sum_of(&[Some(self.data.as_str())]) != checksum.data).then_some(Damage::Data)\n",
        replacement: "        None\n",
        target: "--package recado-core --lib",
        test: "checksum::tests::every_flipped_bit_of_data_and_ids_is_noticed",
    },
];

/// Checks that every text is where the list says, exactly once.
pub fn check(faults: &mut Vec<String>) {
    for Mutant { file, text, safeguard, .. } in &MUTANTS {
        let found = fs::read_to_string(root().join(file)).map_or(0, |source| source.matches(text).count());
        if found != 1 {
            faults.push(format!(
                "{file}: must contain the text of the safeguard \"{safeguard}\" exactly once, not {found} times; update \
                 MUTANTS in xtask/src/mutants.rs"
            ));
        }
    }
}

/// Runs every mutant, or those whose safeguard contains `only`.
pub fn run(only: Option<&str>) -> Outcome {
    // With a build directory of its own, so that nothing built without a safeguard is ever taken for the real thing.
    let copy = root().join("target/mutants");
    planted::copy_tree(&copy)?;
    let mut rows = Vec::new();
    let chosen = MUTANTS.iter().filter(|mutant| only.is_none_or(|only| mutant.safeguard.contains(only)));
    for mutant in chosen {
        println!("\n── without: {}", mutant.safeguard);
        let is_caught = try_mutant(mutant, &copy)?;
        println!("{}: {}", mutant.safeguard, if is_caught { "caught" } else { "SURVIVED" });
        rows.push((mutant, is_caught));
    }
    println!("\n{:<46} {:<9} test", "without", "");
    for (mutant, is_caught) in &rows {
        let verdict = if *is_caught { "caught" } else { "SURVIVED" };
        println!("{:<46} {verdict:<9} {}", mutant.safeguard, mutant.test);
    }
    match rows.iter().filter(|(_, is_caught)| !is_caught).count() {
        0 if rows.is_empty() => Err("no safeguard has that name".to_owned()),
        0 => Ok(()),
        survived => Err(format!("{survived} of {} mutants survived", rows.len())),
    }
}

/// Returns true if the named test fails without the safeguard. The rest must build and the sources are put back.
fn try_mutant(mutant: &Mutant, copy: &Path) -> Result<bool, String> {
    let path = copy.join(mutant.file);
    let fault = |error: std::io::Error| format!("{}: {error}", mutant.file);
    let source = fs::read_to_string(&path).map_err(fault)?;
    let [before, after] = source.split(mutant.text).collect::<Vec<_>>()[..] else {
        return Err(format!(
            "{}: must contain the text of \"{}\" exactly once",
            mutant.file, mutant.safeguard
        ));
    };
    fs::write(&path, [before, mutant.replacement, after].concat()).map_err(fault)?;
    let test = |more: &[&str]| {
        let mut cargo = cargo();
        cargo.current_dir(copy).env_remove("CARGO_TARGET_DIR");
        cargo.args(["test", "--all-features"]).args(mutant.target.split(' ')).args(more).status()
    };
    let is_built = test(&["--no-run"]).map(|status| status.success());
    let is_green = test(&["--", "--exact", mutant.test]).map(|status| status.success());
    fs::write(&path, source).map_err(fault)?;
    match is_built.map_err(fault)? {
        true => Ok(!is_green.map_err(fault)?),
        false => Err(format!("without \"{}\" it does not build; correct its replacement", mutant.safeguard)),
    }
}
