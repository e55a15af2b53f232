"""The report: its numbers are those of report.json, its pages are whole, its figures show what there is to see."""

import html.parser
import json
import os
import re

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from compare import code_lines, html_page, markdown, programs, report, sections
from compare.document import Document, Heading, Output, Paragraph, Picture, Table, Verdicts
from compare.figures import drawings, epochs, losses, style, timeline
from compare.peers import PEERS

NUM_EXAMPLES = 40


def epoch(number, never=(), again=None, **changes):
    whole = {"number": number, "expected": NUM_EXAMPLES, "examples": NUM_EXAMPLES - len(never), "never": list(never)}
    return {**whole, "again": again or {}, "seen": None, **changes}


def a_run(name="lowlevel, killed", program="lowlevel", killed=True, **changes):
    kills = [
        {
            "planned_step": 14,
            "step": 15,
            "at_secs": 7.25,
            "resumed_at": 11,
            "steps_done_again": 4,
            "work_lost_secs": 1.75,
            "to_first_step_secs": 3.5,
            "to_new_step_secs": 4.5,
        }
    ]
    process = {
        "began_secs": 0.0,
        "ended_secs": 7.25,
        "exit_code": -9,
        "was_killed": True,
        "resumed_at": 0,
        "start_secs": 2.625,
        "peak_memory_bytes": 123_400_000,
        "cpu_secs": 9.5,
        "last_lines": [],
    }
    observed = {
        "processes": [process, {**process, "resumed_at": 11, "start_secs": 3.125, "was_killed": False}],
        "kills": kills if killed else [],
        "timeline": [
            ["starting", 0.0, 2.6],
            ["training", 2.6, 7.25],
            ["dead", 7.25, 7.3],
            ["starting", 7.3, 10.8],
            ["training", 10.8, 12.0],
        ],
        "steps_per_sec": 321.0,
        "secs": 12.5,
        "losses_told": [[[10, 1.5], [12, 1.2], [15, 1.0]], [[20, 0.5]]],
    }
    facts = {
        "name": name,
        "program": program,
        "is_peer": False,
        "killed": killed,
        "model_dir": "runs/x/lowlevel_killed",
        "state": "finished",
        "problems": [],
        "task": "digits",
        "versions": {},
        "batch_size": 8,
        "num_examples": NUM_EXAMPLES,
        "seed": 1,
        "step": 20,
        "epoch": 4.0,
        "examples_seen": 160,
        "history": None,
        "best": {"accuracy": 0.8765},
        "last": {"accuracy": 0.8},
        "losses": [[5, 2.0], [10, 1.5], [15, 1.0], [20, 0.5]],
        "resumes": [11],
        "examples": {"lost": 0, "repeated": 0, "lines_done_again": 4, "epochs": [epoch(n) for n in (1, 2, 3, 4)]},
        "save_secs": [0.25, 0.5, 1.0],
        "restore_secs": [0.125],
        "steps_per_sec": 300.0,
        "checkpoint_bytes": {"weights": 1000, "optimizer": 2000, "iterator": 3100, "other": 400, "total": 6500},
        "stored": [
            {"where": "checkpoint", "files": 1, "bytes": 77, "what": "TensorFlow's list"},
            {"where": "odd", "files": 2, "bytes": 9, "what": ""},
        ],
        "features": {"best weights kept": True},
        "observed": observed,
    }
    return {**facts, **changes}


