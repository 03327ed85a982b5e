"""The program's entry, and the one place that says on which systems it runs."""

import sys

NEEDS_LINUX = (
    "Kernelwright runs on Linux only, this is {system}: candidates are confined by the Linux kernel; "
    "use a Linux machine, a container, or WSL 2 on Windows"
)


def main() -> None:
    """Run the command line; exits 2 with one line on any other system than Linux."""
    if sys.platform != "linux":
        sys.stderr.write(f"error: {NEEDS_LINUX.format(system=sys.platform)}\n")
        sys.exit(2)
    # lazy: imports what only Linux has
    from kernelwright.cli.main import main as run_program

    run_program()


if __name__ == "__main__":
    main()
