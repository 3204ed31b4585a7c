"""Every public function and method has a docstring with an example, and the examples run."""

import doctest
import inspect

import isopace.core as mx

MODULES = [mx, mx.random, mx.linalg, mx.fast, mx.fft, mx.metal, mx.cuda, mx.distributed]


def public():
    """Name and object of what must have an example."""
    for module in MODULES:
        for name, x in sorted(vars(module).items()):
            later = getattr(x, "_isopace_later", False)
            if not name.startswith("_") and callable(x) and not inspect.isclass(x) and not later:
                yield f"{module.__name__}.{name}", x
    for cls in (mx.array, mx.ArrayAt):
        for name, x in sorted(vars(cls).items()):
            if not name.startswith("_"):
                yield f"{cls.__name__}.{name}", x


def test_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    bad, said = [], []
    for name, x in public():
        test = parser.get_doctest(inspect.getdoc(x) or "", {"mx": mx}, name, None, None)
        if not test.examples:
            bad.append(f"{name} has no example")
        runner.run(test, out=said.append)
    assert not bad and not runner.failures, "\n".join(bad) + "".join(said)
    assert runner.tries > 300
