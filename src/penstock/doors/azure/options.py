"""The settings of the Azure door: `[azure]` of the settings file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from penstock.fields import Accounts, Bytes, Count, File, Port, Projects, Seconds, Switch, one_of, setting

MESSAGE_BYTES_MAX = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureOptions:
    port: Port = setting(10001, "Port of the Azure Queue API.")
    blob_port: Port = setting(
        None, "Port that answers every request with 501, for clients that wait for Azurite's blob port."
    )
    table_port: Port = setting(
        None, "Port that answers every request with 501, for clients that wait for Azurite's table port."
    )
    accounts: Accounts = setting(
        None,
        "Storage accounts, as name:key1[:key2];other:key with keys in Base64. Default: the development account, for "
        "clients on this machine.",
        secret=True,
    )
    projects: Projects = setting(
        (),
        "Project of an account. Default: default_project for the development account, and the project with the "
        "account's name for other accounts.",
    )
    any_account: Switch = setting(
        False,
        "Accept any account with the development key, each in the project of its name, on this machine. For tests.",
    )
    tls_cert: File = setting(None, "TLS certificate, a PEM file. With it, only TLS connections are accepted.")
    tls_key: File = setting(None, "Private key of the certificate, a PEM file.")
    oauth: Annotated[str, one_of("off", "basic", "open")] = setting(
        "off",
        "basic accepts OAuth tokens over TLS from this machine and checks their time, issuer and audience, but not "
        "their signature. open accepts them from everywhere, and every client can forge one.",
    )
    dialect: Switch = setting(
        True, "Serve the paths /queue/{account}/... on this machine. On by default. The flag turns it off."
    )
    receipt_errors: Annotated[str, one_of("azurite", "azure")] = setting(
        "azurite",
        "Error for an old pop receipt: azurite means 400 PopReceiptMismatch, azure means 404 MessageNotFound.",
    )
    wording: Annotated[str, one_of("azure", "azurite")] = setting(
        "azure", "Error messages for OAuth tokens: those of Azure or of Azurite."
    )
    poison_after: Count = setting(0, "Deliveries before a message is moved to the queue NAME-poison. 0 means never.")
    poll_seconds: Seconds = setting(
        0, "Time that Get Messages waits for a message in an empty queue. 0 means not at all."
    )
    message_bytes_max: Bytes = setting(MESSAGE_BYTES_MAX, "Maximum size of a message. Azure's limit is 65536.")
    keep_alive_seconds: Seconds = setting(60, "Close connections that are idle for this time.")
