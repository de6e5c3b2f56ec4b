PROTOCOLS: dict[str, int]
ARRIVALS: dict[str, int]
DEFAULTS: dict[str, str | int]
