"""The version that plans and calibrations say they were made by."""

__version__ = "0.1.0"
