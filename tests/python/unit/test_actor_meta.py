"""What handles know of their class is shared, and kept no longer than it is of use."""

import gc

from eagleray._calls import actor_meta


def meta_of(number):
    cls = type(f"Counter{number}", (), {"count": lambda self: number})
    return actor_meta.meta_of(cls, {}, number.to_bytes(16, "little"), is_async=False)


def test_handles_of_one_class_share_what_they_know():
    meta = meta_of(1)
    assert all(actor_meta.unpacked(meta.packed) is meta for _ in range(3))


def test_ever_new_classes_leave_only_the_latest_behind():
    # A thousand were kept, at eight kilobytes each, and all forgotten at once: handles of one class then shared nothing any more.
    gc.collect()
    before = set(actor_meta._KNOWN)
    held = meta_of(0)
    for number in range(1, 500):
        meta_of(number)
    gc.collect()
    assert len(set(actor_meta._KNOWN) - before) <= 100
    assert actor_meta.unpacked(held.packed) is held
