"""The words of a report, explained at its end and in ``docs/glossary.md``."""

WORDS = (
    (
        "Calibrated",
        "of the samples with a probability of 0.7, seven in ten have the label 1. Predicted means:"
        " the samples with a prediction of 3 have a mean label of 3.",
    ),
    (
        "Log loss",
        "minus the logarithm of the probability that the label had, on average, in nats (units of"
        " the natural logarithm). Less is better.",
    ),
    ("Brier score", "the mean squared difference of probability and label. Less is better."),
    (
        "MCB",
        "miscalibration: by how much the mean score would fall if each probability were replaced by"
        " the isotonic regression of the labels on it. 0 is best.",
    ),
    (
        "DSC",
        "discrimination: by how much the best recalibrated probabilities are better than the share"
        " of labels that are 1. More is better.",
    ),
    ("UNC", "uncertainty: the score of always predicting the share of labels that are 1."),
    (
        "CORP",
        "reliability by isotonic regression, without bins: consistent, optimally binned,"
        " reproducible, by the pool-adjacent-violators algorithm.",
    ),
    (
        "Deviance",
        "how wrong predicted means of counts or amounts are: the squared error, or twice what the"
        " log likelihood of a Poisson, gamma or Tweedie distribution loses against predicting each"
        " label. Less is better.",
    ),
    (
        "D²",
        "the share of the deviance that predictions explain: 1 is best, and 0 is that of always"
        " predicting the mean label. For the squared error it is R².",
    ),
    ("ECE", "expected calibration error: the mean gap of prediction and labels over bins."),
    (
        "Coverage",
        "the share of samples that are answered, the surest first; a person decides the others.",
    ),
    ("AUC", "area under the ROC curve: how often a label 1 has the higher prediction. 1 is best."),
    (
        "e-value",
        "evidence against calibration that may be looked at after every sample: calibrated"
        " predictions reach 1 / a with a probability of at most a.",
    ),
    ("Band", "where the curve of calibrated predictions lies with the probability that it names."),
)
