"""What compiles beside this process, and what is kept of it: processes that answer jobs, and a folder of results."""
