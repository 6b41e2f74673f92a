"""What a call needs before it leaves: options, signatures, placement, what handles know of their actor."""
