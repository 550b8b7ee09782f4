"""bertlab: a workbench for BERT ablations. Importing it is cheap: heavy libraries load inside what needs them."""

__version__ = "0.1.0"
