"""Azure Queue Storage: every operation, the life of messages, credentials. The emulator is Azurite 3.37.0."""

from __future__ import annotations

from tests.compatibility.rows import NOT_KNOWN, SAME, YES, Row, shown

CREDENTIALS = "doors/azure/test_credentials.py"
ERRORS = "doors/azure/test_errors.py"
EXTRAS = "doors/azure/test_extras.py"
MESSAGES = "doors/azure/test_messages.py"
SERVICE = "doors/azure/test_service.py"
TOKENS = "doors/azure/test_tokens.py"
SDK = "acceptance/test_azure_sdk.py"
SAS = "acceptance/test_azure_sas.py"
DURABLE = "acceptance/test_azure_durability.py"
TRAVEL = "acceptance/test_time_travel_azure.py"

# operation in the Python SDK -> its row
IN_THE_SDK = {
    "service_set_properties": "Set Service Properties",
    "service_get_properties": "Get Service Properties",
    "service_get_statistics": "Get Stats",
    "service_get_user_delegation_key": "Get User Delegation Key",
    "service_get_queues": "List Queues",
    "queue_create": "Create Queue",
    "queue_get_properties": "Get Metadata",
    "queue_delete": "Delete Queue",
    "queue_set_metadata": "Set Metadata",
    "queue_get_access_policy": "Get ACL",
    "queue_set_access_policy": "Set ACL",
    "queue_receive_messages": "Get Messages",
    "queue_clear": "Clear Messages",
    "queue_send_message": "Put Message",
    "queue_peek_messages": "Peek Messages",
    "queue_update_message": "Update Message",
    "queue_delete_message": "Delete Message",
}

