"""The `eagleray` command."""
