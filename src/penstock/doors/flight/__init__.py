"""The Arrow Flight door: ranges of topics as record batches, named cursors, and record batches published.

Two processes share the work. `server.py`, `desk.py` and `cursors.py` run in the server and call the queue; everything
that touches Arrow runs in the reader process (`process.py`); `link.py` and `letters.py` are what they
say to each other. The rule kept here: the server's process never imports pyarrow, and no scan runs in it.
"""
