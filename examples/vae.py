"""A variational autoencoder on MNIST."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.utils import save_image

LATENT = 20


class Encoder(nn.Module):
    def __init__(self, hidden=400, latent=LATENT):
        self.fc = nn.Linear(784, hidden)
        self.mu = nn.Linear(hidden, latent)
        self.logvar = nn.Linear(hidden, latent)

    def forward(self, x):
        h = F.relu(self.fc(x))
        return self.mu(h), self.logvar(h)


class Decoder(nn.Module):
    def __init__(self, hidden=400, latent=LATENT):
        super().__init__()
        self.fc1 = nn.Linear(latent, hidden)
        self.act = nn.ReLU()
        self.fc2 = nn.Linear(hidden, 784)

    def forward(self, z):
        h = self.fc1(z)
        h = self.act(h)
        return self.fc2(h)


class VAE(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()
        self.temperature = nn.Parameter(torch.ones(1)).to(device)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def forward(self, x):
        mu, logvar = self.encoder(x.view(-1, 784))
        z = self.reparameterize(mu, logvar)
        return torch.sigmoid(self.decoder(z) / self.temperature), mu, logvar


def loss_function(reconstruction, x, mu, logvar):
    bce = F.binary_cross_entropy(reconstruction, x.view(-1, 784), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


def train(epochs=10, batch_size=128):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = datasets.MNIST("data", train=True, download=True, transform=transforms.ToTensor())
    loader = DataLoader(data, batch_size=batch_size, shuffle=True)
    model = VAE(device).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    for epoch in range(epochs):
        model.train()
        epoch_loss = 0.0
        for x, _ in loader:
            x = x.to(device)
            reconstruction, mu, logvar = model(x)
            loss = loss_function(reconstruction, x, mu, logvar)
            loss.backward()
            optimizer.zero_grad()
            optimizer.step()
            epoch_loss += loss.item()
        print(f"epoch {epoch}: {epoch_loss / len(data):.2f}")

        model.eval()
        with torch.no_grad():
            z = torch.randn(64, LATENT).to(device)
            samples = torch.sigmoid(model.decoder(z)).cpu()
            save_image(samples.view(64, 1, 28, 28), f"samples_{epoch}.png")


if __name__ == "__main__":
    train()
