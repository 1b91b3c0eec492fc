"""The commands, one file a group; `cli.py` lists them."""
