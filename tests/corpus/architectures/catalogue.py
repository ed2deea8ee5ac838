"""All architectures of ``transformers``: one configuration and one model of each."""

from __future__ import annotations

import importlib
from typing import Any

_HEADS = (
    "BACKBONE", "PRETRAINING", "CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "SPEECH_SEQ_2_SEQ", "DEPTH_ESTIMATION",
    "UNIVERSAL_SEGMENTATION", "SEMANTIC_SEGMENTATION", "OBJECT_DETECTION", "IMAGE_CLASSIFICATION", "KEYPOINT_DETECTION",
    "KEYPOINT_MATCHING", "IMAGE_MATTING", "POSE_ESTIMATION", "TABLE_RECOGNITION", "DECISION",
)  # fmt: skip


def names() -> list[str]:
    """Return the names of all packages of models that have one that can be called."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES, model_type_to_module_name

    packages = dict.fromkeys(map(model_type_to_module_name, CONFIG_MAPPING_NAMES))
    return [name for name in packages if name not in ("layoutxlm", "nougat", "auto")]  # these have only a tokenizer or processor


def classes(name: str) -> tuple[type, type]:
    """Return the class of the configuration and of the model of an architecture.

    Args:
        name: of the package under ``transformers.models``.
    """
    import transformers
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES, model_type_to_module_name

    kinds = [kind for kind in CONFIG_MAPPING_NAMES if model_type_to_module_name(kind) == name]
    kinds.sort(key=lambda kind: (kind.replace("-", "_") != name, "text" in kind or "encoder" in kind))
    tables = [modeling_auto.MODEL_MAPPING_NAMES]
    tables += [getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES") for head in _HEADS]
    for kind in kinds[:1] if kinds[0].replace("-", "_") == name else kinds:
        for table in tables:
            if kind in table:
                model = table[kind] if isinstance(table[kind], str) else table[kind][0]
                return getattr(transformers, CONFIG_MAPPING_NAMES[kind]), getattr(transformers, model)
    config = getattr(transformers, CONFIG_MAPPING_NAMES[kinds[0]])
    return config, _any_model(config, importlib.import_module(f"transformers.models.{name}.modeling_{name}"))


def _any_model(config: type, module: Any) -> type:
    from transformers import PreTrainedModel

    models = [cls for cls in vars(module).values() if isinstance(cls, type) and issubclass(cls, PreTrainedModel)]
    models = [cls for cls in models if cls.config_class is config and "forward" in vars(cls)]
    models.sort(key=lambda cls: cls.__name__ != config.__name__.replace("Config", "Model"))
    if not models:
        raise LookupError(f"no model has a {config.__name__}")
    result: type = models[0]
    return result