def a_report(runs=None, **changes):
    runs = runs or [a_run(), a_run("lowlevel, undisturbed", killed=False)]
    equal = {"equal": True}
    pair = {
        "a": runs[0]["name"],
        "b": runs[-1]["name"],
        "kind": "killed",
        "is_peer": False,
        "weights": {"steps": [10, 20], "equal": True},
        "examples": {"steps": 20, "equal": True, "first_step": None},
        "losses": {"steps": 4, "equal": True, "first_step": None},
        "metrics": {**equal, "text": None},
    }
    facts = {
        "made": {
            "at": "2026-01-02 03:04",
            "command": "python -m compare",
            "machine": "x86_64, 2 cores",
            "cores": 2,
            "python": "3.11.7",
            "tensorflow": "2.15.1",
            "out_dir": "runs/x",
            "at_once": 2,
        },
        "plan": {
            "flags": ["--num_epochs=4"],
            "kills": 1,
            "kill_seed": 1,
            "kill_steps": [14],
            "total_steps": 20,
            "epoch_steps": 5,
        },
        "runs": runs,
        "pairs": [pair],
        "programs": [
            {
                "name": "lowlevel",
                "title": "t",
                "description": "d",
                "needs": "n",
                "is_peer": False,
                "code_lines": 345,
                "files": 8,
            }
        ],
        "library": {"code_lines": 4567, "files": 33},
        "failures": [],
        "left_out": [],
        "verdict": [[True, "all is well"]],
    }
    return {**facts, **changes}


def text_of(found, drawn=("loss", "epochs")):
    return markdown.render(sections.make(found, drawn), {name: f"{name}.png" for name in drawn})


@pytest.mark.parametrize(
    "shown",
    [
        "| lowlevel, killed | finished | 20 | 1 | 4 | 0 | 0 | 0.8765 | 321 | 123.4 MB | 12.5 |",
        "| lowlevel, kill 1 | 14 | 15 | epoch 4, 0 of 5 batches done | 11 | 4 | 1.75 | 3.50 | 4.50 |",
        "| lowlevel, killed | 321 | 3 | 0.50 [0.25–1.00] | 0.12 | 2.6 | 3.1 | 19.0 |",
        "| lowlevel, killed | 1.0 kB | 2.0 kB | 3.1 kB | 400 B | 6.5 kB | 123.4 MB |",
        "| TensorFlow's list | lowlevel | checkpoint | 1 | 77 B |",
        "| – | lowlevel | odd | 2 | 9 B |",
        "| best weights kept | yes |",
        "| goes on in mid-epoch | yes |",
        "| lowlevel | 345 | 8 |",
        "bit-identical at 2 steps: 10, 20 | equal in 20 steps | equal at 4 steps | equal |",
        "- ok: all is well",
    ],
)
def test_numbers_of_the_report(shown):
    assert shown in text_of(a_report())


def test_what_differs_is_said():
    found = a_report()
    found["pairs"][0].update(
        weights={
            "steps": [10, 20],
            "equal": False,
            "first_step": 20,
            "tensor": "fc/kernel",
            "text": "fc/kernel: 3 of 9 values differ",
            "tensors_differing": 2,
            "largest": 0.0125,
        },
        examples={"steps": 20, "equal": False, "first_step": 12},
        losses={"steps": 4, "equal": False, "first_step": 15, "a": 1.0, "b": 1.25, "largest": 0.5},
        metrics={"equal": False, "text": "loss: 1.0 and 2.0"},
    )
    text = text_of(found)
    differing = "fc/kernel: 3 of 9 values differ and 1 tensor more; largest difference 0.0125"
    assert f"differ first at step 20 (still equal at step 10): {differing}" in text
    for steps, known in (([20, 30, 40], "first of 3 steps"), ([20], "only one")):
        found["pairs"][0]["weights"]["steps"] = steps
        assert f"differ first at step 20 (the {known} that both still have): {differing}" in text_of(found)
    assert "differ first at step 12" in text
    assert "differ first at step 15: 1 and 1.25, largest difference 0.5" in text
    assert "loss: 1.0 and 2.0" in text


def introduction(found):
    """Returns the sentence of a report on how the runs were made."""
    return re.search(r"Each program trained .*? \d{4}-", text_of(found)).group()


def test_introduction_tells_what_was_killed_and_not_what_was_planned():
    found = a_report()
    said = "20 steps long: once undisturbed, and once with 1 kill by SIGKILL (planned after step 14), each time"
    assert said in introduction(found)
    found["plan"].update(kills=2, kill_steps=[14, 18])
    assert "once with 1 kill by SIGKILL (planned after step 14)" in introduction(found)
    other = a_run("estimator, killed", "estimator")
    other["observed"]["kills"].append({**other["observed"]["kills"][0], "planned_step": 18})
    found["runs"].append(other)
    assert "once with 1 to 2 kills by SIGKILL (planned after steps 14, 18), each time started again" in introduction(found)


