"""Programs that say `import ray`."""
