"""joblib on the processes of a session: `register_ray()`, then `joblib.parallel_config(backend="ray")`."""

from __future__ import annotations

__all__ = ["register_ray"]


def register_ray() -> None:
    """Make "ray" a backend of joblib, in this process."""
    try:
        from joblib.parallel import register_parallel_backend
    except ImportError as error:
        raise ImportError("register_ray() needs joblib: `pip install joblib`", name="joblib") from error
    from eagleray.util.joblib.ray_backend import RayBackend

    register_parallel_backend("ray", RayBackend)
