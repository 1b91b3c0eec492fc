"""Decisions above the engine that more than one door needs. Services call the port of the queue, as doors do."""
