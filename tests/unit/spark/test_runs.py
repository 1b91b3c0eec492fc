"""The sentence and stack trace of a failure."""

from __future__ import annotations

from penstock.spark.runs import TOO_BUSY, failure_of


def test_a_machine_that_is_too_busy() -> None:
    text = RuntimeError("[X] Python worker failed to connect back.\n\tat org.apache.spark.Frame")
    assert failure_of(text).sentence == TOO_BUSY


def test_java_stack_traces_are_kept() -> None:
    outer, inner = RuntimeError("outer"), RuntimeError("penstock: inner")
    outer._cause, outer._stackTrace, inner._stackTrace = inner, "a.B.c(B.java:1)", "d.E.f(E.java:2)"  # type: ignore[attr-defined]
    output = failure_of(outer)
    assert output.sentence == "outer"
    assert "a.B.c(B.java:1)" in output.stack
    assert "penstock: inner\n\tat d.E.f(E.java:2)" in output.stack
