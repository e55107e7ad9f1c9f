//! The failure table: what becomes of a call that needs a ticket in forty situations, each shown against the real proxy on
//! one kind of store. Each row is a function, so that every store has the same ones. Rows that need more than one store or
//! proxy, or a person's own tools, are shown elsewhere: see [`ELSEWHERE`].

pub mod desk;
pub mod floods;
#[expect(dead_code, reason = "tests of callers use the rest")]
#[path = "../../serve/identity/issuer.rs"]
pub mod issuer;
pub mod mandates;
pub mod matching;
pub mod once;
pub mod outcomes;
pub mod people;
pub mod shown;
pub mod stores;
pub mod today;

/// Every row of the table, by a macro of the crate that makes tests of them.
macro_rules! every_row {
    ($by:ident, $shelf:path) => {
        $by! { $shelf;
            matching {
                row_01_a_gated_call_without_a_ticket
                row_02_the_same_call_fifty_times
                row_06_one_argument_changed
                row_07_another_spelling
                row_08_what_readers_read_differently
                row_09_another_caller
                row_10_another_upstream_or_tool
                row_32_words_and_flags_of_the_model
            }
            once {
                row_03_approved_then_sent_once
                row_04_again_after_success
                row_05_a_hundred_at_once
                row_26_the_client_leaves_while_held
            }
            today {
                row_11_the_definition_changed
                row_13_the_object_changed
                row_37_keys_were_rotated
                row_12_the_policy_was_tightened
                row_14_expired_and_the_clock_steps_back
            }
            people {
                row_15_revoked_while_held
                row_16_the_requester_approves
                row_17_one_person_twice
                row_18_an_agents_credential
                row_19_approve_and_deny_race
            }
            outcomes {
                row_20_the_upstream_refuses_the_connection
                row_21_the_upstream_answers_with_an_error
                row_22_the_upstream_times_out
                row_22_sent_once_more_under_its_key
                row_23_killed_before_the_receipt
                row_24_killed_after_the_receipt
                row_25_what_became_of_it
            }
            stores {
                row_27_the_store_is_gone
                a_webhook_that_is_never_answered_holds_up_nobody
            }
            shown {
                row_33_padded_and_reordered_arguments
                row_38_an_injection_in_a_receipt
            }
            mandates {
                row_34_two_calls_under_one_mandate
                row_34_what_a_mandate_pins
                row_34_whoever_gave_it_may_not_any_more
                row_34_the_rule_asks_for_more_by_now
                row_34_what_may_have_been_done_stays_spent
                row_37_the_key_of_a_signed_mandate_was_taken_out
            }
            floods {
                row_35_a_batch
                row_36_a_gated_call_in_a_generic_tool
                row_39_a_prepared_row
                row_40_a_flood
            }
        }
    };
}

pub(crate) use every_row;

/// Rows of the table that are shown elsewhere: the row, the file, and what the test is called there.
pub const ELSEWHERE: [(usize, &str, &str); 9] = [
    // Two nodes redeem at once.
    (28, "databases/tickets.rs", "of_two_processes_one_redeems"),
    (
        28,
        "databases/tickets.rs",
        "two_proxies_send_an_approved_call_once",
    ),
    // Failover to a replica that lags.
    (
        29,
        "databases/tickets.rs",
        "a_server_that_has_forgotten_is_not_believed",
    ),
    (
        29,
        "databases/tickets.rs",
        "what_a_lost_process_was_redeeming_is_unknown_and_its_own_word_comes_too_late",
    ),
    // A forged or stale signature, a click that comes again.
    (30, "tickets/slack.rs", "a_forged_or_stale_request_is_401"),
    (
        30,
        "tickets/slack.rs",
        "a_click_answers_once_and_a_second_one_does_nothing",
    ),
    (
        30,
        "tickets/webhook.rs",
        "the_snippet_of_the_page_tells_ours_from_forged",
    ),
    // A mail scanner opens the link.
    (
        31,
        "tickets/api.rs",
        "nothing_changes_by_reading_and_unknown_things_are_named",
    ),
    (
        31,
        "page/run.mjs",
        "a link on another site, or in a mail, leads to the page and changes nothing",
    ),
];
