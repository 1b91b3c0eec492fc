"""Time travel: the time of a namespace is stopped, moved forward and released again."""
