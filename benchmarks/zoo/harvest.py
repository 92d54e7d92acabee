"""Write the regions that autofuse's partitioner finds in public models as graph files, each distinct one once.

    pip install transformers timm
    python benchmarks/zoo/harvest.py --out FOLDER --seed 20261130 --seconds 1200

The models are those of ``benchmarks/models/zoo.py``, language models of other families, and image models of timm drawn
at random with the seed; forward, and backward where a model trains. Weights and activations are on the device ``meta``,
so nothing is computed and sizes are real. ``benchmarks/zoo/roof.py`` compares modelled times of the files with roofs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch import calls, lower, selection
from autofuse.clients.torch.devices import kernels
from autofuse.frontends.graph.writer import graph_data
from autofuse.implgraph.ir.fusion import FusionGraph

# The folder has a module ``run``, as others have: it is searched for this import only.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
from zoo import MODELS, Model, loss_of

del sys.path[0]

#: Further families of transformers: ``Config/Model``.
LANGUAGE = {
    "albert": "AlbertConfig/AlbertForMaskedLM",
    "bart": "BartConfig/BartForConditionalGeneration",
    "bloom": "BloomConfig/BloomForCausalLM",
    "deberta": "DebertaV2Config/DebertaV2ForMaskedLM",
    "electra": "ElectraConfig/ElectraForMaskedLM",
    "falcon": "FalconConfig/FalconForCausalLM",
    "gpt neox": "GPTNeoXConfig/GPTNeoXForCausalLM",
    "mamba": "MambaConfig/MambaForCausalLM",
    "mistral": "MistralConfig/MistralForCausalLM",
    "mixtral": "MixtralConfig/MixtralForCausalLM",
    "phi": "PhiConfig/PhiForCausalLM",
    "roberta": "RobertaConfig/RobertaForMaskedLM",
}


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--images", type=int, default=16, help="image models drawn from timm")
    parser.add_argument("--models", default="", help="parts of names, with commas")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no model after this")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    wanted = [p for p in args.models.split(",") if p]
    began, distinct, done = time.time(), 0, 0
    for name, model in all_models(args.seed, args.images):
        if wanted and not any(p in name for p in wanted):
            continue
        if time.time() - began > args.seconds:
            break
        start = time.time()
        try:
            graphs = regions(model)
        except Exception as e:  # a model that cannot be traced says so, and others go on
            print(
                f"{name}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}",
                flush=True,
            )
            continue
        new = sum(write(g, name, args.out) for g in graphs)
        distinct, done = distinct + new, done + 1
        took = time.time() - start
        print(f"{name}: {len(graphs)} regions, {new} new, {took:.0f} s", flush=True)
    print(f"{distinct} distinct regions of {done} models in {args.out}, seed {args.seed}")
    return 0 if done else 1


def all_models(seed: int, images: int) -> Iterator[tuple[str, Model]]:
    """Yield the models by name."""
    yield from MODELS.items()
    for name, kind in LANGUAGE.items():
        yield name, Model(_language(kind), True, torch.bfloat16)
    import timm

    names = sorted({n.partition(".")[0] for n in timm.list_models()})
    for name in random.Random(seed).sample(names, images):
        yield f"timm {name}", Model(_image(name), True, autocast=torch.bfloat16)


def _language(kind: str) -> Callable[[bool], tuple[torch.nn.Module, dict[str, Any]]]:
    def build(small: bool) -> tuple[torch.nn.Module, dict[str, Any]]:
        import transformers

        config_name, model_name = kind.split("/")
        config = getattr(transformers, config_name)()
        for layers in ("num_hidden_layers", "n_layer", "encoder_layers", "decoder_layers"):
            if isinstance(getattr(config, layers, None), int):
                setattr(config, layers, 2)  # the others have the same regions
        ids = torch.randint(0, config.vocab_size, (4, 512))
        return getattr(transformers, model_name)(config), {"input_ids": ids, "labels": ids}

    return build


def _image(name: str) -> Callable[[bool], tuple[torch.nn.Module, dict[str, Any]]]:
    def build(small: bool) -> tuple[torch.nn.Module, dict[str, Any]]:
        import timm

        module = timm.create_model(name)
        size = module.default_cfg.get("input_size", (3, 224, 224))
        return module, {"x": torch.randn(16, *size)}

    return build


def regions(model: Model) -> list[FusionGraph]:
    """Return the graphs of a model's regions, with the sizes of its call as hints of symbols."""
    found: list[FusionGraph] = []
    select = selection.select

    def record(*args: Any, **kwargs: Any) -> Any:
        made, report = select(*args, **kwargs)
        found.extend(m.lowered.graph for m in made)
        return [], report  # PyTorch computes them, on ``meta``

    torch._dynamo.reset()
    module, given = _built(model)
    if hasattr(getattr(module, "config", None), "use_cache"):
        module.config.use_cache = False  # a cache starts with tensors that are no parameters
    module = module.to(model.dtype).train(model.trains)
    given = {
        k: v.to(model.dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v
        for k, v in given.items()
    }
    old = selection.built_for, selection.device_of, lower.DEVICES, calls.select
    selection.built_for = lambda *_: kernels.Built(None)
    selection.device_of = lambda n: torch.device("cpu")
    lower.DEVICES, calls.select = (*lower.DEVICES, "meta"), record
    try:
        compiled = torch.compile(
            module, backend="autofuse", options={"target": "ascend910b1", "fallback": "eager"}
        )
        autocast = torch.autocast("cpu", model.autocast, enabled=model.autocast is not None)
        with torch.set_grad_enabled(model.trains), autocast:
            out = compiled(**given)
            loss = loss_of(out) if model.trains else None
        if loss is not None:
            loss.backward()
    finally:
        selection.built_for, selection.device_of, lower.DEVICES, calls.select = old
    return found


def _built(model: Model) -> tuple[torch.nn.Module, dict[str, Any]]:
    """Return a model of full size and its arguments on the device ``meta``."""
    try:
        with torch.device("meta"):
            return model.build(False)
    except RuntimeError:
        # It computes numbers of its own with tensors, such as the rates of its blocks.
        module, given = model.build(False)
        return module.to("meta"), {
            k: v.to("meta") if isinstance(v, torch.Tensor) else v for k, v in given.items()
        }


def write(graph: FusionGraph, model: str, folder: Path) -> bool:
    """Write a graph; return False if an equal one is there, or if no graph file can hold it."""
    try:
        document = {**graph_data(graph), "name": "region"}
    except AutofuseError:
        return False
    digest = hashlib.sha256(json.dumps(document).encode()).hexdigest()[:12]
    path = folder / f"{digest}.json"
    if path.exists():
        return False
    words = "".join(c if c.isalnum() else "_" for c in model)
    path.write_text(json.dumps({**document, "name": f"{words}_{digest[:6]}"}), encoding="utf-8")
    return True


if __name__ == "__main__":
    raise SystemExit(main())
