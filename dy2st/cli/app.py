"""The commands and their options; what they do is in a file for each."""

from __future__ import annotations

import contextlib
import enum
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from dy2st.cli import benching, building, checking, comparing, compressing, exporting, health, running, serving, showing
from dy2st.cli.explaining import explain as explain_function
from dy2st.cli.output import clean, console, told
from dy2st.compressing import pruning, quantizing
from dy2st.errors import Dy2stError
from dy2st_runtime import signatures

app = typer.Typer(
    name="dy2st",
    help="Look at, check, run, convert and compress archives of dy2st, and see what becomes of a function.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Archive = Annotated[Path, typer.Argument(help="An archive that dy2st.save wrote.", show_default=False)]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="[NAME=]FILE",
        help="An argument from a .npy, .npz or .json file, by name or in order. Left out: the examples in the archive.",
    ),
]
Method = Annotated[str, typer.Option("--method", "-m", help="The method to use.")]
Namespaces = Annotated[
    list[str] | None, typer.Option("--namespace", help="Allow operators of another namespace, of a library that is imported.")
]
MaxSteps = Annotated[int | None, typer.Option("--max-steps", min=0, help="Give up after so many loop iterations in one call.")]
Smaller = Annotated[Path, typer.Option("--output", "-o", help="The archive to write.", show_default=False)]
Examples = Annotated[
    list[str] | None,
    typer.Option(
        "--examples",
        "-e",
        metavar="FILE",
        help="Arguments of one call, from a .npy, .npz or .json file. Left out: the examples in the archive.",
    ),
]
Seconds = Annotated[float, typer.Option("--seconds", min=0.0, help="How long to measure each call.")]
Backend = Annotated[str | None, typer.Option("--backend", help="The executor to run with.")]


class Integers(str, enum.Enum):
    """What ``quantize`` makes of weights."""

    int8 = "int8"
    int4 = "int4"


