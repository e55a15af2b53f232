"""Whether a comparison came out as midepoch promises, and the lines that say so to a person."""

from typing import Any, Dict, List, Optional, Tuple

from compare.pairs import KILLED, PROGRAMS
from compare.runs import FINISHED
from midepoch.console import count

Verdict = Tuple[bool, str]


def judge(report: Dict[str, Any], least_accuracy: Optional[float]) -> List[Verdict]:
    """Judges the runs of the two programs; peers are shown and not judged, but for a crash.

    Args:
      report: what report.json holds.
      least_accuracy: what each run is to have reached at its best; None for any.

    Returns:
      (whether it is as it should be, a line) for each thing.
    """
    verdicts: List[Verdict] = [(False, f"{failure['name']}: {failure['why']}") for failure in report["failures"]]
    runs = [run for run in report["runs"] if not run["is_peer"]]
    by_name = {run["name"]: run for run in runs}
    for program in dict.fromkeys(run["program"] for run in runs):
        own = {run["killed"]: run for run in runs if run["program"] == program}
        if True in own:
            verdicts += _kills(own[True], report["plan"])
        verdicts += _examples(program, own)
        verdicts += [
            _pair(f"{program}, killed and undisturbed", pair, by_name)
            for pair in report["pairs"]
            if pair["kind"] == KILLED and pair["a"] == own.get(True, {}).get("name")
        ]
        if least_accuracy is not None:
            verdicts.append(_accuracy(program, own, least_accuracy))
    both = " and ".join(dict.fromkeys(run["program"] for run in runs))
    return verdicts + [_pair(both, pair, by_name) for pair in report["pairs"] if pair["kind"] == PROGRAMS]


def _kills(run: Dict[str, Any], plan: Dict[str, Any]) -> List[Verdict]:
    """Judges the deaths of one run."""
    verdicts, kills, program = [], run["observed"]["kills"], run["program"]
    for kill in kills:
        where = f"{program}: killed after step {kill['step']}{place(kill['step'], plan['epoch_steps'])}"
        if kill["resumed_at"] is None:
            verdicts.append((False, f"{where}, did not resume"))
        else:
            again = count(kill["steps_done_again"], "step")
            verdicts.append((True, f"{where}, resumed at step {kill['resumed_at']}, {again} done again"))
    if plan["kills"] and run["state"] == FINISHED:
        if len(kills) < plan["kills"]:
            why = "; it told of no step in time: lower --log_every_steps" if plan["kill_steps"] is None else ""
            verdicts.append((False, f"{program}: killed {count(len(kills), 'time')} instead of {plan['kills']}{why}"))
        if not any(kill["steps_done_again"] for kill in kills):
            line = (
                f"{program}: it was never killed beyond its last checkpoint, so this shows nothing; give another --kill_seed"
            )
            verdicts.append((False, line))
    return verdicts


def place(step: int, epoch_steps: Optional[int]) -> str:
    """Returns where in an epoch a step ends, in brackets; "" if that is not known."""
    if not epoch_steps:
        return ""
    epoch, done = divmod(step, epoch_steps)
    return f" (epoch {epoch + 1}, {done} of {epoch_steps} batches done)"


def _examples(program: str, own: Dict[bool, Dict[str, Any]]) -> List[Verdict]:
    """Judges the examples lost and repeated by the runs of one program that came to their end, where they were recorded."""
    tallies = {killed: run["examples"] for killed, run in own.items() if run["examples"] and run["state"] == FINISHED}
    if not tallies:
        return []
    shown = {killed: f"{examples['lost']} / {examples['repeated']}" for killed, examples in tallies.items()}
    text = shown.get(True, "") + (f" (undisturbed {shown[False]})" if False in shown else "")
    good = all(examples["lost"] == examples["repeated"] == 0 for examples in tallies.values())
    return [(good, f"{program}: examples lost / repeated: {text.strip()}")]


def _pair(what: str, pair: Dict[str, Any], runs: Dict[str, Dict[str, Any]]) -> Verdict:
    """Judges two runs that should be equal in everything; `what` says which, `runs` are all by their names."""
    weights = pair["weights"]
    if not weights:
        return False, f"{what}: they have no checkpoint of the same step"
    others = [name for name in ("examples", "losses", "metrics") if pair[name] and not pair[name]["equal"]]
    if not weights["equal"]:
        return False, f"{what}: weights differ at step {weights['first_step']}: {weights['text']}"
    if others:
        return False, f"{what}: the weights are bit-identical, but not the {', '.join(others)}"
    last = weights["steps"][-1]
    if any(runs[pair[side]]["state"] != FINISHED or runs[pair[side]]["step"] != last for side in ("a", "b")):
        return False, f"{what}: bit-identical up to step {last}, beyond which there is nothing to compare"
    return True, f"{what}: final weights bit-identical"


def _accuracy(program: str, own: Dict[bool, Dict[str, Any]], least: float) -> Verdict:
    values = {killed: (run["best"] or {}).get("accuracy") for killed, run in own.items()}
    shown = {killed: "none" if value is None else f"{value:.4f}" for killed, value in values.items()}
    text = f"{program}: best accuracy {shown.get(True, '')}" + (f" (undisturbed {shown[False]})" if False in shown else "")
    good = all(value is not None and value >= least for value in values.values())
    return good, text if good else f"{text}, at least {least} is wanted"
