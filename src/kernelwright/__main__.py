"""``python -m kernelwright``."""

from kernelwright.cli.main import main

if __name__ == "__main__":
    main()
