"""A training program that trains nothing, has the interface of compare/peers, and resumes exactly, or not."""

import argparse
import json
import os
import random
import time

NUM_EXAMPLES = 300


def train(remember_place, step_secs=0.002, fail_at=None):
    """Does what the command line says.

    Args:
      remember_place: whether a resume goes on with the next example; else it begins another epoch.
      step_secs: what a step takes.
      fail_at: the step before which it fails, or None.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir")
    for name in ("num_epochs", "batch_size", "save_checkpoints_steps", "seed"):
        parser.add_argument(f"--{name}", type=int)
    flags = parser.parse_args()
    saved, ledger = (os.path.join(flags.model_dir, name) for name in ("state.json", "examples.jsonl"))
    epoch_steps = -(-NUM_EXAMPLES // flags.batch_size)
    total, step, skipped = flags.num_epochs * epoch_steps, 0, 0
    if os.path.exists(saved):
        with open(saved, encoding="utf-8") as file:
            step = json.load(file)["step"]
        print(f"resume at step {step} from state.json", flush=True)
        skipped = 0 if remember_place else step % epoch_steps
    else:
        print("fresh start", flush=True)
    with open(ledger, "a", encoding="utf-8") as file:
        while step < total:
            if step == fail_at:
                raise RuntimeError("no more fingers")
            epoch, done = divmod(step - skipped, epoch_steps)
            order = list(range(NUM_EXAMPLES))
            random.Random(f"{flags.seed} {epoch}").shuffle(order)
            ids = order[done * flags.batch_size : (done + 1) * flags.batch_size]
            step += 1
            loss = 1.0 / step + ids[0] * 1e-6
            file.write(json.dumps({"step": step, "example_ids": ids, "loss": loss}) + "\n")
            file.flush()
            print(
                f"step {step}/{total}   epoch {(step - 1) // epoch_steps + 1} {(step - 1) % epoch_steps + 1}/{epoch_steps}  "
                f" loss {loss:.4f}",
                flush=True,
            )
            if step % flags.save_checkpoints_steps == 0:
                with open(saved + ".tmp", "w", encoding="utf-8") as state:
                    json.dump({"step": step}, state)
                os.replace(saved + ".tmp", saved)
            time.sleep(step_secs)
    with open(os.path.join(flags.model_dir, "metrics.json"), "w", encoding="utf-8") as file:
        json.dump({"accuracy": 0.5, "global_step": total}, file)
    print(f"done {total}/{total}")


if __name__ == "__main__":
    train(remember_place=True)
