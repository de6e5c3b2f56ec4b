REASONS: dict[int, str]
