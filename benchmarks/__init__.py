"""Measurements without assertions: each script prints rates, CPU per message and the ratio to a peer."""
