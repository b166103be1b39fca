"""Train a small convolutional network on CIFAR-10."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class ConvBlock(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(out_channels)

    def forward(self, x):
        return F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)


class SmallNet(nn.Module):
    def __init__(self, num_classes=10, width=64, depth=3):
        super().__init__()
        self.stem = nn.Conv2d(3, width, kernel_size=3, padding=1)
        self.blocks = []
        for i in range(depth):
            self.blocks.append(ConvBlock(width * 2**i, width * 2 ** (i + 1)))
        self.head = nn.Linear(width * 2**depth, num_classes)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        x = F.dropout(x, p=0.5)
        return F.softmax(self.head(x), dim=1)


def loaders(root, batch_size):
    train_transform = transforms.Compose([
        transforms.RandomCrop(32, padding=4),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(MEAN, STD),
    ])
    test_transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    train_set = datasets.CIFAR10(root, train=True, download=True, transform=train_transform)
    test_set = datasets.CIFAR10(root, train=False, transform=test_transform)
    return (
        DataLoader(train_set, batch_size, shuffle=True, num_workers=2, pin_memory=True),
        DataLoader(test_set, batch_size, num_workers=2, pin_memory=True),
    )


def train_one_epoch(model, loader, criterion, optimizer, device):
    model.train()
    running_loss = 0.0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        running_loss += loss
    return running_loss / len(loader)


def accuracy(model, loader, device):
    correct = total = 0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        predictions = model(images).argmax(dim=1)
        correct += (predictions == labels).sum().item()
        total += labels.size(0)
    return correct / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = SmallNet().to(device)
    train_loader, test_loader = loaders(args.data, args.batch_size)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)

    best = 0.0
    for epoch in range(args.epochs):
        loss = train_one_epoch(model, train_loader, criterion, optimizer, device)
        scheduler.step()
        score = accuracy(model, test_loader, device)
        print(f"epoch {epoch:3d}  loss {loss:.4f}  accuracy {score:.2%}")
        if score > best:
            best = score
            torch.save(model.state_dict(), "best.pt")


if __name__ == "__main__":
    main()
