"""The verbs fabric in whole jobs: traffic, failures, limits, hostile peers."""
