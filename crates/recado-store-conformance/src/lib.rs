//! The suite that every implementation of [`Store`] must pass.
//!
//! A store's tests say once how it is opened, a [`Home`], and get a test for each promise:
//!
//! ```text
//! recado_store_conformance::conformance_tests!(Directory::new()); // every store
//! recado_store_conformance::turn_tests!(Directory::new()); // every store whose tenants all stand in one ring
//! recado_store_conformance::durability_tests!(Directory::new()); // stores that outlive their process
//! recado_store_conformance::sole_process_tests!(Directory::new()); // and belong to one process at a time
//! recado_store_conformance::shared_tests!(Server::new()); // or to several at once
//!
//! #[test]
//! fn it_does_what_the_reference_does() {
//!     recado_store_conformance::agrees_with_the_reference(Directory::new, Restarts::Yes);
//! }
//!
//! #[test]
//! fn no_tenant_waits_longer_than_promised() {
//!     recado_store_conformance::a_tenant_waits_for_one_turn_of_each_other_at_most(Directory::new);
//! }
//! ```
//!
//! Each check is a function here, and its name is the promise. Time is an argument of every verb, so
//! nothing sleeps. A check that is not listed in [`suite`] is dead code, and the compiler says so.

#![expect(
    clippy::unwrap_used,
    reason = "a check whose store cannot answer has failed, and the panic says where"
)]

use std::sync::Arc;

use async_trait::async_trait;

use recado_store::Store;

pub mod faulty;
mod given;
pub mod intercepted;
mod model;
mod property_test;
mod suite;
mod turn_bound;

pub use model::{Restarts, agrees_with_the_reference, agrees_with_the_reference_in_partitions};
pub use turn_bound::a_tenant_waits_for_one_turn_of_each_other_at_most;

/// The place where one store lives, for the length of one test.
#[async_trait]
pub trait Home: Send {
    /// Opens the store that lives here: an empty one the first time, the same one after it was closed or
    /// dropped. A store that several share can be opened again while it is open.
    async fn open(&mut self) -> Arc<dyn Store>;
}

/// Lists checks, module by module, and makes the macro that turns each into a test.
macro_rules! suite {
    ($dollar:tt $macro:ident in $listed:ident { $($module:ident { $($check:ident)+ })+ }) => {
        #[doc(hidden)]
        pub mod $listed {
            $(pub mod $module {
                pub use crate::suite::$module::{$($check),+};
            })+
        }

        /// One test for each check; the argument makes a new [`Home`] for each.
        #[macro_export]
        macro_rules! $macro {
            ($dollar home:expr) => {
                $(mod $module {
                    use super::*;
                    $(#[::tokio::test]
                    async fn $check() {
                        $dollar crate::$listed::$module::$check(&mut $dollar home).await;
                    })+
                })+
            };
        }
    };
}

