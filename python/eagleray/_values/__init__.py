"""What travels and how it is read: pickling, ids, `await`, generators."""
