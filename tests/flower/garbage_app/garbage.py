"""A client whose last node replies NaN instead of its signals in every round."""

import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from pfels.flower import client_app, messages

app = ClientApp()


@app.query()
def greet(message: Message, context: Context) -> Message:
    """An honest reply to the greeting."""
    return client_app.greet(message, context)


@app.train()
def train(message: Message, context: Context) -> Message:
    """NaN from the last node, honest signals from the others."""
    reply = client_app.train(message, context)
    if context.node_config["partition-id"] == context.node_config["num-partitions"] - 1:
        honest = reply.content["x"]["x"]
        reply.content = messages.signals_record(torch.full((len(honest) // 4,), float("nan")))
    return reply
