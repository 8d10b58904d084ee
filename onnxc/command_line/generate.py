"""`onnxc generate`: the tokens behind a prompt, as a model with caches or an artifact of one gives them."""

from pathlib import Path

import click

import onnxc
from onnxc.command_line.shared import ALLOW_LINKS, MODEL, PRECISION, TARGET, THREADS, is_artifact, reporting_errors
from onnxc.runtime.errors import InputError

__all__ = ["generate_command"]


@click.command("generate")
@MODEL
@click.option("--tokens", required=True, metavar="1,2,3", help="The prompt.")
@click.option("--max-new", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many tokens.")
@click.option("--temperature", type=float, default=0.0, show_default=True, help="0 takes the likeliest token.")
@click.option("--top-k", type=int, default=0, show_default=True, help="Draw of so many of the likeliest; 0 of all.")
@click.option("--top-p", type=float, default=1.0, show_default=True, help="Draw of the likeliest that have so much.")
@click.option("--repetition-penalty", type=float, default=1.0, show_default=True, help="Above 1: say less twice.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same one draws the same tokens.")
@click.option("--stop", type=int, multiple=True, metavar="TOKEN", help="End before this token. May be repeated.")
@click.option("--max-length", type=click.IntRange(min=1), help="The most tokens there may be, the prompt among them.")
@click.option(
    "--save", type=click.Path(dir_okay=False, path_type=Path), help="First write what was compiled, as .onnxc."
)
@TARGET
@ALLOW_LINKS
@PRECISION
@THREADS
@reporting_errors
def generate_command(
    model: Path,
    tokens: str,
    max_new: int,
    temperature: float,
    top_k: int,
    top_p: float,
    repetition_penalty: float,
    seed: int,
    stop: tuple[int, ...],
    max_length: int | None,
    save: Path | None,
    target: str,
    precision: str,
    threads: int | None,
    *,
    allow_links: bool,
) -> None:
    """Print the tokens that a decoder puts behind a prompt.

    MODEL is an .onnx file with inputs past_key_values and outputs present, or what --save has written of one.
    """
    if is_artifact(model):
        decoder = onnxc.load_decoder(model, threads=threads, max_length=max_length)
    else:
        decoder = onnxc.compile_decoder(
            model, target, precision=precision, threads=threads, allow_links=allow_links, max_length=max_length
        )
    if save is not None:
        # What is for a GPU may be compiled where there is none, and nothing is generated.
        decoder.save(save)
    generated = decoder.generate(
        _integers(tokens),
        max_new,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
        stop=stop,
    )
    for ordinal, token in enumerate(generated):
        click.echo(f"{',' if ordinal else ''}{token}", nl=False)
    click.echo()


def _integers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as problem:
        message = f"--tokens is {text!r}, expected integers with commas between them"
        raise InputError(message, code="session-tokens") from problem
