"""A trained model used: from Python, as ``bertlab.load`` gives it, and by the verbs fill, nsp and generate."""
