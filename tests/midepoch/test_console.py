"""What a person sees."""

import io

import pytest

from midepoch import console


@pytest.mark.parametrize(
    "secs, text",
    [(0, "0:00"), (2.6, "0:03"), (59.4, "0:59"), (59.6, "1:00"), (760, "12:40"), (3599.7, "1:00:00"), (11100, "3:05:00")],
)
def test_duration(secs, text):
    assert console.duration(secs) == text


@pytest.mark.parametrize("number, text", [(0, "0 steps"), (1, "1 step"), (2, "2 steps")])
def test_count(number, text):
    assert console.count(number, "step") == text


@pytest.mark.parametrize(
    "number, shown",
    [(None, "–"), (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (62_000_000, "62.0 MB"), (999_999, "1.0 MB")],
)
def test_sizes(number, shown):
    assert console.size(number) == shown


def test_say_writes_a_line_at_once():
    class Out(io.StringIO):
        flushed = False

        def flush(self):
            self.flushed = True

    out = Out()
    console.say("eval  epoch 5", out)
    assert out.getvalue() == "eval  epoch 5\n" and out.flushed


def test_progress_measures_since_the_last_look_and_leaves_out_pauses():
    now = [100.0]
    progress = console.Progress(10, 500, clock=lambda: now[0])
    now[0] += 2
    assert progress.rates(20, 1000) == (5.0, 250.0)
    now[0] += 1
    assert progress.rates(21, 1050) == (1.0, 50.0)
    now[0] += 60  # an evaluation
    progress.pause(21, 1050)
    now[0] += 1
    assert progress.rates(24, 1200) == (3.0, 150.0)


def test_progress_without_time_passed():
    progress = console.Progress(10, 500, clock=lambda: 1.0)
    assert progress.rates(20, 1000) == (0.0, 0.0)


@pytest.mark.parametrize("terminal", [True, False])
def test_bar_shows_on_a_terminal_after_a_second_and_goes_away(monkeypatch, terminal):
    class Out(io.StringIO):
        isatty = lambda self: terminal

    now, out = [100.0], Out()
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    monkeypatch.setattr("sys.stderr", out)
    with console.progress_bar(2000, "indexing") as advance:
        now[0] += 0.9
        advance(500)
        assert out.getvalue() == ""
        now[0] += 0.9
        advance(500)
        shown = out.getvalue()
    if terminal:
        assert "indexing:  50%" in shown
        assert out.getvalue().splitlines()[-1].strip() == ""
    else:
        assert out.getvalue() == ""