def let_live():
    """Returns a report of runs of which none was killed, though one is called so."""
    runs = [a_run(), a_run("lowlevel, undisturbed", killed=False)]
    runs[0]["observed"]["kills"] = []
    found = a_report(runs)
    found["plan"].update(kills=0, kill_steps=[])
    return found


def test_introduction_where_nothing_was_killed():
    found = let_live()
    said = introduction(found)
    assert "once more by the same command; nothing was killed, though the second runs are called “killed”." in said
    assert "SIGKILL" not in said
    found["plan"].update(kills=2, kill_steps=None, total_steps=None, epoch_steps=None)
    assert "how many steps long is not known: once undisturbed, and once more" in introduction(found)
    found["runs"].clear()
    assert "by the same command; nothing was killed." in introduction({**found, "pairs": []})


def test_a_run_that_nobody_could_look_at_may_have_been_killed():
    failure = {"name": "lowlevel, killed", "why": "w", "last_lines": []}
    found = a_report([a_run("lowlevel, undisturbed", killed=False)], failures=[failure], pairs=[])
    assert "as far as can be seen, nothing was killed." in introduction(found)


def test_where_nothing_was_killed_no_feature_of_kills_is_shown():
    feature = "killed and undisturbed end alike, bit for bit"
    assert f"| {feature} | yes |" in text_of(a_report())
    assert feature not in text_of(let_live())


def test_goes_on_in_mid_epoch_only_where_it_was_seen():
    runs = [a_run(), a_run("replay, killed", "replay", is_peer=True)]
    runs[1]["observed"]["kills"][0]["resumed_at"] = 10  # the end of an epoch, and there may be no other checkpoint
    assert "| goes on in mid-epoch | yes | – |" in text_of(a_report(runs))
    assert "goes on in mid-epoch" not in text_of(a_report(runs[1:]))


def test_lines_that_the_peers_share_are_counted():
    found = a_report()
    assert "shared by the peers" not in text_of(found)
    found["programs"].append({**found["programs"][0], "name": "replay", "is_peer": True})
    sources = programs.shared_by_peers()
    found["shared_by_peers"] = {"code_lines": code_lines.count_files(sources), "files": len(sources)}
    folder = os.path.join(os.path.dirname(report.__file__), "peers")
    shared = {f[:-3] for f in os.listdir(folder) if f.endswith(".py")} - {peer.key for peer in PEERS}
    assert {"__init__", "harness", "tf_digits"} <= shared
    lines = code_lines.count_files([os.path.join(folder, f"{name}.py") for name in shared])
    assert f"| shared by the peers (compare/peers) | {lines} | {len(shared)} |" in text_of(found)


def test_settings_of_two_directories_that_differ():
    a = a_run("a", killed=None, observed=None, versions={"tensorflow": "2.15.1", "python": "3.11"})
    b = {**a, "name": "b", "batch_size": 16, "seed": None, "versions": {"tensorflow": "2.21.0", "python": "3.11"}}
    table = text_of(a_report([a, b], plan=None)).split("## Settings that differ\n\n")[1].split("\n\n")[0]
    assert table.splitlines()[2:] == [
        "| seed | 1 | – |",
        "| batch\\_size | 8 | 16 |",
        "| version of tensorflow | 2.15.1 | 2.21.0 |",
    ]
    for same in (a_report([a, {**a, "name": "b"}], plan=None), a_report([a, b])):
        assert "Settings that differ" not in text_of(same)


def test_weights_without_a_step_in_common():
    found = a_report()
    found["pairs"][0]["weights"] = None
    assert "| lowlevel, killed / lowlevel, undisturbed | no checkpoint of the same step | equal in" in text_of(found)
    found["pairs"][0]["is_peer"] = True  # nobody has looked
    assert "| lowlevel, killed / lowlevel, undisturbed | – | equal in" in text_of(found)


