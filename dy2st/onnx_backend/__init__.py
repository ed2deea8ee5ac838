"""The executor ``"onnxruntime"``: a program that ONNX can tell runs there, with the weights in it as constants.

| file | what it does |
|---|---|
| `registration` | makes the executor known to ``dy2st_runtime``, which cannot lower programs by itself |
| `runner` | runs a program there, or says why not and runs it elsewhere |
| `graph` | a program as an ONNX graph of values |
| `session` | one session of onnxruntime |
| `kept` | graphs on the disk |
"""
