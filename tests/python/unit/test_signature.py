"""A wrong call fails at once and in Python's words; a compiled signature agrees with Python on every call."""

import functools
import inspect
import itertools

import pytest

from eagleray._calls.signature import compile_constructor, compile_signature


def plain(a, b):
    pass


def with_default(a, b=1):
    pass


def keyword_only(a, *, k, d=1):
    pass


def positional_only(a, /, b):
    pass


def positional_only_default(a, b=1, /, c=2, *, d=3):
    pass


def args(*args):
    pass


def kwargs(a, **kwargs):
    pass


def everything(a, /, b, *args, k, **kwargs):
    pass


def positional_only_and_kwargs(a, /, **kwargs):
    pass


def nothing():
    pass


def internal_names(args, kwargs, self, function, name):
    pass


FUNCTIONS = [
    plain,
    with_default,
    keyword_only,
    positional_only,
    positional_only_default,
    args,
    kwargs,
    everything,
    positional_only_and_kwargs,
    nothing,
    internal_names,
    functools.partial(plain, 1),
    functools.partial(plain, a=1),
    functools.partial(everything, 1, k=2),
    functools.partial(with_default, b=1),
    lambda a, b=1, *c, d, **e: None,
]

POSITIONAL = [(), (1,), (1, 2), (1, 2, 3)]
KEYWORDS = [dict.fromkeys(names) for size in range(4) for names in itertools.combinations(("a", "b", "k", "z"), size)]

# What can be wrong with a call's arguments, in Python's words.
COMPLAINTS = r"\(\) (missing \d|takes \d|takes from \d|got an unexpected keyword argument|got multiple values for|got some positional-only)"


@pytest.mark.parametrize("function", FUNCTIONS)
def test_T1_agrees_with_python(function):
    signature = compile_signature(function, skip_self=False)
    for positional, keywords in itertools.product(POSITIONAL, KEYWORDS):
        try:
            function(*positional, **keywords)
            is_right = True
        except TypeError:
            is_right = False
        if is_right:
            signature.check(positional, keywords)
        else:
            with pytest.raises(TypeError, match=COMPLAINTS):
                signature.check(positional, keywords)


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if not isinstance(f, functools.partial)])
def test_T1_says_what_python_says(function):
    signature = compile_signature(function, skip_self=False)
    for positional, keywords in itertools.product(POSITIONAL, KEYWORDS):
        try:
            function(*positional, **keywords)
        except TypeError as error:
            expected = str(error)
        else:
            continue
        with pytest.raises(TypeError, match=COMPLAINTS) as caught:
            signature.check(positional, keywords)
        # Python mentions keyword-only arguments when it complains about too many positional ones; we keep to the point.
        if "keyword-only argument" not in expected or "missing" in expected:
            assert str(caught.value) == expected


@pytest.mark.parametrize("function", FUNCTIONS)
def test_T1_numbers_alone_decide_on_calls_without_keywords(function):
    signature = compile_signature(function, skip_self=False)
    for count in range(7):
        upper = signature.max_positional
        is_right = signature.plain and signature.min_positional <= count and (upper == -1 or count <= upper)
        try:
            inspect.signature(function).bind(*range(count))
            assert is_right
        except TypeError:
            assert not is_right


@pytest.mark.parametrize(
    ("function", "numbers"),
    [
        (plain, (2, 2, True)),
        (with_default, (1, 2, True)),
        (keyword_only, (1, 1, False)),
        (args, (0, -1, True)),
        (everything, (2, -1, False)),
        (nothing, (0, 0, True)),
    ],
)
def test_numbers_for_native_code(function, numbers):
    signature = compile_signature(function, skip_self=False)
    assert (signature.min_positional, signature.max_positional, signature.plain) == numbers


class Actor:
    def __init__(self, a, b=1):
        pass

    def method(self, x):
        pass

    def any_self(*args):
        pass

    @classmethod
    def of_class(cls, x):
        pass

    @staticmethod
    def static(x):
        pass

    @functools.wraps(method)
    def wrapped(self, *args, **kwargs):
        pass


