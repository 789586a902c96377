"""`meshwright import`: commands and manifests that start servers, read back without any plan at hand."""
