"""The speed test on a card: kernels and baseline, in a process with exclusive use of the card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import counted
from autofuse.clients.kernelgen.state_format import Record
from autofuse.clients.kernelgen.testing.accuracy import Pair
from autofuse.machines.gpu.loading import checked_device
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.twin.verify.verify import pack, unpack
from autofuse.machines.words import memory_limit

if TYPE_CHECKING:
    from autofuse.machines.gpu.module import TritonModule

__all__ = ["Bench", "Times", "bench_job"]

JOB = "autofuse.clients.kernelgen.testing.speed:bench_job"
#: Seconds for one module at one set of sizes, including compilation and data generation.
_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Times:
    """Time of a module.

    Attributes:
        record: median microseconds per call on the card; None if it did not run.
        reason: why it did not run.
    """

    record: Record | None
    reason: str = ""


class Bench:
    """A card that modules are timed on, until the context ends.

    Args:
        device: ``cuda`` or ``cuda:N``.

    Attributes:
        facts: name, driver, clocks and versions, and ``when``.
        memory: its bytes of memory.

    Raises:
        AutofuseError: AF5001, PyTorch, Triton or the card is missing; AF5007, there is no such device.
    """

    def __init__(self, device: str) -> None:
        self.device = checked_device(device)
        self._pool = WorkerPool(
            JOB,
            workers=1,
            timeout_s=_TIMEOUT_S,
            memory_mb=memory_limit(device),
            jobs_per_worker=1 << 20,
        )
        outcome = self._pool.run({"device": device})
        if not outcome.ok:
            self._pool.close()
            raise AutofuseError(outcome.diagnostics)
        self.facts: dict[str, str] = outcome.value["facts"]
        self.memory: int = outcome.value["memory"]

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self._pool.__exit__(kind, error, trace)

    def measured(self, value: float, unit: str, **more: str) -> Record:
        """Return a record of a number measured on the card."""
        by = {k: v for k, v in self.facts.items() if k != "when"}
        return Record(
            value=round(value, 4),
            unit=unit,
            status="measured",
            by={**by, **more},
            when=self.facts["when"],
        )

    def times(self, texts: Sequence[str], pair: Pair, sizes: Mapping[str, int]) -> list[Times]:
        """Time modules with a function of the same name, one after another on the same data.

        Args:
            texts: texts of the modules.
            pair: the pair that defines the function's graph, name and parameters.
            sizes: sizes of the symbols.
        """
        out = []
        for text in texts:
            how = {"entry": pair.entry, "device": self.device, "call": pair.call}
            payload = pack(({"module": text}, pair.graph, how))
            outcome = self._pool.run({"module": payload, "sizes": dict(sizes)})
            if not outcome.ok:
                out.append(Times(None, outcome.diagnostics[0].message))
                continue
            found = outcome.value
            spread = f"{found['least_us']:.2f} to {found['most_us']:.2f} us"
            timing = f"{counted(found['calls'], 'call')}, {found['method']}"
            record = self.measured(found["us"], "us", timing=timing, samples=spread)
            out.append(Times(record))
        return out


def bench_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts about the card, or the time of one module; runs in a worker.

    Args:
        job: ``device``; or ``module`` (packed) and ``sizes`` by symbol.

    Raises:
        AutofuseError: AF5001, there is no such card; AF5002, AF5003, the module does not run.
    """
    from dataclasses import asdict

    import autofuse.machines.gpu.timing as card

    if "module" not in job:
        device = card.card_at(job["device"])
        return {"facts": card.card_facts(device), "memory": card.memory_bytes(device)}
    module = _loaded(job["module"])
    inputs = card.timing_inputs(module.graph, job["sizes"], module.device, seed=0)
    keywords = module.keywords(job["sizes"])
    return asdict(card.timed(lambda: module.function(*inputs, **keywords), module.device))


@lru_cache(maxsize=2)
def _loaded(payload: str) -> TritonModule:
    from autofuse.machines.gpu.loading import function_here

    texts, graph, options = unpack(payload)
    return function_here(
        texts["module"], graph, options["entry"], options["device"], call=options["call"]
    )
