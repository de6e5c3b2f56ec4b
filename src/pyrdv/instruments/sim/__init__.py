"""In-process fabric under a virtual clock; a test chooses the order of events."""
