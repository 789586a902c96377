"""`meshwright report`: plans as one page that people pass on: no network, any screen, light and dark."""
