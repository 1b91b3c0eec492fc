"""The text door: the message protocol of docs/text-protocol.md on a socket."""
