"""`LoggingConfig`: how the root logger of a job's processes writes."""

from __future__ import annotations

import dataclasses
import json
import logging
from typing import Any

#: Carries the configuration to a job's workers.
VARIABLE = "EAGLERAY_LOGGING_CONFIG"

#: `ray.logger`: the one that libraries written for Ray write to.
logger = logging.getLogger("ray")

_ENCODINGS = ("TEXT", "JSON")
_SHOWN = ("asctime", "levelname", "message", "filename", "lineno")
_ATTRIBUTES = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
    - {"args", "exc_info", "exc_text", "stack_info"}
)


@dataclasses.dataclass
class LoggingConfig:
    """For `init(logging_config=...)`: the driver's root logger and that of its workers write lines of this kind.

    Attributes:
        encoding: "TEXT" or "JSON".
        log_level: what is written at least.
        additional_log_standard_attrs: attributes of Python's log records to write beside time, level, message and place.
    """

    encoding: str = "TEXT"
    log_level: str = "INFO"
    additional_log_standard_attrs: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        """Check the values."""
        if self.encoding not in _ENCODINGS:
            raise ValueError(f"Invalid encoding type: {self.encoding}. Valid encoding types are: {list(_ENCODINGS)}")
        for name in self.additional_log_standard_attrs:
            if name not in _ATTRIBUTES:
                raise ValueError(
                    f"Unknown python logging standard attribute: {name}. The valid attributes are: {sorted(_ATTRIBUTES)}"
                )

    def to_dict(self) -> dict[str, Any]:
        """Give a plain dict."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> LoggingConfig:
        """Make it from a dict; what it does not know is left out."""
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in given.items() if name in known})

    def apply(self) -> None:
        """Make this process's root logger write so; repeating it changes nothing."""
        root = logging.getLogger()
        for old in [handler for handler in root.handlers if isinstance(handler.formatter, _Formatter)]:
            root.removeHandler(old)
        handler = logging.StreamHandler()
        handler.setFormatter(_Formatter(self))
        root.addHandler(handler)
        root.setLevel(self.log_level)


def apply_from(text: str) -> None:
    """Do what the driver asked for, in a worker."""
    LoggingConfig.from_dict(json.loads(text)).apply()


class _Formatter(logging.Formatter):
    """Writes a record with the ids of the task that made it."""

    def __init__(self, config: LoggingConfig) -> None:
        super().__init__()
        self._config = config

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        record.asctime = self.formatTime(record)
        more = {name: getattr(record, name, None) for name in self._config.additional_log_standard_attrs}
        more |= _ids()
        more["timestamp_ns"] = int(record.created * 1e9)
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        if self._config.encoding == "JSON":
            shown = {name: getattr(record, name) for name in _SHOWN}
            return json.dumps({**shown, **more, **({"exc_text": trace} if trace else {})}, default=str)
        where = f"{record.filename}:{record.lineno}"
        said = " ".join(f"{name}={value}" for name, value in more.items())
        line = f"{record.asctime}\t{record.levelname} {where} -- {record.message} {said}"
        return f"{line}\n{trace}" if trace else line


def _ids() -> dict[str, str]:
    from eagleray import _native
    from eagleray.runtime_context import RuntimeContext

    if not _native.is_joined():
        return {}
    context = RuntimeContext()
    found = {
        "job_id": context.get_job_id(),
        "worker_id": context.get_worker_id(),
        "node_id": context.get_node_id(),
        "actor_id": context.get_actor_id(),
        "actor_name": context.get_actor_name(),
        "task_id": context.get_task_id(),
        "task_name": context.get_task_name(),
        "task_func_name": context.get_task_function_name(),
    }
    return {name: value for name, value in found.items() if value}
