"""Peer: torchdata's StatefulDataLoader, whose state is saved with model and optimizer.

See https://docs.pytorch.org/data/0.11/stateful_dataloader_tutorial.html for `state_dict` and `load_state_dict` of the
loader.
"""

import os

from compare.peers import harness


def train(run: harness.Run) -> None:
    """Trains to the end."""
    import torch
    from torchdata.stateful_dataloader import StatefulDataLoader

    from compare.peers import torch_digits

    flags = run.flags
    torch.set_num_threads(torch_digits.NUM_THREADS)
    torch.manual_seed(flags.seed)
    model = torch_digits.make_model()
    optimizer = torch.optim.Adam(model.parameters(), harness.LEARNING_RATE)
    generator = torch.Generator().manual_seed(flags.seed)
    loader = StatefulDataLoader(torch_digits.train_dataset(), flags.batch_size, shuffle=True, generator=generator)

    first_epoch = step = 0
    if os.path.exists(run.path("last.pt")):
        checkpoint = torch.load(run.path("last.pt"))
        model.load_state_dict(checkpoint["model_state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
        loader.load_state_dict(checkpoint["loader_state_dict"])
        # If that epoch was at its end when it was saved, the loader gives no more batches of it.
        first_epoch, step = checkpoint["epoch"], checkpoint["step"]
    run.started(step, "last.pt")

    def save(epoch: int) -> None:
        state = {
            "epoch": epoch,
            "step": step,
            "model_state_dict": model.state_dict(),
            "optimizer_state_dict": optimizer.state_dict(),
            "loader_state_dict": loader.state_dict(),
        }
        torch.save(state, run.path("last.pt"))

    for epoch in range(first_epoch, flags.num_epochs):
        for example_ids, images, labels in loader:
            loss = torch_digits.train_step(model, optimizer, images, labels)
            step += 1
            run.step_done(step, example_ids.tolist(), loss)
            if step % flags.save_checkpoints_steps == 0:
                save(epoch)
    run.finished(torch_digits.accuracy(model), step)


if __name__ == "__main__":
    harness.main("torch_stateful_dataloader", train)
