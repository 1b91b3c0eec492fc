"""The Flight door: a server for Arrow Flight clients, with downloads, uploads, and named cursors.

It has two processes. In the server process `server.py` holds the port, and `requests.py`, `cursors.py` and
`decisions.py` call the queue. The reader process (`process.py`, `service.py`) does all the work with Arrow. `link.py`
connects the processes, `codec.py` has the requests of clients, and `ipc.py` the records between the two processes.
The server process never imports pyarrow, and no scan runs in it.
"""
