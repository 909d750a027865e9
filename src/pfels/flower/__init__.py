"""The same stages as a Flower app: devices on machines of their own, the channel simulated where their signals meet.

`flwr run $(python -m pfels.flower)` runs it; docs/deployment.md says how, and what a digital link shows the server that
the air would not.
"""