suite! { $ conformance_tests in checks {
    enqueueing {
        a_new_job_is_found_as_it_was_given
        a_job_without_user_correlation_and_trace_is_found_without_them
        a_job_is_queued_when_due_and_scheduled_before
        the_same_job_again_is_a_duplicate_with_its_status_in_every_phase
        the_same_id_with_another_body_is_a_conflict_in_every_phase
        repetitions_inside_one_batch_are_answered_like_any_other
        an_empty_batch_is_answered_with_nothing
        two_callers_with_the_same_job_at_once_get_one_yes
        ids_that_differ_in_one_character_are_different_jobs
    }
    ordering {
        within_a_tenant_urgency_then_due_time_then_arrival_decide
        the_same_order_holds_over_many_small_claims
        a_late_tenant_with_one_job_is_claimed_within_one_turn_of_a_thousand
        a_tenant_that_arrives_waits_at_most_one_turn_of_each_other_one
        a_job_is_not_claimed_before_it_is_due_and_the_claim_says_when
        a_retry_waits_for_its_own_time_and_then_goes_in_line_by_it
        a_released_job_keeps_its_place_by_the_time_it_was_released_for
        routes_do_not_mix
        many_claims_at_once_give_each_job_once
        a_claim_takes_no_more_than_it_asked_for
    }
    leasing {
        a_lease_carries_the_whole_job_and_shows_who_holds_it
        a_token_leads_to_its_lease_while_it_is_current
        an_extended_lease_ends_later
        a_lease_inside_the_process_is_extended_for_all_to_see
        a_lease_ends_by_its_own_time_whatever_the_wall_clock_said_at_its_claim
        extending_answers_in_order_and_refuses_what_is_not_current
        a_lease_that_ran_out_is_taken_over_with_its_history
        a_lease_that_ran_out_tells_its_provider_however_often_it_is_taken_over
        the_old_holder_is_fenced_off_after_a_takeover
        a_late_holder_may_still_settle_until_another_takes_over
        leases_that_ran_out_are_taken_over_oldest_end_first
        the_attempt_after_a_lost_one_has_the_next_number
        waiting_jobs_whose_time_ran_out_are_picked_whatever_their_route_or_due_time
        only_jobs_that_wait_can_be_overdue
        a_job_given_back_can_become_overdue_again
        no_token_is_ever_given_twice
    }
    settling {
        a_delivered_job_has_ended_well
        a_delivery_without_an_answer_keeps_none
        a_failed_attempt_is_remembered_and_tried_again_at_its_time
        a_postponed_job_has_spent_nothing
        what_had_been_held_up_says_so_however_its_attempt_ends
        a_released_job_is_as_if_it_had_never_been_claimed
        a_release_with_a_lost_attempt_counts_a_crash_and_spends_nothing
        a_buried_job_leaves_a_dead_letter_with_all_that_a_person_needs
        a_job_buried_untried_has_a_dead_letter_without_attempts
        every_class_and_cause_of_a_burial_is_kept
        a_stale_settlement_changes_nothing_at_all
        a_batch_of_settlements_is_answered_in_order
        two_settlements_of_one_token_at_once_have_one_winner
        a_long_history_keeps_its_newest_attempts
    }
    follow_ups {
        every_kind_of_settlement_takes_its_follow_ups_in
        a_follow_up_is_a_job_like_one_that_was_enqueued
        a_stale_settlement_takes_nothing_in
        of_two_settlements_at_once_only_the_winner_is_followed_up
        a_follow_up_whose_id_is_taken_is_left_alone
        a_follow_up_wakes_its_route
        follow_ups_go_in_line_like_all_others
        each_settlement_of_a_batch_is_followed_up_on_its_own
        a_replay_is_followed_up_only_when_it_is_done
        a_discard_is_followed_up_only_when_it_is_done
    }
    cancelling {
        a_job_that_waits_is_cancelled_and_never_claimed
        cancelling_twice_changes_nothing_the_second_time
        it_is_too_late_for_what_is_being_delivered_or_has_ended
        a_replay_called_off_leaves_the_dead_letter_where_it_was
        the_id_of_a_cancelled_job_stays_taken
    }
    replaying {
        a_replay_has_a_fresh_budget_and_the_whole_history
        a_discard_of_an_entry_that_died_again_since_changes_nothing
        a_replay_may_carry_corrected_data
        a_correction_that_fails_again_stands_beside_the_original_and_is_what_goes_out_next
        the_entry_stays_through_retries_and_leaves_only_on_delivery
        a_replay_that_fails_is_the_same_entry_in_the_same_place
        two_replays_at_once_are_one
        only_dead_letters_can_be_replayed
        a_discarded_dead_letter_is_gone_for_good
        a_dead_letter_that_is_replaying_cannot_be_discarded
        a_replay_for_later_waits_for_its_time
        a_checksum_goes_with_a_job_through_failures_and_corrections
    }
    transfer {
        whatever_a_store_knows_of_its_jobs_can_be_given_and_taken
        a_walk_through_all_snapshots_has_no_gap_and_no_repetition
        one_job_can_be_given_alone
        a_lease_does_not_travel
        adopted_jobs_go_on_where_they_were
        an_id_that_is_taken_is_left_alone
        a_writer_that_another_has_shut_out_writes_nothing_more
        a_dead_letter_from_the_archive_takes_the_place_of_its_discarded_job
        adopted_jobs_wake_their_route
        dead_letters_are_taken_in_at_their_places
        the_oldest_dead_letters_come_first_and_none_that_is_replaying
    }
    pruning {
        ended_jobs_are_forgotten_at_their_age_and_not_before
        only_the_newest_ended_jobs_are_kept_when_there_are_too_many
        the_newest_ended_jobs_of_all_companies_are_kept
        jobs_that_end_during_a_prune_push_out_no_others
        jobs_that_ended_in_any_way_count
        a_dead_letter_goes_at_the_end_of_its_time_and_leaves_a_record
        jobs_that_have_not_ended_and_replays_are_never_pruned
        dead_letters_are_not_pruned_as_ended_jobs
        a_replay_called_off_after_its_time_is_kept_for_a_day_and_pruned_then
        a_forgotten_id_is_a_new_job_with_a_trail_of_its_own
        thousands_are_pruned_bite_by_bite
        an_ended_job_is_forgotten_at_once_with_its_records_when_asked
    }
    listing {
        jobs_are_listed_newest_first
        jobs_are_found_by_every_status
        a_filter_by_status_follows_the_time_that_is_asked_about
        jobs_are_found_by_company_route_user_and_correlation
        a_walk_through_all_pages_has_no_gap_and_no_repetition
        jobs_that_arrive_during_a_walk_do_not_disturb_it
        a_cursor_out_of_this_world_is_answered_and_not_feared
        a_page_of_large_data_ends_early_and_a_walk_skips_nothing
        dead_letters_are_found_by_every_filter
        dead_letters_are_found_by_the_time_they_were_moved
        a_reason_is_found_without_regard_to_case_in_any_script_and_literally
        a_walk_sees_each_dead_letter_once_whatever_is_replayed_meanwhile
        what_is_on_its_way_is_in_a_walk_too
        jobs_that_change_during_a_walk_are_seen_once
    }
    counting {
        the_oldest_job_that_is_due_is_told_for_each_route
        counts_follow_each_job_from_place_to_place
        each_stage_is_counted_in_its_place
        jobs_that_leave_the_line_by_another_door_are_not_counted_as_ready
        dead_letters_are_grouped_by_each_key_largest_first
        groups_obey_the_filter_and_show_a_reason
        groups_count_every_entry_and_lose_those_that_leave
    }
    waking {
        a_new_job_wakes_its_route_and_no_other
        a_wake_up_between_two_waits_is_not_lost
        every_listener_of_a_route_is_woken
        a_retry_and_a_replay_wake_too
    }
    audit_log {
        a_trail_tells_a_whole_life_in_order
        what_is_recorded_about_a_job_is_found_on_its_trail
        a_record_about_no_job_is_taken_in_and_belongs_to_none
        a_settlement_keeps_its_record_word_for_word
        t14_the_archiver_reads_the_whole_trail_in_order
        only_what_is_archived_and_old_is_trimmed
        records_of_forgotten_jobs_may_go_before_those_of_others
        a_number_is_not_given_again_whatever_was_trimmed
        what_was_recorded_together_is_forgotten_one_by_one
        what_was_recorded_together_goes_when_none_of_it_is_needed
        t14_many_records_of_one_call_are_read_bite_by_bite
        what_a_job_brought_along_as_archived_is_not_archived_again
    }
    key_value {
        an_entry_is_read_as_it_was_written
        a_namespace_is_read_by_key_and_namespaces_do_not_mix
        a_write_that_expects_nothing_replaces_whatever_is_there
        a_write_happens_only_at_the_version_that_it_expects
        a_removed_entry_is_not_there
        versions_grow_over_all_namespaces
        an_entry_written_again_is_not_taken_for_the_old_one
        an_entry_whose_time_is_over_is_absent_to_every_verb
        an_entry_that_is_over_when_it_is_written_was_never_there
        entries_whose_time_is_over_are_pruned_and_no_others
        thousands_of_entries_are_pruned_bite_by_bite
        a_batch_of_writes_is_answered_in_order_each_on_its_own
        an_entry_and_its_records_are_written_together_or_not_at_all
        changes_at_once_lose_none
    }
} }

