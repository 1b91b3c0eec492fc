"""The HTTP door: health, readiness, metrics, the admin API and the console."""
