"""Peer: PyTorch's "general checkpoint", a dictionary of state_dicts, epoch and loss.

See "Saving & Loading a General Checkpoint for Inference and/or Resuming Training" in
https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html, with a `last` and a `best` file as is the custom. The
epoch is all that is known of the place in the data: a start begins it anew, and the seeded order begins with that of epoch
1.
"""

import os

from compare.peers import harness


def train(run: harness.Run) -> None:
    """Trains to the end."""
    import torch

    from compare.peers import torch_digits

    flags = run.flags
    torch.set_num_threads(torch_digits.NUM_THREADS)
    torch.manual_seed(flags.seed)
    model = torch_digits.make_model()
    optimizer = torch.optim.Adam(model.parameters(), harness.LEARNING_RATE)
    generator = torch.Generator().manual_seed(flags.seed)
    dataset = torch_digits.train_dataset()
    loader = torch.utils.data.DataLoader(dataset, flags.batch_size, shuffle=True, generator=generator)

    first_epoch = step = 0
    best_accuracy = 0.0
    if os.path.exists(run.path("last.pt")):
        checkpoint = torch.load(run.path("last.pt"))
        model.load_state_dict(checkpoint["model_state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
        first_epoch, step, best_accuracy = checkpoint["epoch"], checkpoint["step"], checkpoint["best_accuracy"]
    run.started(step, "last.pt", first_epoch + 1, 0)

    def save(name: str, epochs_done: int) -> None:
        state = {
            "epoch": epochs_done,
            "step": step,
            "model_state_dict": model.state_dict(),
            "optimizer_state_dict": optimizer.state_dict(),
            "loss": loss,
            "best_accuracy": best_accuracy,
        }
        torch.save(state, run.path(name))

    for epoch in range(first_epoch, flags.num_epochs):
        for batch, (example_ids, images, labels) in enumerate(loader, start=1):
            loss = torch_digits.train_step(model, optimizer, images, labels)
            step += 1
            run.step_done(step, example_ids.tolist(), loss, epoch + 1, batch)
            if step % flags.save_checkpoints_steps == 0:
                save("last.pt", epoch + (batch == run.steps_per_epoch))
        accuracy = torch_digits.accuracy(model)
        if accuracy > best_accuracy:
            best_accuracy = accuracy
            save("best.pt", epoch + 1)
    run.finished(torch_digits.accuracy(model), step)


if __name__ == "__main__":
    harness.main("torch_state_dict", train)
