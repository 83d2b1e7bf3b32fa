"""The process in which chat templates run: limited memory, killed when late; a template is a stranger's program."""

import contextlib
import datetime
import faulthandler
import json
import os
import re
import warnings
from multiprocessing.connection import Connection
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox
import msgspec

from engine.template_renderer import RenderJob, RenderResult

_MEMORY_BYTES = 256 * 1024 * 1024
_MAX_TEMPLATES = 8
_LIFE_LIMIT_S = 3.0
_ESCAPED = re.compile("[^\x00-\x7e\ue000-\uf8ff]")


class _Undefined(jinja2.Undefined):
    """A name that was not given: nothing, also where text is put together, as in other template engines.

    What is missing inside a value that is there stays an error.
    """

    def __add__(self, other: Any) -> Any:
        return other if self._is_name() and isinstance(other, str | jinja2.Undefined) else super().__add__(other)

    def __radd__(self, other: Any) -> Any:
        return other if self._is_name() and isinstance(other, str) else super().__radd__(other)

    def _is_name(self) -> bool:
        return self._undefined_obj is jinja2.utils.missing


class _GenerationTag(jinja2.ext.Extension):
    """`{% generation %}` marks what is trained on; for us its inside is just printed."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it as an instance attribute)

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def new_environment() -> jinja2.sandbox.SandboxedEnvironment:
    """Return the environment that chat templates are written for (that of the transformers library).

    Some templates change lists, which is harmless here: what a job brings is decoded for that job alone.
    """
    environment = jinja2.sandbox.SandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=_Undefined,
        extensions=[jinja2.ext.loopcontrols, _GenerationTag],
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    environment.globals["datetime"] = _Today()
    return environment


class _Today:
    """What some templates print as `datetime`; without the time of day, which would change every prompt."""

    def __str__(self) -> str:
        return _strftime_now("%B %d, %Y")

    def __add__(self, other: str) -> str:
        return str(self) + other

    def __radd__(self, other: str) -> str:
        return other + str(self)


def run_child(connection: Connection) -> None:
    """Serve render jobs until the other side is gone."""
    with contextlib.suppress(ImportError):  # Windows has no such limit: there only the time is limited
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    warnings.simplefilter("ignore")  # those of a template that is compiled are for nobody
    environment = new_environment()
    compiled: dict[str, jinja2.Template] = {}
    silence = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 (as long as the process)
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        connection.send_bytes(b"ready")
        while True:
            job = msgspec.msgpack.decode(connection.recv_bytes(), type=RenderJob)
            # The parent kills a late child; this ends one whose parent is gone, and needs no turn of Python's.
            faulthandler.dump_traceback_later(_LIFE_LIMIT_S, exit=True, file=silence)
            result = msgspec.msgpack.encode(_render(environment, compiled, job))
            faulthandler.cancel_dump_traceback_later()
            connection.send_bytes(result)


def _render(
    environment: jinja2.sandbox.SandboxedEnvironment, compiled: dict[str, jinja2.Template], job: RenderJob
) -> RenderResult:
    try:
        template = compiled.get(job.template)
        if template is None:
            if len(compiled) >= _MAX_TEMPLATES:
                compiled.clear()
            template = compiled[job.template] = environment.from_string(job.template)
        return RenderResult(text=template.render(**job.variables).encode("utf-8", "replace").decode("utf-8"))
    except MemoryError:
        return RenderResult(error="it needs too much memory")
    except Exception as error:  # a stranger's program may raise anything
        return RenderResult(error=" ".join(f"{type(error).__name__}: {error}".split())[:500])


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON as the transformers library does, and generators as lists.

    No other options: `default` and `cls` would be called without the sandbox. Private characters are never escaped,
    since they stand for the special texts of messages.
    """
    text = json.dumps(
        value, ensure_ascii=False, indent=indent, separators=separators, sort_keys=sort_keys, default=list
    )
    return _ESCAPED.sub(_escape, text) if ensure_ascii else text


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.datetime.now().astimezone().strftime(form)
