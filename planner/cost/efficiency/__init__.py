"""How near real kernels and links come to their datasheet: one YAML a device, a generation, and a default."""
