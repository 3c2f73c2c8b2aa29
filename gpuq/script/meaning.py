"""What a setting is about, by its name: the width of a network, the length of a run, something that only names the output.

The words are those of the argument parsers of public training code (pytorch/examples, timm, Transformers, Keras,
scikit-learn, Lightning, CleanRL, nanoGPT, Detectron, fairseq). What a setting of each meaning may do to memory and time is in
`gpuq.learn.features.setting_effects`.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache


class Meaning(StrEnum):
    """The meanings in the order in which they are tried; the first whose words match is taken."""

    PRIVATE = "private"
    """Secrets: never stored, not even as a digest."""
    OUTPUT = "output"
    """Seeds, where results go and how they are called, how often something is logged or saved: no part of a kind."""
    HARMLESS = "harmless"
    """Step sizes and other factors of the update, and how much is printed: never kept."""
    CHOICE = "choice"
    """Which model, data or configuration: another value may be any other work."""
    STORE = "store"
    """Whether data are kept in memory."""
    COPIES = "copies"
    """Precision, optimiser, recomputation: how many bytes or copies of the same tensors there are."""
    ACCUMULATION = "accumulation"
    """Into how many parts a batch is divided."""
    LENGTH = "length"
    """Epochs, steps, iterations: how long it runs."""
    DEPTH = "depth"
    BATCH = "batch"
    SIDE = "side"
    """Height and width of images, in one number."""
    SEQUENCE = "sequence"
    WIDTH = "width"
    COUNT = "count"
    """How many rows, words, users, trees, …"""
    OTHER = "other"


def _any(*words: str) -> str:
    return f"(?:^|-)(?:{'|'.join(words)})(?=-|$)"


_REPORTS = (
    "log|logs|logger|logging|print|printing|report|reporting|save|saving|eval|evaluate|evaluation|val|valid|validation|test|"
    "checkpoint|checkpointing|ckpt|summary|display|plot|vis|visualize|snapshot|sync|wandb|tensorboard|tb|dump|profile"
)
# Alone, these say what is done instead of a training: another work.
_INSTEAD = "eval|evaluate|evaluation|val|valid|validation|test"
_OFTEN = "every|everyn|interval|intervals|freq|frequency|step|steps|iter|iters|epoch|epochs|period|n|limit|total|strategy|level"
_OUTPUT = "out|output|save|log|logs|run|exp|experiment|result|results|work|tb|tensorboard|wandb|job|summary"
_PLACE = "dir|dirs|directory|path|folder|root|file|filename|name|id|prefix|suffix|tag|to"
_PATTERNS: tuple[tuple[Meaning, str], ...] = (
    (Meaning.PRIVATE, r"token(?!s|iz)|secret|passw|credential|api-?key|(?:^|-)(?:key|auth)$"),
    (Meaning.ACCUMULATION, r"accum|(?:mini|micro)-?batches"),
    (
        Meaning.OUTPUT,
        "|".join(
            (
                r"seed|random-state|(?:^|-)(?:rng|timestamp|time-stamp|date)(?:-|$)",
                f"(?:^|-)(?:{_REPORTS})-(?:[a-z]+-){{0,3}}(?:{_OFTEN})$",
                f"(?:^|-)(?:{_OFTEN})-(?:{_REPORTS})$",
                f"(?:^|-)(?:{_OUTPUT})-?(?:{_PLACE})$",
                f"^(?!(?:{_INSTEAD}|checkpoint|checkpointing|ckpt)$)(?:{_REPORTS}|{_OUTPUT})$",
                r"^(?:weights|model|checkpoint|ckpt|result|results|metrics|csv|json)-(?:out|output)$",
                r"^(?:out|output)-(?:weights|model|checkpoint|ckpt|result|results|metrics|csv|json)$",
                r"^(?:model|checkpoint|ckpt)-?dir$",
                f"^(?!(?:{_INSTEAD})-only$)(?:{_REPORTS})-(?:model|models|weights|best|last|only|final)",
                _any(
                    "outf|outdir|logdir|wandb|tensorboard|mlflow|neptune|tag|tags|note|notes|comment|track|capture-video"
                ),
                r"^(?:o|name)$",
            )
        ),
    ),
    (
        Meaning.HARMLESS,
        "|".join(
            (
                _any(
                    "lr|lrs|learning-?rate|lrate|step-size|momentum|wd|decay|beta|betas|beta-?[0-9]|eps|epsilon|gamma|alpha"
                ),
                _any(
                    "lambda|lam|l1|l2|reg|regularization|clip|clipping|max-norm|grad-norm|dropout|drop-?path|droprate|p-?drop"
                ),
                _any(
                    "smoothing|warmup|cooldown|temperature|temp|tol|tolerance|patience|threshold|thresh|nesterov|tau|anneal"
                ),
                _any("verbose|verbosity|quiet|silent|progress|tqdm|color|message|group"),
                _any("project|entity|port|host|addr|address|url|user|version|email|label|rdzv"),
                _any(
                    "local-?rank|node-?rank|gpu-?ids?|device-?ids?|cuda-?device|deterministic|benchmark|overwrite|force"
                ),
                # Which part of equal parts: a fold has as many rows as another.
                r"^(?:gpu|device|fold|trial|replicate|repetition|rep|part|index|idx)(?:-(?:id|idx|index|no|number))?$",
                r"^(?:task|array|shard|split)-(?:id|idx|index)$",
                r"^(?:v|q|no-(?:cuda|accel|progress|log|save))$",
            )
        ),
    ),
    (Meaning.STORE, _any("cache|cached|caching|preload|prefetch-all|in-?memory|in-?ram|ram|keep-in-memory|load-all")),
    (
        Meaning.COPIES,
        _any(
            "precision|dtype|amp|fp16|bf16|fp8|half|tf32|double|float64|f64|mixed|mixed-precision|optimizer|optimiser|optim|opt",
            "checkpointing|grad-?checkpoint|activation-checkpoint|recompute|remat|ema|use-ema|offload|bits|8bit|4bit|lora|qlora|"
            "freeze|frozen|zero|stage|fsdp|fused|compile|bidirectional|solver",
        ),
    ),
    (
        Meaning.LENGTH,
        r"(?:^|-)(?:n?-?epochs?|n?-?iters?|iterations?|timesteps?|steps?|updates|rounds|passes|episodes|generations|"
        r"train-?iters?|max-?iters?|niter|nepochs?|nsteps|batches|duration|minutes|hours|budget)$|steps-per-epoch|(?:^|-)epochs?(?:-|$)",
    ),
    (
        Meaning.DEPTH,
        r"layers?(?:-|$)|depth|(?:^|-)(?:num-|n-)?(?:blocks?|stages|levels|stacks|encoders|decoders)$|n-?layer",
    ),
    (Meaning.BATCH, r"batch|(?:^|-)bs(?:z)?(?:-|$)|(?:^|-)(?:b|chunk|chunk-size)$|samples-per"),
    (
        Meaning.SIDE,
        r"(?:image|img|crop|frame|tile|patch|video)-?(?:size|res|resolution|side|height|width|sz|h|w)$|"
        r"resolution|^(?:side|frame|imgsz|height|crop)$",
    ),
    (
        Meaning.SEQUENCE,
        r"seq|block-?size|context|ctx|(?:^|-)(?:bptt|length|len|maxlen|window|horizon|lookback|unroll)(?:-|$)|max-(?:tokens|positions?)",
    ),
    (
        # Before the width, for which `base` and `hidden` stand too.
        Meaning.CHOICE,
        r"^(?:[a-z]{2,}-)?(?:model|arch|backbone|network|checkpoint|ckpt|pretrained|weights|tokenizer|adapter|config|cfg)"
        r"(?:-(?:name|type|id|path|or-path|file|variant|class|tag|config))*$",
    ),
    (
        Meaning.COUNT,
        r"vocab|(?:^|-)(?:n|num|number|max|total)-?(?:of-)?(?:sample|row|col|feature|example|user|item|node|point|image|word|token|"
        r"record|entit|relation|cluster|tree|estimator|expert|head|class|worker|env|actor|thread|neg|component|bin|topic|file|shard|"
        r"train|data)[a-z]*(?:-|$)|"
        r"(?:train|data|dataset|corpus|buffer|memory|replay|subset|sample|pool|bank|queue|population)-?(?:size|len|capacity|num)|"
        + _any(
            "samples?|rows|cols|columns|examples|instances|points|users|items|nodes|edges|degree|images|words|tokens|ntokens|records"
            "|ratings|trees|estimators|leaves|leaf-nodes|max-leaf-nodes|bins|max-bins|experts|clusters|components|classes|nclass|"
            "negatives|beams?|workers|threads|nproc|procs|envs|actors|ensemble|members|neighbors|neighbours|capacity|heads?|nhead|"
            "n-?head|rank|k|topk|columns|features|population|particles|walkers|chains|views|frames|shards|corpus|fraction|frac|percent"
        ),
    ),
    (
        Meaning.WIDTH,
        r"hidden|width|embd|embed|embedding|channel|filter|(?:^|-)(?:emsize|nhid|units?|neurons?|dims?|d-?model|d-?ff|ff-?n?|ffn-dim|"
        r"ngf|ndf|nf|ngc|nfeat|nc|nz|latent|inner|intermediate|bottleneck|expansion|mlp-ratio|widen-factor|kernel|kernel-size|"
        r"n-?embd|fc|planes|base|growth-rate|multiplier|scale)(?:-|$)|-dims?$|dim$|size$",
    ),
    (
        Meaning.CHOICE,
        _any(
            "model|models|arch|architecture|backbone|encoder|decoder|network|net|variant|preset|config|cfg|conf|config-name|conf-name",
            "config-file|experiment|recipe|task|tasks|dataset|datasets|data|data-?set|corpus|lang|language|env|env-id|environment|"
            "game|split|subset|domain|mode|stage|size|model-size|pretrained|checkpoint|weights|init-from|tokenizer|command",
            # A run to try the code out is no run of the training.
            "debug|dry-?run|fast-dev-run|smoke|smoke-test|sanity-check|tiny",
        )
        + f"|^(?:{_INSTEAD})(?:-only)?$|^(?:train|training|input|inputs|corpus)(?:-(?:file|files|path|dir|folder|data|set))?$",
    ),
)
_SAYS_NOTHING = frozenset({"name", "type", "target", "class", "kind", "id"})
_COMPILED = tuple((meaning, re.compile(pattern)) for meaning, pattern in _PATTERNS)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """A name in lower case with dashes, from any style: `batchSize`, `BATCH_SIZE`, `--batch_size`, `data.batch_size`.

    Of a dotted name the last part, or the one before it where the last says nothing: `optimizer.name` is the optimizer.
    """
    parts = name.strip("-").split(".")
    last = parts[-2] if len(parts) > 1 and parts[-1].strip("_").lower() in _SAYS_NOTHING else parts[-1]
    return _HUMP.sub("-", last).replace("_", "-").strip("-").lower()


@lru_cache(maxsize=4096)
def meaning(name: str) -> Meaning:
    """The meaning of a setting with this plain name."""
    return next((found for found, pattern in _COMPILED if pattern.search(name)), Meaning.OTHER)
