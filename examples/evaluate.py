"""Score a multi-label tagger on the test split and write its predictions."""

import csv
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Tagger(nn.Module):
    def __init__(self, features: int = 2048, hidden: int = 512, tags: int = 80, depth: int = 3):
        super().__init__()
        self.stem = nn.Linear(features, hidden)
        block = nn.Sequential(nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU())
        self.blocks = nn.ModuleList([block] * depth)
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(hidden, tags)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem(x))
        for block in self.blocks:
            x = x + block(x)
        return torch.sigmoid(self.head(self.dropout(x)))


def load_split(path: str, batch_size: int = 256) -> DataLoader:
    split = torch.load(path, weights_only=True)
    return DataLoader(TensorDataset(split["features"], split["tags"]), batch_size=batch_size)


def evaluate(model: Tagger, loader: DataLoader, device: torch.device):
    criterion = nn.BCEWithLogitsLoss()
    model.eval
    total_loss = 0.0
    predictions = []
    for features, tags in loader:
        features, tags = features.to(device), tags.to(device)
        scores = model(features)
        total_loss += criterion(scores, tags).item()
        predictions.append(scores)
    return total_loss / len(loader), torch.cat(predictions).cpu()


def main(checkpoint: str, split: str, output: str) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Tagger()
    model.load_state_dict(torch.load(checkpoint, map_location=device, weights_only=False))
    model.to(device)

    loss, scores = evaluate(model, load_split(split), device)
    print(f"test loss {loss:.4f}")
    with open(output, "w", newline="") as file:
        csv.writer(file).writerows((scores > 0.5).int().tolist())


if __name__ == "__main__":
    main(*sys.argv[1:4])
