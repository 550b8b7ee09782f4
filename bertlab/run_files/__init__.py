"""What a run's folder holds, and how its files are read and written. Training fills such folders, interop makes models of them."""
