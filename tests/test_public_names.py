"""The public names of the libraries: what the application, and anybody else, may rely on."""

import inspect
import typing

import pytest

import engine
import models

LIBRARIES = pytest.mark.parametrize("library", [engine, models], ids=lambda library: library.__name__)


@LIBRARIES
def test_public_names_resolve_and_are_listed_once(library: typing.Any) -> None:
    names = library.__all__
    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(library, name)] == []


@LIBRARIES
def test_public_names_are_public(library: typing.Any) -> None:
    assert [name for name in library.__all__ if name.startswith("_")] == []


@LIBRARIES
def test_everything_that_is_imported_there_is_listed(library: typing.Any) -> None:
    found = {
        name
        for name, value in vars(library).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "annotations"
    }
    assert found - set(library.__all__) == set()


@LIBRARIES
def test_public_classes_and_functions_say_what_they_are(library: typing.Any) -> None:
    wrong = []
    for name in library.__all__:
        value = getattr(library, name)
        is_own = getattr(value, "__module__", "").partition(".")[0] == library.__name__
        if (inspect.isclass(value) or inspect.isfunction(value)) and is_own and not value.__doc__:
            wrong.append(name)
    assert wrong == []


def test_every_message_is_public() -> None:
    messages = {kind.__name__ for kind in (*typing.get_args(engine.Command), *typing.get_args(engine.Event))}
    assert messages - set(engine.__all__) == set()
