"""Stand-ins for other emulators: the Pub/Sub emulator of gcloud, Azurite, and the formats of their seeds."""
