"""The fabrics: what moves packets and memory between ranks."""