OPERATIONS = (
    Row(
        "List Queues",
        "",
        "sorted by name, in pages of up to 5,000",
        "pages of queues made in another order can repeat for ever",
        SAME,
        shown(SERVICE, "test_a_list_is_sorted_paged_and_filtered", "test_a_list_may_include_metadata")
        + shown(DURABLE, "test_twelve_thousand_queues_are_listed_page_by_page"),
    ),
    Row(
        "Get Service Properties",
        "",
        YES,
        YES,
        "yes; logging and metrics are kept and do nothing",
        shown(SDK, "test_service_properties_round_trip"),
    ),
    Row(
        "Set Service Properties",
        "",
        "202; what is left out keeps its value",
        YES,
        SAME,
        shown(SERVICE, "test_properties_that_are_left_out_keep_their_value"),
    ),
    Row(
        "Set Service Properties",
        "more than 5 CORS rules, retention beyond 365 days",
        "400",
        "taken",
        SAME,
        shown(SERVICE, "test_wrong_service_properties_are_refused"),
    ),
    Row(
        "Get Stats",
        "",
        "at the secondary endpoint only",
        YES,
        SAME,
        shown(SERVICE, "test_statistics_are_at_the_secondary"),
    ),
    Row(
        "Get User Delegation Key",
        "",
        "for a bearer token, at most a week",
        "absent: 400 without a body",
        SAME,
        shown(
            TOKENS,
            "test_a_delegated_key_signs_and_the_same_question_has_the_same_key",
            "test_a_key_lasts_a_week_at_most_and_only_users_get_one",
        ),
    ),
    Row(
        "Preflight",
        "",
        "by the CORS rules, without credentials",
        SAME,
        SAME,
        shown(SERVICE, "test_a_preflight_needs_a_rule", "test_an_origin_may_be_any_subdomain"),
    ),
    Row(
        "Create Queue",
        "",
        "201; again with the same metadata 204, with other 409",
        SAME,
        SAME,
        shown(SERVICE, "test_create_is_201_then_204_and_409_with_other_metadata"),
    ),
    Row(
        "Delete Queue",
        "",
        "204; the name is blocked for about 30 s",
        "204; the name is free at once",
        "204; the name is free at once",
        shown(SERVICE, "test_a_deleted_queue_takes_its_messages_metadata_and_policies_with_it"),
    ),
    Row(
        "Get Metadata",
        "",
        "names keep their case; the count includes hidden messages",
        "yes; expired messages are counted until the queue is read",
        SAME,
        shown(SERVICE, "test_metadata_keeps_its_case_is_replaced_and_cleared")
        + shown(MESSAGES, "test_the_count_includes_invisible_messages"),
    ),
    Row(
        "Set Metadata",
        "",
        "replaces all of it",
        YES,
        SAME,
        shown(SERVICE, "test_metadata_keeps_its_case_is_replaced_and_cleared"),
    ),
    Row("Get ACL", "", YES, YES, YES, shown(CREDENTIALS, "test_policies_come_back_as_they_were_given")),
    Row(
        "Set ACL",
        "an identifier without a policy",
        "kept",
        "400",
        SAME,
        shown(CREDENTIALS, "test_policies_come_back_as_they_were_given", "test_invalid_policies_are_refused"),
    ),
    Row("Put Message", "", YES, YES, YES, shown(MESSAGES, "test_a_put_answers_the_id_and_the_receipt")),
    Row(
        "Put Message",
        "empty or blank text",
        "comes back as it was",
        SAME,
        SAME,
        shown(MESSAGES, "test_empty_and_blank_texts_come_back_exactly"),
    ),
    Row(
        "Put Message",
        "`messagettl` -1, or beyond a week",
        "since version 2017-07-29",
        SAME,
        "the same; beyond a century it is cut to one",
        shown(MESSAGES, "test_a_life_of_minus_one_never_ends", "test_a_life_may_be_longer_than_a_week")
        + shown(
            ERRORS,
            "test_a_long_life_needs_a_version_that_knows_it",
            "test_a_time_to_live_that_was_cut_has_a_warning",
        ),
    ),
    Row(
        "Get Messages",
        "",
        "1 message for 30 s, up to 32; about in order",
        "in the order of when they became visible",
        "in the order they were put, also those that come back",
        shown(
            MESSAGES,
            "test_a_get_answers_every_field_in_order_and_counts",
            "test_the_default_timeout_is_30_seconds",
            "test_messages_come_in_the_order_they_were_put",
        ),
    ),
    Row(
        "Get Messages",
        "nothing there",
        "an empty answer at once",
        SAME,
        "the same; with `azure_poll_seconds` it waits",
        shown(EXTRAS, "test_an_empty_get_waits_for_a_message"),
    ),
    Row(
        "Peek Messages",
        "",
        "visible ones, without receipts; nothing changes",
        SAME,
        SAME,
        shown(MESSAGES, "test_a_peek_changes_nothing_and_shows_no_receipt"),
    ),
    Row(
        "Clear Messages",
        "",
        "hidden ones too; may time out",
        "hidden ones too",
        "hidden ones too",
        shown(MESSAGES, "test_a_clear_takes_hidden_messages_too"),
    ),
    Row(
        "Update Message",
        "",
        "a new receipt, time and text; without a body the text stays",
        SAME,
        SAME,
        shown(
            MESSAGES,
            "test_an_update_gives_a_new_receipt_a_new_text_and_a_new_time",
            "test_an_update_without_a_body_keeps_the_text",
        ),
    ),
    Row(
        "Delete Message",
        "",
        "also by the receipt of its put, until it was received",
        SAME,
        SAME,
        shown(MESSAGES, "test_a_put_receipt_is_good_until_the_first_get", "test_a_deleted_message_is_not_found"),
    ),
    Row(
        "Redrive",
        "`POST /{queue}-poison?comp=redrive`",
        "absent",
        "absent",
        "moves poison messages back",
        shown(
            EXTRAS,
            "test_a_message_moves_to_the_poison_queue_and_back",
            "test_only_poison_queues_are_redriven",
        ),
    ),
)

