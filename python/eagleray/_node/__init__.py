"""What starts and hosts a node, and the process that forks its workers."""
