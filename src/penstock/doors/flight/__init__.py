"""The Arrow Flight door: ranges of topics as record batches, named cursors, and record batches published.

Two processes share the work. In the server `server.py` holds the port, and `requests.py`, `cursors.py` and
`decisions.py` call the queue; everything that touches Arrow runs in the reader process (`process.py`, `service.py`).
`link.py` connects them, `codec.py` has what clients send and `ipc.py` what the two have between themselves.
The server's process never imports pyarrow, and no scan runs in it.
"""
