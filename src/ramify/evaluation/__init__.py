"""Metrics as pure functions, and any-time evaluation."""
