"""The paper's experiments, one file each: a Config, and run(config) -> Result. Needs the extra `experiments`."""
