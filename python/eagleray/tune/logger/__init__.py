"""What is written of each trial, and how to write more."""

from eagleray.tune.logger._default import DefaultLogs, default_callbacks
from eagleray.tune.logger.files import (
    DEFAULT_LOGGERS,
    CSVLogger,
    CSVLoggerCallback,
    JsonLogger,
    JsonLoggerCallback,
    TBXLogger,
    TBXLoggerCallback,
)
from eagleray.tune.logger.logger import (
    LegacyLoggerCallback,
    Logger,
    LoggerCallback,
    NoopLogger,
    UnifiedLogger,
    pretty_print,
)

__all__ = [
    "DEFAULT_LOGGERS",
    "CSVLogger",
    "CSVLoggerCallback",
    "DefaultLogs",
    "JsonLogger",
    "JsonLoggerCallback",
    "LegacyLoggerCallback",
    "Logger",
    "LoggerCallback",
    "NoopLogger",
    "TBXLogger",
    "TBXLoggerCallback",
    "UnifiedLogger",
    "default_callbacks",
    "pretty_print",
]
