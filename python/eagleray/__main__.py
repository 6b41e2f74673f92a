"""`python -m eagleray`."""

from eagleray._cli.main import main

main()
