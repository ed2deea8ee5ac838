"""Text from language models of transformers: the loop over tokens ends where all sequences have ended."""

from __future__ import annotations

from typing import Any

import torch

from tests.corpus.registry import Subject, published

PROMPTS = [(torch.randint(4, 17, (2, 5), generator=torch.Generator().manual_seed(seed)),) for seed in (0, 3, 5)]


def generation(kind: str, **settings: Any) -> Subject:
    import transformers

    tokens = {"vocab_size": 17, "eos_token_id": 3, "bos_token_id": 1, "pad_token_id": 0}
    if kind == "GPT2":
        small = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64}
    else:
        small = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = getattr(transformers, f"{kind}LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM")(
        getattr(transformers, f"{kind}Config")(**tokens, **small)
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8)  # so that it does not repeat one token
    return Subject(lambda prompts: model.generate(prompts, max_new_tokens=8, **settings), PROMPTS)


@published("transformers")
def transformers_greedy() -> Subject:
    return generation("Llama", do_sample=False)


@published("transformers")
def transformers_sampling() -> Subject:
    return generation("Llama", do_sample=True, top_k=5, top_p=0.9, temperature=0.7, repetition_penalty=1.2)


@published("transformers")
def transformers_beams() -> Subject:
    return generation("GPT2", num_beams=2, do_sample=False)
