"""The engine: matching, protocols and progress, without the GIL and without a device."""
