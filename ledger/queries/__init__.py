"""Reads for the desks: each returns exactly what one page shows, filtered by merchant, and locks nothing."""
