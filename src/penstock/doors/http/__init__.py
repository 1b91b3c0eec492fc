"""The HTTP door: is the server alive, is it ready, and what does it count."""
