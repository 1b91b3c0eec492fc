"""The settings of the Azure door: `[azure]` of the settings file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from penstock.fields import Accounts, Bytes, Count, File, Port, Projects, Seconds, Switch, one_of, setting

MESSAGE_BYTES_MAX = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureOptions:
    port: Port = setting(10001, "Azure Queue Storage.")
    blob_port: Port = setting(None, "Answers every request with 501, for clients that wait for Azurite's blob port.")
    table_port: Port = setting(None, "The same for its table port.")
    accounts: Accounts = setting(
        None,
        "name:key1[:key2];other:key, keys in Base64. Without: the development account, for callers on this machine.",
        secret=True,
    )
    projects: Projects = setting(
        (),
        "Where the queues of an account live. Without: those of the development account in default_project, "
        "those of another in the project of its name.",
    )
    any_account: Switch = setting(
        False, "Every account is there, with the development key and a project of its name, on this machine: for tests."
    )
    tls_cert: File = setting(None, "Certificate, PEM; with it the door speaks TLS only.")
    tls_key: File = setting(None, "Its private key, PEM.")
    oauth: Annotated[str, one_of("off", "basic", "open")] = setting(
        "off",
        "basic: accept bearer tokens over TLS from this machine, checked for time, issuer and audience, not for their "
        "signature. open: accept them from everywhere, so every caller can forge one.",
    )
    dialect: Switch = setting(True, "The paths of the specification, /queue/{account}/..., on this machine.")
    receipt_errors: Annotated[str, one_of("azurite", "azure")] = setting(
        "azurite", "An old pop receipt is 400 PopReceiptMismatch; azure: 404 MessageNotFound."
    )
    poison_after: Count = setting(0, "Deliveries before a message moves to the -poison queue; 0: never.")
    poll_seconds: Seconds = setting(0, "How long an empty Get waits for a message; 0: not at all.")
    message_bytes_max: Bytes = setting(MESSAGE_BYTES_MAX, "More is for clients that do not check the size.")
    keep_alive_seconds: Seconds = setting(60, "How long an idle connection is kept.")
