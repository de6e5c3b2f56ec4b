"""Receiver-initiated rendezvous: which send an RTR is meant for."""
