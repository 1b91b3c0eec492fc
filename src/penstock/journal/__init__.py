"""The journals: they remember what the broker decided, and give it back after a restart."""
