"""Programs as graphs of other tools: ``torch.export`` programs, and from those ONNX models and AOTInductor packages.

The blocks of a program are run again while ``torch.export`` traces, with ``if_`` as ``torch.cond`` and ``while_`` as
``while_loop``. These two know tensors only, of one size, that share no memory with what came in and are not written:

| in a program | in the lowered one |
|---|---|
| a number that is known when it runs | a tensor of no dimension (:mod:`values`) |
| a branch whose results differ, or are not there on one side | equal parts of the two (:mod:`control_flow.branch`) |
| a loop variable that grows | a buffer that is large enough and a length (:mod:`control_flow.loop`) |
| a list that grows | the same, for its stacked items (:mod:`lists`) |
| an in-place operation on what came from outside | a copy that is written back after the block (:mod:`aliasing`) |
"""
