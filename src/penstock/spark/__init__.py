"""Pipelines on Spark: a TOML file of named flows, ready-made flows, and what it takes to run them.

Nothing in this folder imports pyspark, pyarrow or deltalake before it is needed, so that a file is read and checked
without them, and their absence is one sentence.
"""
