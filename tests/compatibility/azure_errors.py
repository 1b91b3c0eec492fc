"""Azure Queue Storage: every error code of the service, of Penstock's door and of the door's dialect."""

from __future__ import annotations

from tests.compatibility.azure import CREDENTIALS, ERRORS, EXTRAS, SERVICE, TOKENS
from tests.compatibility.rows import NEVER, SAME, YES, Row, shown

DIALECT = "doors/azure/test_dialect.py"
FAULTS = "acceptance/test_faults_azure.py"
ABSENT = "never"  # not in src/queue/errors/StorageErrorFactory.ts
OF_THE_DIALECT = "not its code"

WRONG_SAS = shown(CREDENTIALS, "test_every_restriction_of_an_account_sas_is_enforced")
METADATA = shown(ERRORS, "test_invalid_metadata")
DIGEST = shown(ERRORS, "test_a_body_must_match_its_md5")
ASKED_FOR = shown(ERRORS, "test_a_code_that_only_fault_injection_uses")
NAMES = shown(ERRORS, "test_an_invalid_queue_name")

REQUESTS = (
    Row("EmptyMetadataKey", "", "400", ABSENT, SAME, METADATA),
    Row(
        "InvalidHeaderValue",
        "a version that is no date",
        "400",
        "400, also for a version newer than it knows",
        SAME,
        shown(ERRORS, "test_an_invalid_version") + shown(SERVICE, "test_a_preflight_needs_its_headers"),
    ),
    Row(
        "InvalidInput",
        "not HTTP",
        "400",
        ABSENT,
        SAME,
        shown(ERRORS, "test_what_is_not_http_is_refused_in_xml"),
    ),
    Row("InvalidMd5", "", "400", ABSENT, SAME, DIGEST),
    Row("InvalidMetadata", "", "400", ABSENT, SAME, METADATA),
    Row(
        "InvalidQueryParameterValue",
        "not a number, an invalid time to live, an invalid receipt",
        "400 with the parameter and a reason",
        "400, often without a body",
        SAME,
        shown(ERRORS, "test_an_invalid_value"),
    ),
    Row("InvalidResourceName", "characters of a name", "400", YES, SAME, NAMES),
    Row("InvalidUri", "an invalid path", "400", YES, SAME, shown(ERRORS, "test_unknown_operations")),
    Row(
        "InvalidXmlDocument",
        "",
        "400",
        "400, often without a body",
        "the same; also where content would be lost",
        shown(ERRORS, "test_bad_xml", "test_no_content_is_lost")
        + shown(CREDENTIALS, "test_invalid_policies_are_refused"),
    ),
    Row("InvalidXmlNodeValue", "", "400", ABSENT, SAME, shown(SERVICE, "test_an_invalid_property_is_named")),
    Row("Md5Mismatch", "", "400", ABSENT, SAME, DIGEST),
    Row("MetadataTooLarge", "beyond 8 KiB", "400", ABSENT, SAME, METADATA),
    Row(
        "MissingRequiredQueryParameter",
        "an update without `visibilitytimeout`",
        "400",
        "400 without a body",
        SAME,
        shown(ERRORS, "test_an_update_needs_its_timeout"),
    ),
    Row(
        "OutOfRangeInput",
        "length of a name; a marker of another account",
        "400",
        "for names; markers are not checked",
        SAME,
        NAMES + shown(ERRORS, "test_unknown_operations"),
    ),
    Row(
        "OutOfRangeQueryParameterValue",
        "",
        "400 with the bounds",
        "yes; `numofmessages=0` is 400 without a body",
        SAME,
        shown(ERRORS, "test_a_number_out_of_range"),
    ),
    Row(
        "RequestBodyTooLarge",
        "text beyond 65,536 bytes",
        "413 with the limit",
        YES,
        "the same; the limit is a setting",
        shown(ERRORS, "test_a_text_over_the_limit", "test_a_body_over_the_limit_of_the_server")
        + shown(EXTRAS, "test_messages_may_be_larger_where_the_operator_says_so"),
    ),
    Row(
        "UnsupportedHeader",
        "Content-Encoding",
        "400",
        ABSENT,
        "same; no body is unpacked",
        shown(ERRORS, "test_a_compressed_body_is_refused"),
    ),
    Row("UnsupportedHttpVerb", "", "405", ABSENT, SAME, shown(ERRORS, "test_unknown_operations")),
)

STATES = (
    Row("MessageNotFound", "", "404", YES, SAME, shown(ERRORS, "test_an_unknown_message")),
    Row(
        "PopReceiptMismatch",
        "",
        "400 in its table; reports have 404 MessageNotFound",
        YES,
        "400; by a setting 404 MessageNotFound",
        shown(ERRORS, "test_a_stale_receipt") + shown(EXTRAS, "test_an_old_receipt_may_be_answered_as_azure_does"),
    ),
    Row(
        "QueueAlreadyExists",
        "with other metadata",
        "409",
        YES,
        SAME,
        shown(SERVICE, "test_create_is_201_then_204_and_409_with_other_metadata"),
    ),
    Row("QueueNotFound", "", "404", YES, SAME, shown(ERRORS, "test_an_unknown_queue")),
    Row("ResourceNotFound", "an unknown account", "404", ABSENT, SAME, shown(ERRORS, "test_an_unknown_account")),
    Row(
        "ServerBusy",
        "",
        "503",
        ABSENT,
        "503: no memory, a full disk, a server that stops",
        shown(ERRORS, "test_overload_is_server_busy")
        + shown("doors/azure/test_memory.py", "test_a_message_without_memory_is_server_busy"),
    ),
    Row(
        "InternalError",
        "",
        "500",
        YES,
        "500; the text of the fault is in the log only",
        shown(ERRORS, "test_a_bug_is_an_internal_error_without_details"),
    ),
    Row(
        "OperationTimedOut",
        "",
        "500, a clear of a large queue for one",
        ABSENT,
        "only where a fault of a test asks for it",
        ASKED_FOR + shown(FAULTS, "test_the_client_gives_up_after_three_retries"),
    ),
)

