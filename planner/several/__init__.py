"""Several models on one cluster: asked, solved as one program, each its own plan inside one document."""
