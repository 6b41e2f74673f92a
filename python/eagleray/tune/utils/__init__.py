"""Small helpers that programs import from here."""

from eagleray.tune.utils.util import flatten_dict, merge_dicts, unflatten_dict, validate_save_restore

__all__ = ["flatten_dict", "merge_dicts", "unflatten_dict", "validate_save_restore"]
