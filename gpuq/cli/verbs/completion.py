"""`gpuq completion SHELL`: print the lines that make a shell complete verbs, options, ids and hosts."""

from __future__ import annotations

from gpuq.cli.arguments import Parser

_SHELLS = ("bash", "zsh", "fish")


def run(words: list[str]) -> int:
    """Print them."""
    parser = Parser(
        "completion",
        "Print the lines that make your shell complete `gpuq`. For good:\n"
        "  bash: echo 'eval \"$(gpuq completion bash)\"' >> ~/.bashrc\n"
        "  zsh:  echo 'eval \"$(gpuq completion zsh)\"' >> ~/.zshrc, below compinit\n"
        "  fish: gpuq completion fish > ~/.config/fish/completions/gpuq.fish",
    )
    parser.add_argument("shell", choices=_SHELLS)
    options = parser.parse_args(words)
    from argcomplete.shell_integration import shellcode

    print(shellcode(["gpuq"], shell=options.shell))
    return 0
