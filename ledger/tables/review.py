"""Settling what only a person can settle, and what follows when money comes back late."""
