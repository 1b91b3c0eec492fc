"""Seeds: files that describe topics, subscriptions, queues, schemas and first messages of a server."""
