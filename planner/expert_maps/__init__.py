"""Maps of experts: which of them each GPU holds, layer by layer. `find` makes one, `formats` writes it."""
