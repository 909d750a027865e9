"""The schemes as a Flower app: devices on separate machines, the channel simulated at the server.

`flwr run $(python -m pfels.flower)` runs it. docs/deployment.md describes the set-up, and what the server of a digital
deployment could see that a radio receiver could not.
"""
