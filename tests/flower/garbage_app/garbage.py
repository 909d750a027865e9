"""A client that answers every round with numbers that are not its signals; the last of the nodes only."""

import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from pfels.flower import client_app, messages

app = ClientApp()


@app.query()
def greet(message: Message, context: Context) -> Message:
    """An honest greeting."""
    return client_app.greet(message, context)


@app.train()
def train(message: Message, context: Context) -> Message:
    """NaN from the last node, honest signals from the others."""
    reply = client_app.train(message, context)
    if context.node_config["partition-id"] == context.node_config["num-partitions"] - 1:
        honest = reply.content["x"]["x"]
        reply.content = messages.answer(torch.full((len(honest) // 4,), float("nan")))
    return reply
