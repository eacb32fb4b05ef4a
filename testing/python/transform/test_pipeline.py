"""The pass runner."""

import pytest

from tilelang.errors import CompileError, PassFailedError
from tilelang.transform.pipeline import Step, run

STEPS = (
    Step("double", lambda value, context: value * 2, "test"),
    Step("add", lambda value, context: value + context, "test"),
)


def test_steps_run_in_order_with_the_context():
    result = run(STEPS, "a", "b")
    assert result.value == "aab"
    assert list(result.seconds) == ["double", "add"]
    assert result.dumps == {}


def test_dumps_hold_the_program_before_and_after_each_step():
    result = run(STEPS, "a", "b", dump=True)
    assert result.dumps == {"ir/00_input.txt": b"a", "ir/01_double.txt": b"aa", "ir/02_add.txt": b"aab"}


def test_stop_after_a_step():
    assert run(STEPS, "a", "b", stop_after="double").value == "aa"
    with pytest.raises(ValueError, match="double, add"):
        run(STEPS, "a", "b", stop_after="none")


def test_internal_failures_name_the_pass_and_keep_the_cause():
    with pytest.raises(PassFailedError, match="internal error in pass 'add': TypeError") as caught:
        run(STEPS, "a", 3)
    assert isinstance(caught.value.__cause__, TypeError)


def test_user_errors_pass_through():
    def refuse(value, context):
        raise CompileError("no")

    with pytest.raises(CompileError, match="^no$"):
        run((Step("refuse", refuse, "test"),), "a", None)


def test_postconditions_are_checked_only_on_demand():
    def wrong(value):
        raise AssertionError("postcondition")

    steps = (Step("step", lambda value, context: value, "test", verify=wrong),)
    assert run(steps, 1, None).value == 1
    with pytest.raises(PassFailedError, match="postcondition"):
        run(steps, 1, None, verify=True)
