"""`python -m onnxc`: the command line."""

from onnxc.command_line.main import main

if __name__ == "__main__":
    main()
