"""Words that people search for, and the page or the section that answers.

The search of the site knows the words of a page, and ranks a page by its title. A word here puts its section first.
`conf.py` makes them entries of the site's index, so that Markdown on GitHub shows none of them.
"""

__all__ = ["WORDS"]

WORDS = {
    "start": "average precision, fraud, detection, install, anomaly detection",
    "choosing#Which task": "mAP, MRR, NDCG, AUC, ROC AUC, F1, Dice, recall at k, precision at k, learning to rank",
    "choosing#One rule each": "epsilon, hyperparameters, tuning, learning rate",
    "choosing#Names in the paper": "cross-entropy, structured SVM",
    "guide#Batches with positives": "oversampling, rare positives, sampler, batch size",
    "guide#Warm-up": "warm-up, warmup",
    "guide#A list that does not fit into memory": "gradient accumulation, out of memory, OOM",
    "guide#A mini-batch ranked against the whole training set": "memory bank, cross-batch memory",
    "faq#My classes are imbalanced": (
        "imbalance, imbalanced, class imbalance, imbalanced data, class weights, class weight, pos_weight, focal loss"
    ),
    "faq#I get an error about NaN": "NaN, inf, not finite, diverges",
    "faq#The loss is stuck at zero": "loss is zero, zero gradient, zero loss",
    "faq#The loss does not fall, or the ranking gets worse": "loss does not decrease, does not learn, not converging",
    "faq#How do I get probabilities?": "probabilities, probability, calibration, threshold, predict_proba",
    "faq#Does it work with DDP?": "multiple GPUs, multi-GPU, all_gather",
    "faq#What does the loss leave in a checkpoint of my model?": "checkpoint, checkpoints, resume, state_dict, save",
    "faq#Does it work in half precision?": "half precision, mixed precision, AMP, autocast, float16, bfloat16, fp16",
    "faq#Why is the first call slow?": "slow, compile, cold start, Docker, container",
    "faq#Can I give single samples a weight?": "sample weights, sample weight, sample_weight",
    "faq#My labels are grades. Which losses take them?": "grades, graded relevance, ordinal",
    "faq#How do hard negatives come in?": "hard negatives, hard negative mining, triplet loss, contrastive loss",
    "faq#Can I use it with XGBoost or LightGBM?": "LightGBM, XGBoost, gradient boosting, CatBoost",
    "errors": "error, warning, NaN, ValueError, exception, silence warnings",
    "speed": "slow, benchmark, benchmarks, time, memory, performance",
    "gpu": "GPU, CUDA, ROCm, MPS, device",
    "recipes/ddp": "DDP, distributed, torchrun, DistributedDataParallel, multiple processes",
    "recipes/accelerate": "resume, accelerate",
    "recipes/lightning": "PyTorch Lightning, checkpoint",
    "recipes/trainer": "Hugging Face, HuggingFace, transformers, Trainer, fine-tuning, BERT, checkpoint, resume",
    "recipes/metric-learning": "metric learning, pytorch-metric-learning, miners",
    "recipes/multilabel": "multi-label, multilabel, several labels, mAP",
    "recipes/retrieval": "mAP, image retrieval, embeddings",
    "recipes/sentence-transformers": "sentence-transformers, SentenceTransformer, bi-encoder, dense retrieval, RAG",
    "recipes/reranker": "reranker, re-ranker, reranking, cross-encoder, CrossEncoder",
    "recipes/ragged-groups": "padding, query groups, group_id, qid, LambdaRank, variable length, nested tensors",
    "recipes/table": "scikit-learn, sklearn, tabular, grid search, pipeline, early stopping",
    "recipes/wrong-labels": (
        "noisy labels, label noise, wrong labels, mislabelled, weight decay, regularisation, regularization, "
        "overfitting, early stopping, weight averaging, EMA"
    ),
    "extending": "custom metric, custom loss, own metric",
}
"""Page, or page#heading → words, with commas between them."""
