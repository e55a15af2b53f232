"""What the two peers in PyTorch share: the digits as a dataset that knows its example ids, the network, a train step."""

from typing import Any, Tuple

import torch
from torch import nn

from compare.peers import digits_files, harness

# PyTorch's threads spin while they wait: where other processes want the cores too, two were ten times slower than one.
NUM_THREADS = 1


def train_dataset() -> torch.utils.data.TensorDataset:
    """Returns the training examples as (example id, image [1, 8, 8], label)."""
    images, labels = _tensors(digits_files.TRAIN)
    return torch.utils.data.TensorDataset(torch.arange(len(labels)), images, labels)


def _tensors(pattern: str) -> Tuple[torch.Tensor, torch.Tensor]:
    images, labels = digits_files.read(pattern)
    return torch.from_numpy(images)[:, None], torch.from_numpy(labels)


def make_model() -> nn.Sequential:
    """Returns the digits' network: two convolutions, a hidden layer with dropout; weights by PyTorch's own defaults."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Dropout(harness.DROPOUT),
        nn.Linear(64, 10),
    )


def train_step(model: nn.Module, optimizer: Any, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Trains a model on a batch and returns the loss."""
    model.train()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


def accuracy(model: nn.Module) -> float:
    """Returns the accuracy on the evaluation examples."""
    images, labels = _tensors(digits_files.EVAL)
    model.eval()
    with torch.no_grad():
        return (model(images).argmax(dim=1) == labels).float().mean().item()
