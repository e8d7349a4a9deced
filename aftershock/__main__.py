"""``python -m aftershock``."""

from aftershock.cli import main

if __name__ == "__main__":
    main()
