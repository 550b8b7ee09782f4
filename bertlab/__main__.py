"""``python -m bertlab`` is the command ``bertlab``."""

from bertlab.cli import main

if __name__ == "__main__":
    main()
