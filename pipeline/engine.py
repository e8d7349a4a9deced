"""Beam's options for a run, made once: Beam itself parses them anew for every transform that it looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aftershock.pipeline.quick_beam import beam

_Options: Any = beam.options.pipeline_options.PipelineOptions


class SharedViews(_Options):  # type: ignore[misc]
    """Options whose views are kept. All views of one object share their values, so one of each kind is enough."""

    def view_as(self, cls: type[Any]) -> Any:
        """The view of a kind; Beam asks for some of them once or more for every step of the pipeline."""
        views = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]

    def __getstate__(self) -> dict[str, Any]:
        """What travels: the values alone."""
        return {name: value for name, value in super().__getstate__().items() if name != "_views"}


def beam_options(args: Sequence[str]) -> SharedViews:
    """Beam's options from its arguments; FnApiRunner unless they name another runner.

    Types of steps are checked where the code is (mypy, tests), not each time that a pipeline is put together.
    """
    named = any(arg.split("=")[0] == "--runner" for arg in args)
    runner = [] if named else ["--runner=FnApiRunner", "--no_pipeline_type_check"]
    return SharedViews([*args, *runner, "--no_save_main_session"])
