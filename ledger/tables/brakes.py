"""Limits of people, pause, shadow, automatic approval."""
