"""What programs expect to fail."""


def error_of(call, kind):
    """Give the error of this kind that the call raises."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")
