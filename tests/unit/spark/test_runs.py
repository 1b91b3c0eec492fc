"""How a failure is told."""

from __future__ import annotations

from penstock.spark.runs import TOO_BUSY, failure_of


def test_a_machine_that_is_too_busy() -> None:
    said = RuntimeError("[X] Python worker failed to connect back.\n\tat org.apache.spark.Frame")
    assert failure_of(said).sentence == TOO_BUSY


def test_the_frames_of_java_are_kept_with_their_causes() -> None:
    outer, inner = RuntimeError("outer"), RuntimeError("penstock: inner")
    outer._cause, outer._stackTrace, inner._stackTrace = inner, "a.B.c(B.java:1)", "d.E.f(E.java:2)"  # type: ignore[attr-defined]
    told = failure_of(outer)
    assert told.sentence == "outer"
    assert "a.B.c(B.java:1)" in told.stack
    assert "penstock: inner\n\tat d.E.f(E.java:2)" in told.stack
