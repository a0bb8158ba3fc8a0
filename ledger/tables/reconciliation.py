"""Runs that compare the books with the provider, and the discrepancies they name."""
