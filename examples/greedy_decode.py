"""Greedy decoding with a growing key and value cache and an early stop, as one program.

    python examples/greedy_decode.py

The whole generation is one call: read the prompt, then add a token at a time until the end token or the
limit. The caches grow by `torch.cat` inside the loop, so their length is known only while it runs. The
weights are random: what is shown is that the static program writes the same tokens as eager Python, for
prompts of every length.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import dy2st

VOCABULARY = 24
END = 0
SEED = 12  # of weights that end some continuations soon, some late and some never
ANY_PROMPT = dy2st.InputSpec([None], "int64", "prompt")


class Block(nn.Module):
    """A transformer block that attends to what its cache holds and returns the grown cache."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        new = self.query_key_value(self.attention_norm(x)).unflatten(1, (3, self.heads, -1))
        query, key, value = new.permute(1, 2, 0, 3)
        keys = torch.cat([keys, key], dim=1)
        values = torch.cat([values, value], dim=1)
        causal = torch.ones(x.shape[0], keys.shape[1], dtype=torch.bool).tril(keys.shape[1] - x.shape[0])
        mixed = F.scaled_dot_product_attention(query, keys, values, attn_mask=causal)
        x = x + self.output(mixed.transpose(0, 1).flatten(1))
        return x + self.feed_forward(x), keys, values


class Decoder(nn.Module):
    """A decoder-only transformer that writes its own continuation of a prompt."""

    def __init__(self, width: int = 32, heads: int = 4, layers: int = 2, limit: int = 40) -> None:
        super().__init__()
        self.heads = heads
        self.head_width = width // heads
        self.limit = limit
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.position = nn.Embedding(128, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, VOCABULARY))

    def forward(self, prompt: Tensor) -> Tensor:
        """Return the prompt and its continuation, which ends with `END` or after `limit` tokens."""
        empty = self.embedding.weight.new_zeros(self.heads, 0, self.head_width)
        keys = [empty for _ in self.blocks]
        values = [empty for _ in self.blocks]
        tokens = prompt
        fresh = prompt
        for _ in range(self.limit):
            positions = torch.arange(len(tokens) - len(fresh), len(tokens))
            x = self.embedding(fresh) + self.position(positions)
            for layer, block in enumerate(self.blocks):
                x, keys[layer], values[layer] = block(x, keys[layer], values[layer])
            fresh = self.head(x[-1]).argmax(keepdim=True)
            tokens = torch.cat([tokens, fresh])
            if fresh == END:
                break
        return tokens


def main(prompts: int = 12) -> dict[str, object]:
    torch.manual_seed(SEED)
    eager = Decoder().eval()
    torch.manual_seed(SEED)
    static = dy2st.to_static(Decoder().eval(), input_spec=[ANY_PROMPT])

    generator = torch.Generator().manual_seed(1)
    written = []
    with torch.no_grad():
        for number in range(prompts):
            prompt = torch.randint(1, VOCABULARY, (1 + number % 7,), generator=generator)
            tokens = static(prompt)
            assert torch.equal(tokens, eager(prompt))
            written.append(len(tokens) - len(prompt))
            stopped = "stopped at END" if tokens[-1] == END else "reached the limit"
            print(f"prompt of {len(prompt)}: {written[-1]:>2} tokens written, {stopped}, equal to eager")

    print(f"programs: {len(static.forward.program_cache)}")
    return {"written": written, "limit": static.limit, "programs": len(static.forward.program_cache)}


if __name__ == "__main__":
    main()
