"""What others offer for the same work: job engines on PostgreSQL, each with its defaults, in an environment of their own.

`environment` installs them under build/, `engines/` holds one small program each, `run` starts and measures those.
"""
