"""`python -m jobs run`: the worker without the web application."""

from jobs.commands import jobs

if __name__ == "__main__":
    jobs(prog_name="python -m jobs")
