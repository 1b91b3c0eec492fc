"""Schemas of Pub/Sub: the SchemaService, and messages checked against a schema and decoded by it.

service.py      the methods of the SchemaService           validation.py   messages on their way into a topic
decoding.py     stored messages shown as JSON
avro.py         a schema of Avro, with its encodings in avro_binary.py and avro_json.py
protobuf.py     a schema of protocol buffers, whose text protobuf_parser.py reads
*_compatibility.py   whether a definition can be a revision after an earlier one
"""