LIFE = (
    Row(
        "receipt",
        "after its visibility timeout",
        "good until the message is received again",
        SAME,
        SAME,
        shown(MESSAGES, "test_a_receipt_outlives_its_timeout_until_the_next_get"),
    ),
    Row(
        "receipt",
        "an old or a foreign one",
        "404 MessageNotFound, by reports; its table of errors has 400 PopReceiptMismatch",
        "400 PopReceiptMismatch",
        "400 PopReceiptMismatch; by a setting 404",
        shown(ERRORS, "test_a_stale_receipt", "test_a_foreign_receipt")
        + shown(EXTRAS, "test_an_old_receipt_may_be_answered_as_azure_does"),
    ),
    Row(
        "visibility",
        "beyond the end of the message's life",
        "taken, though the documentation forbids it",
        "taken",
        "taken",
        shown(MESSAGES, "test_a_visibility_beyond_the_expiry_is_accepted"),
    ),
    Row(
        "kill -9",
        "after puts were answered",
        "nothing is lost",
        "what was put in the last 5 s is lost",
        SAME,
        shown(
            DURABLE,
            "test_ten_answered_puts_survive_a_kill_at_once",
            "test_deletes_updates_and_receipts_survive_as_well",
        ),
    ),
    Row(
        "cost",
        "of a receive in a deep queue",
        NOT_KNOWN,
        "grows with the messages of all queues",
        "the same at any depth",
        shown("doors/azure/test_depth.py", "test_no_operation_costs_more_on_a_deep_queue"),
    ),
    Row(
        "x-ms-version",
        "newer than known",
        NOT_KNOWN,
        "400 InvalidHeaderValue, unless `--skipApiVersionCheck`",
        "taken and echoed",
        shown(ERRORS, "test_any_version_is_accepted_and_echoed"),
    ),
    Row(
        "poison messages",
        "",
        "absent: programs move them",
        "absent",
        "absent; with `azure_poison_after` the server moves them",
        shown(EXTRAS, "test_a_message_moves_to_the_poison_queue_and_back")
        + shown(TRAVEL, "test_a_worker_moves_a_message_to_the_poison_queue_after_five_failures"),
    ),
    Row(
        "host names",
        "account in the host, or in the path",
        "in the host",
        "a name with dots is an account",
        "in the host if the first label is an account, else in the path",
        shown(SERVICE, "test_the_account_may_stand_in_the_host", "test_any_other_host_name_means_path_style"),
    ),
)

WHO = (
    Row(
        "SharedKey, SharedKeyLite",
        "",
        YES,
        YES,
        YES,
        shown(CREDENTIALS, "test_shared_key_and_lite_are_accepted"),
    ),
    Row(
        "SharedKey",
        "a clock more than 15 minutes off",
        "403",
        "not looked at",
        SAME,
        shown(CREDENTIALS, "test_a_clock_more_than_15_minutes_off_is_refused"),
    ),
    Row(
        "account SAS",
        "",
        YES,
        "yes; some operations on messages want `srt=c`",
        "yes; operations on messages want `srt=o`",
        shown(CREDENTIALS, "test_each_operation_needs_its_permission", "test_no_field_of_an_account_sas_can_be_changed")
        + shown(SAS, "test_an_account_sas"),
    ),
    Row(
        "service SAS",
        "",
        YES,
        YES,
        YES,
        shown(CREDENTIALS, "test_a_service_sas_allows_only_its_permissions") + shown(SAS, "test_a_queue_sas"),
    ),
    Row(
        "stored access policy",
        "a part of the fields in it, the others in the SAS",
        "each field from where it is",
        "403",
        SAME,
        shown(CREDENTIALS, "test_each_field_comes_from_the_signature_or_from_the_policy"),
    ),
    Row(
        "user delegation SAS",
        "",
        YES,
        "absent",
        YES,
        shown(TOKENS, "test_no_field_of_a_delegation_can_be_changed") + shown(SAS, "test_a_signed_in_user_delegates"),
    ),
    Row(
        "bearer token",
        "",
        "over TLS; a wrong one is 401 with a challenge",
        "with `--oauth basic`; no challenge",
        SAME,
        shown(
            TOKENS,
            "test_a_token_lets_its_user_in",
            "test_a_token_that_is_not_good_is_challenged",
            "test_without_tls_no_token_counts",
        ),
    ),
)
