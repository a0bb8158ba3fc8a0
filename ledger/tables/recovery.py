"""A database that went back in time: generations, and what must be read again before it is paid."""
