"""Moves of messages from a subscription to topics: their list, one move, and the messages that a move takes."""
