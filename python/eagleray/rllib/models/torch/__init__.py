"""Models of one's own that are torch's modules, as older programs write them."""
