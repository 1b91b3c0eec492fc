"""Seeding: topics, subscriptions, queues, schemas and first messages, from a file or a server to a server."""
