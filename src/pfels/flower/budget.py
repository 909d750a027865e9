"""What a node's owner allows its devices: the ledger on the node's disk, and the budget in the node config.

Whatever a server asks, in whichever run, a device that has spent its budget sends nothing more.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.common.constant import APP_DIR
from flwr.supercore.utils import get_flwr_home

from pfels.errors import InputError
from pfels.flower.installed_app import require_no_code
from pfels.flower.messages import NodeShare
from pfels.privacy.device_ledger import CREATE, DeviceLedger, OwnerBudget
from pfels.privacy.discrete_gaussian import BITS
from pfels.privacy.lattice import lattice_mu_squared
from pfels.schemes.exposure import own_noise_costs
from pfels.schemes.plan import RoundPlan
from pfels.schemes.scheme import Scheme

KEYS = ("ledger", "budget-epsilon", "budget-delta")
WITHOUT = "none"


@dataclass(frozen=True)
class NodeBudget:
    """The ledger of a node's devices, and what it may hold at most."""

    ledger: DeviceLedger
    budget: OwnerBudget

    @classmethod
    def of(cls, node_config: Mapping[str, Any]) -> "NodeBudget | None":
        """The budget in a node config; None where the owner sets none. A node with data of its own must have one."""
        path = node_config.get("ledger")
        if path == WITHOUT or (path is None and "local-data" not in node_config):
            return None
        if path is None:
            raise InputError(
                f'ledger: missing; a node with local-data needs one, made by {CREATE}, or ledger="{WITHOUT}"'
            )
        budget = OwnerBudget(_number(node_config, "budget-epsilon"), _number(node_config, "budget-delta"))
        return cls(DeviceLedger(Path(str(path))), budget)

    @classmethod
    def checked(
        cls, node_config: Mapping[str, Any], share: NodeShare, *, devices: int, noise: str
    ) -> "NodeBudget | None":
        """The budget in a node config; an InputError unless its ledger is this node's and within the budget, and the
        noise such that it can be priced."""
        found = cls.of(node_config)
        if found is not None:
            require_no_code(get_flwr_home() / APP_DIR)
            if noise != "secret":
                raise InputError(f'noise = {noise!r}: a node with a ledger sends only with noise = "secret"')
            found.ledger.check(found.budget, devices=devices, partition=share.partition, partitions=share.partitions)
        return found

    def charge(self, scheme: Scheme, plan: RoundPlan, devices: Sequence[int]) -> set[int]:
        """Charge these devices for what the plan has them send, before they send it; those who may not."""
        costs = transmission_costs(scheme, plan)
        return self.ledger.charge({device: costs[device] for device in devices}, self.budget)


def _number(node_config: Mapping[str, Any], key: str) -> float:
    value = node_config.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(
            f"{key} = {value!r}: must be a number; a node with a ledger needs budget-epsilon and budget-delta"
        )
    return float(value)


def transmission_costs(scheme: Scheme, plan: RoundPlan) -> dict[int, float]:
    """μ² that the round costs each sender, with exact noise: (w/z)², and the little that the lattice adds. Noise that
    devices on other nodes would add does not count: their owners may leave it out.

    Where devices add noise over the air, it is on lattices of their own, and arrives rounded to float32 and to the
    receiver's steps. Given what was sent, that moves the sum by at most e, a deterministic vector that the receiver's
    noise hides as (|e|/σ₀)-GDP, in either world: μ grows by at most 2|e|/σ₀.
    """
    costs, air = own_noise_costs(scheme, plan).tolist(), plan.air
    width, noise_std, found = scheme.setting.dimension, scheme.setting.noise_std, {}
    for place, (device, cost) in enumerate(zip(plan.sending.tolist(), costs, strict=True)):
        mu = math.sqrt(lattice_mu_squared(cost))
        if air is not None and air.added is not None:
            longest = float(abs(air.gains[place])) * air.longest(place, width=width) / noise_std
            mu += 2 * (math.sqrt(width) / 2**BITS + longest / 2**24)
        found[device] = mu**2
    return found
