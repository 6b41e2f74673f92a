"""What programs import of Ray's cluster launcher. There is one machine here, and nothing that starts others."""
