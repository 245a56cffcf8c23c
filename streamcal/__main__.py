"""``python -m streamcal`` is the command ``streamcal``."""

from streamcal.cli.main import main

if __name__ == "__main__":
    main()
