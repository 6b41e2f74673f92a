"""Who proposes configurations."""
