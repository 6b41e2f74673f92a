"""A small network for digits, in torch: what examples of schedulers train. torch and torchvision must be installed."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from typing import Any

from eagleray import tune

torch = importlib.import_module("torch")

#: Examples show Tune, not how well digits are told apart.
EPOCH_SIZE = 512
TEST_SIZE = 256


class ConvNet(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Three filters of 3 by 3, and one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 3, kernel_size=3)
        self.fc = torch.nn.Linear(192, 10)

    def forward(self, x: Any) -> Any:
        """Logarithms of the ten probabilities."""
        seen = torch.nn.functional.relu(torch.nn.functional.max_pool2d(self.conv1(x), 3))
        return torch.nn.functional.log_softmax(self.fc(seen.view(-1, 192)), dim=1)


def get_data_loaders(batch_size: int = 64) -> tuple[Any, Any]:
    """Digits to train and to test with, fetched into `~/data` once."""
    vision = importlib.import_module("torchvision")
    prepare = vision.transforms.Compose(
        [vision.transforms.ToTensor(), vision.transforms.Normalize((0.1307,), (0.3081,))]
    )
    root = Path.home() / "data"
    sets = [vision.datasets.MNIST(root, train=train, download=True, transform=prepare) for train in (True, False)]
    made = [torch.utils.data.DataLoader(each, batch_size=batch_size, shuffle=True) for each in sets]
    return made[0], made[1]


def train_func(model: Any, optimizer: Any, train_loader: Any, device: Any = None) -> None:
    """Part of an epoch."""
    device = device or torch.device("cpu")
    model.train()
    for number, (pictures, labels) in enumerate(train_loader):
        if number * len(pictures) > EPOCH_SIZE:
            return
        optimizer.zero_grad()
        torch.nn.functional.nll_loss(model(pictures.to(device)), labels.to(device)).backward()
        optimizer.step()


def test_func(model: Any, data_loader: Any, device: Any = None) -> float:  # noqa: PT028
    """The share of digits that are told right."""
    device = device or torch.device("cpu")
    model.eval()
    right = total = 0
    with torch.no_grad():
        for number, (pictures, labels) in enumerate(data_loader):
            if number * len(pictures) > TEST_SIZE:
                break
            said = model(pictures.to(device)).argmax(dim=1)
            right += int((said == labels.to(device)).sum())
            total += len(labels)
    return right / max(total, 1)


def train_mnist(config: dict[str, Any]) -> None:
    """A trial: `lr` and `momentum` are searched; `should_checkpoint` makes a checkpoint of every epoch."""
    model = ConvNet()
    train_loader, test_loader = get_data_loaders()
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=config["momentum"])
    while True:
        train_func(model, optimizer, train_loader)
        metrics = {"mean_accuracy": test_func(model, test_loader)}
        if not config.get("should_checkpoint", False):
            tune.report(metrics)
            continue
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), str(Path(folder) / "model.pt"))
            tune.report(metrics, checkpoint=tune.Checkpoint.from_directory(folder))
