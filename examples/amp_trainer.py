"""Fine-tune a pretrained ResNet with mixed precision."""

from pathlib import Path

import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast
from torch.optim import AdamW
from torch.utils.data import DataLoader
from torchvision.models import ResNet50_Weights, resnet50


def build_model(num_classes: int) -> nn.Module:
    model = resnet50(weights=ResNet50_Weights.IMAGENET1K_V2)
    for parameter in model.parameters():
        parameter.require_grad = False
    for parameter in model.layer4.parameters():
        parameter.requires_grad = True
    model.fc = nn.Linear(model.fc.in_features, num_classes)
    return model


class Trainer:
    def __init__(
        self,
        model: nn.Module,
        train_loader: DataLoader,
        val_loader: DataLoader,
        lr: float = 3e-4,
        max_norm: float = 1.0,
        checkpoints: Path = Path("checkpoints"),
    ):
        self.device = torch.device("cuda")
        self.model = model.to(self.device)
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.max_norm = max_norm
        self.checkpoints = checkpoints
        self.criterion = nn.CrossEntropyLoss()

        trainable = filter(lambda p: p.requires_grad, self.model.parameters())
        self.optimizer = AdamW(trainable, lr=lr, weight_decay=0.05)
        count = sum(p.numel() for p in trainable)
        print(f"{count / 1e6:.1f} M trainable parameters")
        self.scaler = GradScaler()

    def train_epoch(self) -> float:
        self.model.train()
        total = torch.zeros(()).to(self.device)
        for images, labels in self.train_loader:
            images = images.to(self.device, non_blocking=True)
            labels = labels.to(self.device, non_blocking=True)

            self.optimizer.zero_grad(set_to_none=True)
            with autocast():
                loss = self.criterion(self.model(images), labels)
            self.scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
            self.scaler.step(self.optimizer)
            self.scaler.update()

            total += loss.detach()
            torch.cuda.empty_cache()
        return total.item() / len(self.train_loader)

    @torch.no_grad()
    def validate(self) -> float:
        self.model.eval()
        correct = total = 0
        for images, labels in self.val_loader:
            images, labels = images.to(self.device), labels.to(self.device)
            with autocast():
                logits = self.model(images)
            correct += (logits.argmax(dim=1) == labels).sum().item()
            total += labels.numel()
        return correct / total

    def fit(self, epochs: int) -> None:
        best = 0.0
        for epoch in range(epochs):
            loss = self.train_epoch()
            accuracy = self.validate()
            print(f"epoch {epoch}: loss {loss:.4f}, accuracy {accuracy:.2%}")
            if accuracy > best:
                best = accuracy
                self.save("best.pt")

    def save(self, name: str) -> None:
        self.checkpoints.mkdir(exist_ok=True)
        torch.save(
            {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()},
            self.checkpoints / name,
        )
