"""`python -m eagleray`."""

from eagleray._cli import main

main()
