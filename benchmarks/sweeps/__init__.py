"""Many runs by one command: jobs, what starts them, and their results in one table."""
