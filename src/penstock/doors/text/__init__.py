"""The text door: a server for the text protocol of docs/text-protocol.md."""
