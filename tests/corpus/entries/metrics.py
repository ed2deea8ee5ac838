"""Metrics: modules whose state changes with each update."""

from __future__ import annotations

from typing import Any

import torch

from tests.corpus.registry import Subject, named, published

_logits = torch.tensor([[0.1, 2.0, -1.0], [3.0, 0.2, 0.1], [0.3, 0.2, 4.0], [1.0, 2.0, 0.0]])
_labels = (torch.tensor([1, 0, 2, 0]), torch.tensor([1, 1, 1, 1]))


def _metric(path: str, calls: Any, **options: Any) -> Any:
    def make() -> Subject:
        import torchmetrics

        kind: Any = torchmetrics
        for part in path.split("."):
            kind = getattr(kind, part)
        metric = kind(**options)
        return Subject(metric, calls)

    return make


_classes = [(_logits.softmax(1), labels) for labels in _labels]
_scores = [(_logits[:, 0].sigmoid(), torch.tensor([1, 0, 1, 0])), (_logits[:, 1].sigmoid(), torch.tensor([0, 0, 0, 1]))]
_values = [(_logits[:, 0], _logits[:, 1]), (_logits[:, 2], _logits[:, 2])]
named("metric_accuracy", "torchmetrics", _metric("Accuracy", _classes, task="multiclass", num_classes=3))
named("metric_f1_macro", "torchmetrics", _metric("F1Score", _classes, task="multiclass", num_classes=3, average="macro"))
named(
    "metric_confusion_matrix",
    "torchmetrics",
    _metric("ConfusionMatrix", _classes, task="multiclass", num_classes=3, normalize="true"),
)
named("metric_auroc", "torchmetrics", _metric("AUROC", _scores, task="binary"))
named("metric_average_precision_binned", "torchmetrics", _metric("AveragePrecision", _scores, task="binary", thresholds=5))
named("metric_calibration_error", "torchmetrics", _metric("CalibrationError", _scores, task="binary", n_bins=4))
named(
    "metric_mean",
    "torchmetrics",
    _metric("MeanMetric", [(torch.tensor([1.0, 2.0]),), (torch.tensor([1.0, float("nan")]),)], nan_strategy="ignore"),
)
named(
    "metric_mean_raising",
    "torchmetrics",
    _metric("MeanMetric", [(torch.tensor([1.0, 2.0]),), (torch.tensor([1.0, float("nan")]),)], nan_strategy="error"),
)
named("metric_pearson", "torchmetrics", _metric("PearsonCorrCoef", _values))
named("metric_r2", "torchmetrics", _metric("R2Score", _values))
named("metric_spearman", "torchmetrics", _metric("SpearmanCorrCoef", _values))
named("metric_mean_squared_error", "torchmetrics", _metric("MeanSquaredError", _values))
named(
    "metric_perplexity",
    "torchmetrics",
    _metric("text.Perplexity", [(_logits[None], labels[None]) for labels in _labels], ignore_index=2),
)
named(
    "metric_ssim",
    "torchmetrics",
    _metric("image.StructuralSimilarityIndexMeasure", [(torch.rand(1, 1, 16, 16), torch.rand(1, 1, 16, 16))], data_range=1.0),
)
named(
    "metric_retrieval_map",
    "torchmetrics",
    _metric(
        "retrieval.RetrievalMAP",
        [
            (torch.tensor([0.2, 0.3, 0.5, 0.1]), torch.tensor(t), torch.tensor([0, 0, 1, 1]))
            for t in ([True, False, True, True], [False, False, True, False])
        ],
    ),
)


@published("torchmetrics")
def metric_roc_curve() -> Subject:
    from torchmetrics.functional.classification import binary_roc

    return Subject(lambda p, t: binary_roc(p, t), _scores)


@published("torchmetrics")
def metric_collection() -> Subject:
    import torchmetrics

    made = torchmetrics.MetricCollection([torchmetrics.MeanSquaredError(), torchmetrics.MeanAbsoluteError()])
    return Subject(made, _values)


@published("pytorch_metric_learning")
def triplet_margin_with_miner() -> Subject:
    from pytorch_metric_learning import losses, miners

    loss, miner = losses.TripletMarginLoss(), miners.MultiSimilarityMiner()

    def run(x, labels):
        return loss(x, labels, miner(x, labels))

    torch.manual_seed(1)
    x = torch.randn(6, 4, requires_grad=True)
    return Subject(run, [(x, torch.tensor([0, 0, 1, 1, 2, 2])), (x, torch.tensor([0, 1, 2, 3, 4, 5]))])


@published("pytorch_metric_learning")
def contrastive_loss() -> Subject:
    from pytorch_metric_learning import losses

    torch.manual_seed(1)
    x = torch.randn(6, 4, requires_grad=True)
    return Subject(losses.ContrastiveLoss(), [(x, torch.tensor([0, 0, 1, 1, 2, 2])), (x, torch.tensor([0, 1, 2, 3, 4, 5]))])


@published("pytorch_metric_learning")
def histogram_loss() -> Subject:
    from pytorch_metric_learning import losses

    torch.manual_seed(1)
    x = torch.randn(6, 4, requires_grad=True)
    return Subject(
        losses.HistogramLoss(n_bins=10), [(x, torch.tensor(labels)) for labels in ([0, 0, 1, 1, 2, 2], [0, 1, 2, 3, 4, 5])]
    )
