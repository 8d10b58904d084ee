"""The command line: which commands there are, and in which module each is.

A command reads its options, calls the public interface, and prints; errors are printed as diagnostics. Its module is
imported when it is called, so that help, completion and what needs no compiler do not wait for the compiler.

Exit codes: 0 when all is well, 1 for an error of the model, the inputs or the device, 2 for wrong usage.
"""

import importlib

import click

import onnxc

__all__ = ["COMMANDS", "load_command", "main"]

# The name of a command, the module that has it as `NAME_command`, and the first sentence of its help.
COMMANDS = {
    "bench": ("bench", "Measure how fast MODEL runs on this machine."),
    "check": ("check", "Print every finding about MODEL."),
    "compile": ("compile", "Compile MODEL into one file, or into a C library."),
    "convert": ("rewrite", "Write MODEL as OUTPUT, in the form that its ending names."),
    "demo": ("demo", "Read handwritten digits with a compiled model."),
    "diff": ("diff", "Compare two runs of a model, B being the one that is right."),
    "doctor": ("doctor", "List what onnxc uses, and what is missing."),
    "extract": ("rewrite", "Write the part of MODEL that computes some values of its graph from others."),
    "generate": ("generate", "Print the tokens that a decoder puts behind a prompt."),
    "infer": ("infer", "Print the type of every value of MODEL."),
    "inline": ("rewrite", "Write MODEL with its functions expanded where they are called."),
    "inspect": ("inspect", "Say what is in a model or an artifact."),
    "merge": ("rewrite", "Write FIRST and SECOND as one model, in which outputs of the one are inputs of the other."),
    "precision": ("precision", "Say what a lower precision costs MODEL."),
    "profile": ("profile", "Say where the time of a call of MODEL goes."),
    "reduce": ("reduce", "Write the smallest model that fails as MODEL does."),
    "rename": ("rewrite", "Write MODEL with other names of values and nodes in its graph, and in the graphs within."),
    "repair": ("rewrite", "Write MODEL without those breaches of the standard that can mean one thing only."),
    "report": ("report", "Say how a model was compiled."),
    "run": ("run", "Call MODEL, an .onnx or .onnxc file, once."),
    "schema": ("schema", "Print what an operator takes and gives."),
    "serve": ("serve", "Serve the models of a folder over the Open Inference Protocol V2."),
    "shard": ("shard", "Write MODEL with annotations that divide it over tp * pp * dp devices."),
    "simulate": ("simulate", "Say what a call of MODEL should cost on the devices of a configuration."),
    "split": ("rewrite", "Write MODEL in two: what computes some values of its graph, and what goes on from them."),
    "train": ("train", "Train MODEL, and write it with its new weights."),
    "verify": ("verify", "Say whether every byte of an artifact is what was written."),
}


def load_command(name: str) -> click.Command:
    """The command of that name, of those in COMMANDS."""
    module, _ = COMMANDS[name]
    command: click.Command = getattr(importlib.import_module(f"onnxc.command_line.{module}"), f"{name}_command")
    return command


VERBOSE = "--verbose"


class LazyGroup(click.Group):
    """A group whose members know their names and a line of help; the one that is called is loaded in its place."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments that are left for the command, behind which `--verbose` may stand, too."""
        end = args.index("--") if "--" in args else len(args)
        if VERBOSE in args[:end]:
            args = [VERBOSE, *(argument for argument in args[:end] if argument != VERBOSE), *args[end:]]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments call, and the arguments that are left for it. Completion asks here too."""
        name, known, rest = super().resolve_command(ctx, args)
        return name, None if known is None else load_command(known.name or ""), rest


def print_version(context: click.Context, _option: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not context.resilient_parsing:
        click.echo(f"onnxc, version {onnxc.__version__}")
        context.exit()


@click.group(
    cls=LazyGroup,
    commands=[click.Command(name, short_help=line) for name, (_, line) in COMMANDS.items()],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Show the version and exit.",
)
@click.option(VERBOSE, is_flag=True, help="Log what is being done; else only a terminal shows it.")
def main(verbose: bool) -> None:
    """Compiles ONNX models to native code, and runs them.

    \b
    onnxc demo                                     see it work
    onnxc compile model.onnx --dim batch=1..64     model.onnx becomes model.onnxc
    onnxc run model.onnxc                          a call on random inputs
    """