suite! { $ turn_tests in turn_checks {
    fairness {
        tenants_take_turns_of_at_most_three
        urgency_does_not_let_one_tenant_overtake_another
        g10_a_tenant_gets_at_most_three_in_a_row_times_its_weight
        g10_the_batch_can_be_tuned_from_claim_to_claim
        g11_turns_go_on_from_claim_to_claim
        g11_the_tenant_served_longest_ago_is_first
        g11_a_tenant_that_comes_back_joins_at_the_back
        g11_a_tenant_with_ten_jobs_does_not_wait_for_twenty_thousand
        g24_weights_of_three_two_and_one_hold_over_a_long_run
        g11_of_a_thousand_tenants_each_gets_its_share_over_every_window
        g22_a_tenant_held_back_is_passed_over_and_keeps_its_place
        g22_a_tenant_gets_no_more_than_its_quota_and_no_other_less_for_it
        a_turn_cut_short_by_a_quota_goes_on_where_it_was
        where_every_tenant_is_held_back_nothing_comes
        a_tenant_held_back_does_not_say_when_there_is_more
        other_picks_know_no_quota
        every_tenth_job_of_a_tenant_is_the_one_due_longest
        urgent_jobs_without_end_do_not_starve_an_old_one
    }
    tenant_stats {
        g12_a_tenant_shows_every_required_field
        g12_waiting_raises_the_priority_round_by_round_and_never_above_the_best
        g12_jobs_in_a_row_are_counted_until_another_tenant_is_served
        rounds_count_only_while_a_job_is_due
        jobs_are_counted_where_they_stand
        jobs_that_leave_by_another_door_are_not_processed
        a_tenant_that_was_served_is_remembered_without_jobs
        tenants_are_found_by_company_and_route
    }
} }

suite! { $ durability_tests in durable_checks {
    durability {
        everything_is_there_after_a_clean_stop
        everything_is_there_when_it_was_not_closed
        ids_stay_taken_in_every_phase
        order_and_due_times_hold
        a_lease_held_outside_outlives_the_process
        work_goes_on_where_it_was
        a_job_after_a_restart_does_not_inherit_the_trail_of_a_forgotten_one
        follow_ups_are_there
        adopted_jobs_are_there
        the_trail_is_there_and_its_numbers_go_on
        entries_are_there_with_their_versions
        no_version_is_given_again
        thousands_come_back
    }
} }

suite! { $ sole_process_tests in sole_checks {
    single_process {
        tenants_stand_by_who_has_been_due_longest
        a_lease_held_inside_is_an_orphan_at_once
    }
} }

suite! { $ shared_tests in shared_checks {
    multi_node {
        a_lease_ends_by_time_alone_whichever_node_opens_the_store
        turns_go_on_through_a_restart
        what_one_node_does_the_others_see
        one_nodes_work_wakes_another
        one_nodes_entries_wake_another
        a_namespaces_version_tells_of_every_change_of_its_entries_and_of_no_others
    }
} }
