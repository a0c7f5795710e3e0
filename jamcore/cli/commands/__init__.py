"""One module per command: ``command`` is what typer runs; its signature is the command's arguments and its docstring the help."""