REFUSALS = (
    Row("AuthenticationFailed", "", "403", YES, SAME, shown(CREDENTIALS, "test_bad_credentials")),
    Row(
        "AuthorizationFailure",
        "",
        "403",
        YES,
        SAME,
        shown(TOKENS, "test_a_token_is_enough_for_policies_since_a_version_of_the_service"),
    ),
    Row("AuthorizationPermissionMismatch", "", "403", YES, SAME, WRONG_SAS),
    Row("AuthorizationProtocolMismatch", "", "403", YES, SAME, WRONG_SAS),
    Row("AuthorizationResourceTypeMismatch", "", "403", YES, SAME, WRONG_SAS),
    Row("AuthorizationServiceMismatch", "", "403", YES, SAME, WRONG_SAS),
    Row("AuthorizationSourceIPMismatch", "", "403", YES, SAME, WRONG_SAS),
    Row("CorsPreflightFailure", "", "403", YES, SAME, shown(SERVICE, "test_a_preflight_needs_a_rule")),
    Row(
        "InsufficientAccountPermissions",
        "a change at the secondary endpoint",
        "403",
        ABSENT,
        SAME,
        shown(SERVICE, "test_the_secondary_only_reads"),
    ),
    Row(
        "InvalidAuthenticationInfo",
        "a bearer token that is not good",
        "401 with a challenge",
        "400, without a challenge",
        SAME,
        shown(TOKENS, "test_a_token_that_is_not_good_is_challenged"),
    ),
    Row("AccountIsDisabled", "", "403", ABSENT, "only where a fault of a test asks for it", ASKED_FOR),
)

DIALECT_CODES = (
    Row(
        "InvalidMessageContent",
        "`/queue/...`, empty text",
        OF_THE_DIALECT,
        ABSENT,
        "400",
        shown(DIALECT, "test_put_message_refuses_empty_text_and_unknown_queues"),
    ),
    Row(
        "InvalidPopReceipt",
        "`/queue/...`, an old receipt",
        OF_THE_DIALECT,
        ABSENT,
        "400",
        shown(DIALECT, "test_delete_message_validates_its_receipt"),
    ),
    Row(
        "InvalidQueryParameter",
        "`/queue/...`, an unknown `comp`",
        OF_THE_DIALECT,
        ABSENT,
        "400",
        shown(DIALECT, "test_error_codes_of_the_dialect"),
    ),
    Row(
        "InvalidQueueName",
        "`/queue/...`, a bad name",
        OF_THE_DIALECT,
        ABSENT,
        "400",
        shown(DIALECT, "test_error_codes_of_the_dialect"),
    ),
)

# code -> status and Penstock's answer instead
_NEVER = {
    "AccountAlreadyExists": ("409", "accounts are settings"),
    "AccountBeingCreated": ("409", "accounts are settings"),
    "ConditionHeadersNotSupported": ("400", "ignored"),
    "ConditionNotMet": ("304 or 412", "ignored"),
    "InvalidHttpVerb": ("400", "UnsupportedHttpVerb"),
    "InvalidMarker": ("400 in its table; OutOfRangeInput was seen", "OutOfRangeInput"),
    "InvalidRange": ("416", "nothing has ranges"),
    "MessageTooLarge": ("400 in its table; RequestBodyTooLarge was seen", "RequestBodyTooLarge"),
    "MissingContentLengthHeader": ("411", "read as a request without a body"),
    "MissingRequiredHeader": ("400", "InvalidHeaderValue, AuthenticationFailed"),
    "MissingRequiredXmlNode": ("400", "InvalidXmlDocument"),
    "MultipleConditionHeadersNotSupported": ("400", "ignored"),
    "NoAuthenticationInformation": ("401", "AuthenticationFailed"),
    "QueueBeingDeleted": ("409 for about 30 s after a delete", "the name is free at once"),
    "QueueDisabled": ("409", "no queue can be disabled"),
    "QueueNotEmpty": ("409", "queues are deleted with their messages"),
    "RequestUrlFailedToParse": ("400", "InvalidUri"),
    "ResourceAlreadyExists": ("409", "QueueAlreadyExists"),
    "ResourceTypeMismatch": ("409", "there is one type"),
    "UnsupportedQueryParameter": ("400", "ignored"),
    "UnsupportedXmlNode": ("400", "InvalidXmlDocument"),
}
PASSED_OVER = shown(ERRORS, "test_unknown_parameters_and_headers_are_ignored")
_OF_AZURITE = {"MessageTooLarge": "400 in its list"}

NOT_SENT = tuple(
    Row(
        code,
        f"here: {instead}",
        status,
        _OF_AZURITE.get(code, ABSENT),
        NEVER,
        PASSED_OVER if "ignored" in instead else (),
    )
    for code, (status, instead) in _NEVER.items()
)