class Pattern(str, enum.Enum):
    """Which weights ``prune`` makes zero."""

    unstructured = "unstructured"
    two_of_four = "2:4"


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Errors that are no defects of the command are told without a traceback; the exit status is 1."""
    try:
        yield
    except (Dy2stError, OSError) as error:
        lines = [f"error: {told(error)}", *map(clean, getattr(error, "__notes__", ()))]
        console(stderr=True).print("\n".join(lines), style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None


@app.command()
def show(
    archive: Archive,
    program: Annotated[bool, typer.Option("--program", "-p", help="Print the programs with the user's lines.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it for other programs.")] = False,
    namespace: Namespaces = None,
) -> None:
    """Show methods, inputs, outputs, state and sizes of an archive."""
    with _told():
        showing.show(archive, program, as_json, namespace or ())


@app.command()
def check(
    archives: Annotated[list[Path], typer.Argument(help="Archives to check; functions with --world.", show_default=False)],
    namespace: Namespaces = None,
    world: Annotated[
        int | None, typer.Option("--world", min=1, help="Check package.model:Net for so many processes: do they always meet?")
    ] = None,
    spec: Annotated[
        list[str] | None, typer.Option("--spec", "-s", metavar="TYPE", help="With --world, an argument, as for dy2st explain.")
    ] = None,
) -> None:
    """Check hashes, structure and operators of archives. The exit status is 1 when one is not whole."""
    with _told():
        if world is None:
            good = checking.check(archives, namespace or ())
        else:
            found = [checking.check_world(str(name), spec or [], world) for name in archives]
            good = all(found)
    if not good:
        raise typer.Exit(1)


@app.command()
def run(
    archive: Archive,
    input: Inputs = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the result to a .npy, .npz or .json file.")] = None,
    method: Method = "forward",
    train: Annotated[bool, typer.Option("--train", help="Run the program for training.")] = False,
    cast: Annotated[bool, typer.Option("--cast", help="Convert arrays to the dtypes that the program takes.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed the random numbers.")] = None,
    max_steps: MaxSteps = None,
    backend: Backend = None,
    namespace: Namespaces = None,
) -> None:
    """Run an archive on files and print or write what it returns."""
    with _told():
        model = running.loaded(archive, namespace or (), backend, max_steps).train(train)
        running.run(model, method, input or [], output, cast, seed)


@app.command()
def export(
    archive: Archive,
    to: Annotated[str | None, typer.Option("--to", help="pt2, onnx or aoti; from the name of the file if left out.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file to write.")] = None,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Do not run the file and compare.")] = False,
    max_growth: Annotated[int | None, typer.Option("--max-growth", help="Room for what grows in loops.")] = None,
    opset: Annotated[int | None, typer.Option("--opset", help="The opset of ONNX.")] = None,
) -> None:
    """Convert an archive to the format of another tool and compare the two."""
    with _told():
        exporting.export(archive, to, output, verify=not no_verify, max_growth=max_growth, opset=opset)


@app.command()
def diff(first: Archive, second: Archive, namespace: Namespaces = None) -> None:
    """Compare two archives: programs, state and weights. The exit status is 1 when they differ."""
    with _told():
        same = comparing.compare(first, second, namespace or ())
    if not same:
        raise typer.Exit(1)


@app.command()
def bench(
    archive: Archive,
    input: Inputs = None,
    method: Method = "forward",
    seconds: Annotated[float, typer.Option("--seconds", min=0.0, help="How long to measure each executor.")] = 2.0,
    backend: Annotated[list[str] | None, typer.Option("--backend", help="The executors to measure; all if left out.")] = None,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Threads of PyTorch.")] = None,
    namespace: Namespaces = None,
) -> None:
    """Measure how long loading and a call take."""
    with _told():
        benching.bench(archive, method, input or [], seconds, backend or [], threads, namespace or ())


@app.command()
def quantize(
    archive: Archive,
    output: Smaller,
    to: Annotated[Integers, typer.Option("--to", help="How many bits a weight takes.")] = Integers.int8,
    examples: Examples = None,
    seconds: Seconds = 1.0,
    backend: Backend = None,
    namespace: Namespaces = None,
) -> None:
    """Write an archive whose weights are small integers, and compare the two."""
    with _told():
        method = functools.partial(quantizing.quantized, to=to.value)
        compressing.compress(archive, output, method, examples or [], seconds, backend, namespace or ())


@app.command()
def prune(
    archive: Archive,
    output: Smaller,
    sparsity: Annotated[float, typer.Option("--sparsity", help="Which part of each weight becomes zero.")] = 0.5,
    structured: Annotated[
        Pattern, typer.Option("--structured", help="Which: the smallest, or two of each four in a row.")
    ] = Pattern.unstructured,
    compact: Annotated[
        bool, typer.Option("--compact", help="Store what is not zero alone: a smaller file, more work at each call.")
    ] = False,
    examples: Examples = None,
    seconds: Seconds = 1.0,
    backend: Backend = None,
    namespace: Namespaces = None,
) -> None:
    """Write an archive whose smallest weights are zero, and compare the two."""
    with _told():
        method = functools.partial(pruning.pruned, sparsity=sparsity, pattern=structured.value, compact=compact)
        compressing.compress(archive, output, method, examples or [], seconds, backend, namespace or ())


@app.command()
def serve(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=]ARCHIVE...", help="Archives, or folders with one for each version.")
    ] = None,
    repository: Annotated[Path | None, typer.Option("--repository", help="A folder of models, which clients load by name.")] = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port of HTTP; 0 for any.")] = 8000,
    grpc_port: Annotated[int, typer.Option("--grpc-port", min=-1, max=65535, help="The port of gRPC; -1 for none.")] = 8001,
    workers: Annotated[int, typer.Option("--workers", min=1, help="How many processes.")] = 1,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Calls of a model at once; one for each core.")] = None,
    torch_threads: Annotated[int | None, typer.Option("--torch-threads", min=1, help="Threads of PyTorch in a call.")] = None,
    max_batch: Annotated[
        int, typer.Option("--max-batch", min=1, help="Calls of a model, of one example each, that run together.")
    ] = 1,
    max_wait_ms: Annotated[float, typer.Option("--max-wait-ms", min=0, help="How long the first of them waits for others.")] = 0.0,
    queue: Annotated[int, typer.Option("--queue", min=1, help="How many calls of a model wait at most.")] = 256,
    timeout: Annotated[float | None, typer.Option("--timeout", min=0.001, help="The most seconds of a request.")] = None,
    max_body: Annotated[int, typer.Option("--max-body", min=1, help="The most bytes of the body of a request.")] = 64 << 20,
    max_held: Annotated[int, typer.Option("--max-held", min=1, help="The most bytes of all bodies at once.")] = 1 << 30,
    max_steps: MaxSteps = None,
    receive_timeout: Annotated[float, typer.Option("--receive-timeout", min=0.1, help="Seconds for a request to arrive.")] = 30.0,
    drain_timeout: Annotated[float, typer.Option("--drain-timeout", min=0.1, help="Seconds for calls to end.")] = 30.0,
    max_connections: Annotated[int, typer.Option("--max-connections", min=1, help="The most connections at once.")] = 4096,
    poll: Annotated[float, typer.Option("--poll", min=0.0, help="Seconds between looks for changed files; 0 for none.")] = 1.0,
    control: Annotated[bool | None, typer.Option("--control/--no-control", help="Let clients load and unload models.")] = None,
    api_key_file: Annotated[
        Path | None, typer.Option("--api-key-file", help=f"A file with the API key; else that of {serving.KEY}.")
    ] = None,
    tls_cert: Annotated[str | None, typer.Option("--tls-cert", help="A file with the certificate, in PEM.")] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", help="A file with its key.")] = None,
    tls_client_ca: Annotated[str | None, typer.Option("--tls-client-ca", help="Who may sign certificates of clients.")] = None,
    require_signature: Annotated[
        str | None,
        typer.Option("--require-signature", metavar="KEY", help="Serve only what this public key has signed."),
    ] = None,
    log_requests: Annotated[bool, typer.Option("--log-requests", help="Log each request.")] = False,
    tracing: Annotated[bool, typer.Option("--tracing", help="Send spans of OpenTelemetry.")] = False,
    backend: Backend = None,
    namespace: Namespaces = None,
) -> None:
    """Serve archives over HTTP and gRPC, by the Open Inference Protocol."""
    options = dict(locals())
    for name in ("models", "api_key_file", "namespace"):
        options.pop(name)
    options |= {"namespaces": tuple(namespace or ()), "grpc_port": None if grpc_port < 0 else grpc_port}
    options["max_wait"] = options.pop("max_wait_ms") / 1000
    options["repository"] = None if repository is None else str(repository)
    with _told():
        status = serving.serve(models or [], api_key_file, **options)
    raise typer.Exit(status)


@app.command()
def sign(
    archive: Archive,
    key: Annotated[Path, typer.Option("--key", help="A file with the private key, in PEM.", show_default=False)],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The signature; beside the archive if left out.")] = None,
) -> None:
    """Sign an archive, by the specification of OpenSSF Model Signing."""
    with _told():
        console().print(clean(f"signed: {signatures.sign(archive, key, output)}"), markup=False, soft_wrap=True)


@app.command()
def verify(
    archive: Archive,
    key: Annotated[Path, typer.Option("--key", help="A file with the public key, in PEM.", show_default=False)],
    signature: Annotated[Path | None, typer.Option("--signature", help="The signature; beside the archive if left out.")] = None,
) -> None:
    """Check that an archive is what the owner of a key has signed. The exit status is 1 when it is not."""
    with _told():
        signatures.verify(archive, key, signature)
        console().print(clean(f"{archive}: signed by the owner of {key}"), markup=False, soft_wrap=True)


@app.command()
def build(
    runner: Annotated[
        bool, typer.Option("--runner", help="Build dy2st-run, which runs saved models without Python, and print where it is.")
    ] = False,
) -> None:
    """Build the native executor now instead of at its first use."""
    with _told():
        building.build(runner)


@app.command()
def doctor() -> None:
    """Say what dy2st finds on this machine, and what is missing for what."""
    if not health.report():
        raise typer.Exit(1)


@app.command()
def explain(
    function: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="As package.model:Net.forward.", show_default=False)],
    spec: Annotated[
        list[str] | None,
        typer.Option("--spec", "-s", metavar="TYPE", help="An argument, as f32[n, 4], i64[], int or a constant of Python."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("explain.html"),
) -> None:
    """Write a page with source, transformed code and program of a function side by side."""
    with _told():
        explain_function(function, spec or [], output)
