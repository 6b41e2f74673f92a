"""The cases in the words of other systems, as far as those have them.

A module here offers `open_session() -> (handle, close)`, `worker_pids(handle)`, and `JOBS`: case name to a function
that takes the handle and returns the job. A case that a system cannot express is left out and printed as '-'.
"""
