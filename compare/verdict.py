"""Whether a comparison came out as midepoch promises, and the lines that say so to a person."""

from typing import Any, Dict, List, Optional, Tuple

from compare.runs import FINISHED
from midepoch.console import count


def judge(report: Dict[str, Any], least_accuracy: Optional[float]) -> List[Tuple[bool, str]]:
    """Judges the runs of the two programs; peers are shown and not judged, but for a crash.

    Args:
      report: what report.json holds.
      least_accuracy: what each finished run is to have reached at its best; None for any.

    Returns:
      (whether it is as it should be, a line) for each thing.
    """
    plan, verdicts = report["plan"], []
    for failure in report["failures"]:
        verdicts.append((False, f"{failure['name']}: {failure['why']}"))
    runs = [run for run in report["runs"] if not run["is_peer"]]
    for run in (run for run in runs if run["killed"]):
        verdicts += _judge_kills(run, plan)
    for run in runs:
        verdicts += _judge_examples(run)
    for pair in report["pairs"]:
        if pair["is_peer"]:
            continue
        names = f"{pair['a']} and {pair['b']}"
        if not pair["weights"]:
            verdicts.append((False, f"weights: {names} have no checkpoint of the same step"))
            continue
        good = pair["weights"]["equal"]
        at = "final weights" if good else f"weights at step {pair['weights']['first_step']}"
        verdicts.append((good, f"{at}, {names}: {'bit-identical' if good else pair['weights']['text']}"))
        others = [name for name in ("examples", "losses", "metrics") if pair[name] and not pair[name]["equal"]]
        if good and others:
            verdicts.append((False, f"{names}: weights are equal, but not the {', '.join(others)}"))
    if least_accuracy is not None:
        verdicts += [_judge_accuracy(run, least_accuracy) for run in runs if run["state"] == FINISHED]
    return verdicts


def _judge_kills(run: Dict[str, Any], plan: Dict[str, Any]) -> List[Tuple[bool, str]]:
    """Judges the deaths of one run."""
    verdicts, kills = [], run["observed"]["kills"]
    for kill in kills:
        where = f"{run['program']}: killed after step {kill['step']}{place(kill['step'], plan['epoch_steps'])}"
        if kill["resumed_at"] is None:
            verdicts.append((False, f"{where}, did not resume"))
        else:
            again = count(kill["steps_done_again"], "step")
            verdicts.append((True, f"{where}, resumed at step {kill['resumed_at']}, {again} done again"))
    if plan["kills"] and run["state"] == FINISHED:
        if len(kills) < plan["kills"]:
            verdicts.append((False, f"{run['program']}: killed {count(len(kills), 'time')} instead of {plan['kills']}"))
        if not any(kill["steps_done_again"] for kill in kills):
            verdicts.append(
                (False, f"{run['program']}: it was never killed beyond its last checkpoint, so this shows nothing; try again")
            )
    return verdicts


def place(step: int, epoch_steps: Optional[int]) -> str:
    """Returns where in an epoch a step ends, in brackets; "" if that is not known."""
    if not epoch_steps:
        return ""
    epoch, done = divmod(step, epoch_steps)
    return f" (epoch {epoch + 1}, {done} of {epoch_steps} batches done)"


def _judge_examples(run: Dict[str, Any]) -> List[Tuple[bool, str]]:
    examples = run["examples"]
    if not examples:
        return []
    text = f"{run['name']}: examples lost / repeated: {examples['lost']} / {examples['repeated']}"
    return [(examples["lost"] == examples["repeated"] == 0, text)]


def _judge_accuracy(run: Dict[str, Any], least: float) -> Tuple[bool, str]:
    accuracy = (run["best"] or {}).get("accuracy")
    if accuracy is None:
        return False, f"{run['name']}: no accuracy, at least {least} is wanted"
    wanted = "" if accuracy >= least else f", at least {least} is wanted"
    return accuracy >= least, f"{run['name']}: best accuracy {accuracy:.4f}{wanted}"
