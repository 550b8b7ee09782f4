"""Exchange: checkpoints of every kind as models, and Hugging Face folders both ways."""
