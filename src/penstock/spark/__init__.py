"""Pipelines on Spark: a TOML file of named flows, ready-made flows, and the code that runs them.

Modules here import pyspark, pyarrow and deltalake only where they use them. So a pipeline file can be read without
these packages, and a missing package is reported in one sentence.
"""