def test_failures_and_those_left_out_are_in_the_report():
    failure = {
        "name": "estimator, killed",
        "why": "ended with exit code 1: boom",
        "last_lines": ["<last>", "\x1b[31mwords\x1b[0m"],
    }
    found = a_report(failures=[failure], left_out=[{"name": "torch_x", "why": "it needs torch"}])
    text = text_of(found)
    assert "estimator, killed: ended with exit code 1: boom. Its last output:" in text and "<last>\nwords\n" in text
    assert "| torch\\_x | cannot run here |" in text and "torch\\_x was left out: it needs torch." in text


def test_report_of_runs_of_which_nothing_is_known():
    """A run that was not recorded, nor observed; and none at all."""
    bare = a_run(
        examples=None,
        observed=None,
        best=None,
        last=None,
        losses=[],
        save_secs=[],
        restore_secs=[],
        checkpoint_bytes=None,
        killed=None,
        history={"starts": 3, "kills": 2, "steps_done_again": 31},
        steps_per_sec=None,
    )
    text = text_of(a_report(runs=[bare, {**bare, "name": "b"}], plan=None, programs=[], verdict=[]))
    assert "| lowlevel, killed | finished | 20 | 2 | 31 | – | – | – | – | – | – |" in text
    assert "Loss against step" in text and "What each run did when" not in text
    nothing = a_report(runs=[a_run()], pairs=[])
    assert text_of({**nothing, "runs": []}).startswith("# midepoch: peers compared")


def test_speed_of_a_directory_is_its_own_word_for_it():
    given = a_run(observed=None, killed=None, steps_per_sec=250.4)
    assert "| 0.8765 | 250 | – | – |" in text_of(a_report(runs=[given, given], plan=None, programs=[]))


def test_unfinished_run_is_called_so():
    assert "lowlevel, killed is unfinished: it stands at step 20" in text_of(a_report(runs=[a_run(state="unfinished")]))


class Page(html.parser.HTMLParser):
    """Checks that tags are closed, and remembers them."""

    VOID = ("meta", "link", "br", "img", "use", "path", "image", "defs")

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.ids = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_whole_and_needs_nothing_else(tmp_path):
    path = report.write(a_report(), str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["figures", "report.html", "report.json", "report.md"]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    page = Page(text)
    assert page.open == [] and len(page.ids) == len(set(page.ids))
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "link", "iframe", "img"}
    used = [value for _, attrs in page.tags for name, value in attrs.items() if name in ("src", "href", "xlink:href")]
    assert all(value.startswith(("#", "data:image/png;base64,")) for value in used)
    references = set(re.findall(r"url\(#([^)]*)\)", text)) | {value[1:] for value in used if value.startswith("#")}
    assert references <= set(page.ids)
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    assert ("html", {"lang": "en"}) in page.tags
    figures = [attrs for tag, attrs in page.tags if tag == "svg"]
    assert len(figures) == 3 and all(len(attrs["aria-label"]) > 40 and attrs["role"] == "img" for attrs in figures)
    with open(tmp_path / "report.json", encoding="utf-8") as file:
        assert json.load(file) == a_report()
    for name in re.findall(r"\]\(([^)]*)\)", (tmp_path / "report.md").read_text()):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_text_is_escaped_in_both():
    pieces = [
        Heading("a < b"),
        Paragraph("<b>|*x*</b>"),
        Table(["<h>"], [["<c>"]], "<n>"),
        Verdicts([(True, "<ok>"), (False, "<bad>")]),
        Output(["<out>"]),
        Picture("p", 'an "alt"', "<caption>"),
    ]
    page = html_page.render(Document("<t>", pieces), {"p": "<svg ></svg>"})
    assert not re.search(r"<(b>\||h>|c>|n>|ok>|bad>|out>|caption>|t>)", page) and "&lt;c&gt;" in page
    assert "✓ ok" in page and "✗ BAD" in page
    text = markdown.render(Document("t", pieces), {"p": "p.png"})
    assert "\\<b>\\|\\*x\\*\\</b>" in text and "| \\<c> |" in text and "- **BAD**: \\<bad>" in text and "](p.png)" in text


