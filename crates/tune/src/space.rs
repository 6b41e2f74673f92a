//! What may be chosen: domains of parameters, and which of them matter when.