@pytest.mark.parametrize("name", ["method", "of_class", "static"])
@pytest.mark.parametrize(
    "lookup", [getattr, lambda cls, name: vars(cls)[name], lambda cls, name: getattr(cls(1), name)]
)
def test_T1_methods(name, lookup):
    function = lookup(Actor, name)
    # What `static` is cannot be seen on the plain function that its class hands out.
    signature = compile_signature(function, skip_self=name != "static")
    signature.check((1,), {})
    signature.check((), {"x": 1})
    for positional, keywords, text in [
        ((), {}, "missing 1 required positional argument: 'x'"),
        ((1, 2), {}, "takes 1 positional argument but 2 were given"),
        ((1,), {"x": 1}, "got multiple values for argument 'x'"),
        ((1,), {"y": 1}, "got an unexpected keyword argument 'y'"),
    ]:
        with pytest.raises(TypeError, match=rf"Actor\.{name}\(\) {text}"):
            signature.check(positional, keywords)


def test_T1_self_among_star_args():
    signature = compile_signature(Actor.any_self, skip_self=True)
    signature.check((1, 2, 3), {})
    assert signature.max_positional == -1


def test_T1_text_counts_without_self():
    with pytest.raises(TypeError, match=r"^Actor\.method\(\) takes 1 positional argument but 2 were given$"):
        compile_signature(Actor.method, skip_self=True).check((1, 2), {})
    with pytest.raises(TypeError, match=r"^Actor\.method\(\) missing 1 required positional argument: 'x'$"):
        compile_signature(Actor.method, skip_self=True).check((), {})


def test_a_wrapper_is_called_by_its_own_signature():
    def injects(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function("db", *args, **kwargs)

        return wrapper

    @injects
    def query(db, text):
        pass

    query("x")
    compile_signature(query, skip_self=False).check(("x",), {})


def test_T1_constructors():
    signature = compile_constructor(Actor)
    signature.check((1,), {"b": 2})
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        signature.check((), {})

    class Empty:
        pass

    compile_constructor(Empty).check((), {})
    with pytest.raises(TypeError, match="takes 0 positional arguments but 1 was given"):
        compile_constructor(Empty).check((1,), {})

    class Child(Actor):
        pass

    with pytest.raises(TypeError, match=r"Actor\.__init__\(\) missing 1 required positional argument: 'a'"):
        compile_constructor(Child).check((), {})

    class WithNew:
        def __new__(cls, a):
            return super().__new__(cls)

    compile_constructor(WithNew).check((1,), {})
    with pytest.raises(TypeError, match=r"WithNew\.__new__\(\) missing 1 required positional argument: 'a'"):
        compile_constructor(WithNew).check((), {})

    class OfBuiltin(dict):
        pass

    compile_constructor(OfBuiltin).check(({},), {"a": 1})


def test_callables_that_tell_nothing_take_anything():
    for function in (max, dict.update, print):
        signature = compile_signature(function, skip_self=False)
        signature.check((1, 2, 3), {})
    signature = compile_signature(type("Odd", (), {"__call__": 3})(), skip_self=False)
    signature.check((1,), {"x": 2})
    assert (signature.min_positional, signature.max_positional, signature.plain) == (0, -1, True)


def test_callable_object():
    class Callable:
        def __call__(self, a):
            pass

    signature = compile_signature(Callable(), skip_self=False)
    signature.check((1,), {})
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        signature.check((), {})


def test_user_keywords_named_like_internals_pass():
    compile_signature(internal_names, skip_self=False).check(
        (), dict.fromkeys(["args", "kwargs", "self", "function", "name"])
    )


def test_missing_names_are_listed_as_python_does():
    with pytest.raises(TypeError, match="missing 3 required positional arguments: 'function', 'name', and 'z'"):
        compile_signature(lambda function, name, z: None, skip_self=False).check((), {})
