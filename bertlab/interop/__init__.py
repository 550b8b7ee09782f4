"""Exchange: checkpoints of every kind that bertlab reads, Hugging Face folders both ways, and models for use from Python."""