def test_output_with_a_fence_in_it_stays_in_its_own():
    text = markdown.render(Document("t", [Output(["a ```` b", "```"])]), {})
    assert text == "# t\n\n`````\na ```` b\n```\n`````\n"
    assert markdown.render(Document("t", [Output(["a"])]), {}) == "# t\n\n```\na\n```\n"


# Figures.


def images(found):
    return [np.asarray(image.get_array()) for axes in found.axes for image in axes.get_images()]


def test_map_shows_what_was_never_seen_above_and_what_was_seen_twice_below():
    rows = [epoch(1), epoch(2, never=[3, 30], again={"7": 2}), epoch(3, expected=16, examples=16, seen=list(range(16)))]
    run = a_run(examples={"lost": 2, "repeated": 1, "lines_done_again": 0, "epochs": rows})
    [image] = images(epochs.make([run]))
    assert image.shape == (6, NUM_EXAMPLES, 4)
    red, blue, once = (np.append(to_rgb(c), 1.0) for c in (style.RED, style.BLUE, "white"))
    assert (image[:2] == epochs._ONCE).all()
    assert [i for i in range(NUM_EXAMPLES) if np.allclose(image[2, i], red)] == [3, 30]
    assert [i for i in range(NUM_EXAMPLES) if np.allclose(image[3, i], blue)] == [7]
    assert (image[4, :16] == epochs._ONCE).all() and (image[4, 16:] == 0).all()


def test_one_example_among_many_is_still_seen_in_the_map():
    assert list(np.nonzero(epochs._share([123_456], 1_000_000, 500))[0]) == [61]
    run = a_run(num_examples=1_000_000)
    run["examples"]["epochs"] = [epoch(1, never=[123_456], expected=1_000_000, examples=999_999)]
    [image] = images(epochs.make([run]))
    assert image.shape[1] == 500 and image[0, 61, 3] >= 0.4


def test_figures_have_axes_units_and_legends():
    runs = [a_run(), a_run("lowlevel, undisturbed", killed=False)]
    for make in (losses.make, epochs.make, timeline.make):
        found = make(runs)
        assert all(axes.get_xlabel() for axes in found.axes)
        assert found.legends or all(axes.get_legend() for axes in found.axes)
    loss, times = losses.make(runs), timeline.make(runs)
    assert "loss" in loss.axes[0].get_ylabel() and "seconds" in times.axes[0].get_xlabel()
    labels = [text.get_text() for text in loss.axes[0].get_legend().get_texts()]
    assert labels == ["lowlevel, undisturbed", "lowlevel, killed", "killed", "resumed", "done, and lost by the kill"]


def test_peers_have_an_axis_of_their_own_and_a_short_legend():
    peers = [
        a_run(f"{name}, {kind}", name, kind == "killed", is_peer=True)
        for kind in ("killed", "undisturbed")
        for name in ("skip", "replay")
    ]
    programs, others = losses.make([a_run(), *peers]).axes
    labels = [text.get_text() for text in others.get_legend().get_texts()]
    assert labels == [
        "skip, killed",
        "replay, killed",
        "the same, undisturbed: pale",
        "killed",
        "resumed",
        "done, and lost by the kill",
    ]
    assert len([line for line in others.get_lines() if len(line.get_xdata()) == 4]) == 4
    assert programs.get_title(loc="left") == "the programs" and others.get_title(loc="left") == "the peers"


def test_losses_lie_where_they_should_and_deaths_are_marked():
    [axes] = losses.make([a_run()]).axes
    drawn = {line.get_marker(): line.get_xydata().tolist() for line in axes.get_lines()}
    assert drawn["X"] == [[15, 1.0]] and drawn[">"] == [[11, 1.4]]
    assert [list(point) for point in axes.get_lines()[0].get_xydata()] == [[5, 2.0], [10, 1.5], [15, 1.0], [20, 0.5]]


def test_nothing_to_draw():
    bare = a_run(examples=None, observed=None, losses=[])
    assert drawings.draw({"runs": [bare]}) == {} and drawings.draw({"runs": []}) == {}
