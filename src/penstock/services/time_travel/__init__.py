"""Time travel: stopping the time of a namespace, moving it forward and releasing it."""
