"""Instruments for the verbs fabric; they are built where that is."""
