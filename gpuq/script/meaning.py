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
    """What a setting is about. They are tried in the order of `_PATTERNS`; the first whose words match is taken."""

    PRIVATE = "private"
    """Secrets: never stored, not even as a digest."""
    OUTPUT = "output"
    """Seeds, where results go and how they are called, how often something is logged or saved: no part of a kind."""
    RESUME = "resume"
    """From what an earlier run saved this one goes on: what is left of it is not known."""
    STOPPING = "stopping"
    """When a run may stop early."""
    HARMLESS = "harmless"
    """Step sizes and other factors of the update, and how much is printed: never kept."""
    CHOICE = "choice"
    """Which model, data or configuration: another value may be any other work."""
    STORE = "store"
    """Whether data are kept in memory."""
    SAVING = "saving"
    """What saves memory by design: recomputation, offloading, frozen layers, adapters, few bits."""
    COPIES = "copies"
    """Precision, optimiser: how many bytes or copies of the same tensors there are."""
    ACCUMULATION = "accumulation"
    """Into how many parts a batch is divided."""
    LENGTH = "length"
    """Epochs and the steps of the whole run: how long it runs."""
    STEPS = "steps"
    """Steps and durations that may be those of the run, of a rollout, or of a network that is unrolled."""
    DEPTH = "depth"
    EXPONENT = "exponent"
    """Logarithms of sizes, depths of trees: one more is twice as much."""
    BATCH = "batch"
    SPACING = "spacing"
    """Sizes of patches, strides, distances of samples, parts of a model that is split: a smaller one may need more."""
    VOLUME = "volume"
    """Points of a grid along one side, which may have three."""
    SIDE = "side"
    """Height and width of images, in one number."""
    SEQUENCE = "sequence"
    """Length of sequences; numbers of points, nodes, particles: each of them may meet each other one."""
    WIDTH = "width"
    COUNT = "count"
    """How many rows, words, users, trees, …"""
    OTHER = "other"


def _any(*words: str) -> str:
    return f"(?:^|-)(?:{'|'.join(words)})(?=-|$)"


def _qualified(*words: str) -> str:
    """These words at the end of a name, behind words that would be harmless alone: a momentum encoder is a network."""
    return rf"(?:^|-)(?:momentum|warmup|cooldown)-(?:[a-z]+-)?(?:{'|'.join(words)})$"


def _last(*words: str) -> str:
    """These words at the end of a name, but for what qualifies them: `decay-rate` is a decay, `decay-layers` are layers."""
    return f"(?:^|(?<!per)-)(?:{'|'.join(words)})(?:-(?:{_QUALIFIERS}))*$"


_REPORTS = (
    "log|logs|logger|logging|print|printing|report|reporting|save|saving|eval|evaluate|evaluation|val|valid|validation|test|"
    "checkpoint|checkpointing|ckpt|summary|display|plot|vis|visualize|snapshot|sync|wandb|tensorboard|tb|dump|profile"
)
# Alone, these say what is done instead of a training: another work.
_INSTEAD = "eval|evaluate|evaluation|val|valid|validation|test"
_OFTEN = "every|everyn|interval|intervals|freq|frequency|step|steps|iter|iters|epoch|epochs|period|n|limit|total|strategy|level"
_OUTPUT = "out|output|save|log|logs|run|exp|experiment|report|result|results|work|tb|tensorboard|wandb|job|summary"
_PLACE = "dir|dirs|directory|path|folder|root|file|filename|name|id|prefix|suffix|tag|to"
_QUALIFIERS = (
    "rate|ratio|value|val|weight|norm|coeff?|coefficient|factor|prob|probability|schedule|scheduler|policy|type|mode|fn|steps?|"
    "iters?|epochs?|milestones|period|start|end|min|max|init|initial|final|power|params?|target|range|algorithm|name|id|[a-z]|[0-9]+"
)
# Before these a word of a run says that they are of each part of it: `max-episode-steps`.
_OF_A_PART = (
    "episode|decod[a-z]*|denois[a-z]*|diffusion|inner|rollout|unroll[a-z]*|solver|ode|refine[a-z]*|search|sampl[a-z]*"
)
_OF_A_RUN = "steps?|iters?|iterations?|timesteps?|updates|episodes|batches|rounds|passes|sweeps|repeats"
# Which part of equal parts: a fold has as many rows as another.
_ONE_OF_EQUALS = (
    r"^(?:gpu|device|(?:(?:cv|val|test|outer|inner)-)?fold|trial|replicate|repetition|rep|part|index|idx)"
    r"(?:-(?:id|idx|index|no|nr|number))?$"
)
_PRECISION = "precision|dtype|amp|fp16|bf16|fp8|fp32|half|tf32|double|float32|float64|f64"
_SAVES = (
    "(?:grad|gradient|activation)s?-?checkpoint(?:ing)?|checkpoint-activations|recompute|recomputation|remat|offload|offloading|"
    "bits|[48]bit|int[48]|nf4|quant|quantize|quantization|peft|adapters|lora|qlora|freeze|frozen|zero|fsdp"
)
_PATTERNS: tuple[tuple[Meaning, str], ...] = (
    (Meaning.EXPONENT, r"(?:^|-)log-?2(?:-|$)|(?:max|tree|octree)-depth$"),
    (Meaning.ACCUMULATION, r"accum|(?:mini|micro)-?batches"),
    (
        Meaning.COUNT,
        r"(?:^|-)(?:n|num|number|max|total)-(?:of-)?(?:color|group|host|label|message|port|project|user)s?$",
    ),
    (Meaning.SAVING, r"(?:grad|gradient|activation)s?-?checkpoint"),
    # `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.
    (Meaning.SAVING, r"(?:^|-)alloc-conf$"),
    # Without such a cache the network runs that its results are of.
    (
        Meaning.SAVING,
        r"(?:cache|precompute)d?-(?:[a-z]+-){0,3}(?:latents?|features?|embed[a-z]*|outputs?|encoder|log-?p(?:rob)?s?)$",
    ),
    # Several passes with another dropout each, or a window of so many: sizes, whatever they are sizes of.
    (
        Meaning.COUNT,
        r"(?:^|-)(?:(?:drop-?out|drop-?path|smoothing|regularization|reg|jitter|lambda|max-norm|date|time-?stamp|rng|seed)-)(?:[a-z]+-)*"
        r"(?:samples?|passes|copies|windows?|dims?|size|len|length|layers?|blocks?|heads?|channels|frames|tokens)$|"
        r"^(?:multi|mc)-sample-dropout$|^(?:n|num|number-of)-?seeds$",
    ),
    (Meaning.BATCH, _qualified("batch-?size|bsz?")),
    (Meaning.CHOICE, _qualified("encoder|decoder|backbone|network|net|model|arch|unet|teacher|student")),
    (Meaning.CHOICE, r"^exp(?:eriment)?-?file$"),
    (
        Meaning.OUTPUT,
        "|".join(
            (
                r"seed(?!s)|random-state|(?:^|-)(?:rng|timestamp|time-stamp|date)(?:-|$)",
                f"(?:^|-)(?:{_REPORTS})-(?:[a-z]+-){{0,3}}(?:{_OFTEN})$",
                f"(?:^|-)(?:{_OFTEN})-(?:{_REPORTS})$",
                f"(?:^|-)(?:{_OUTPUT})-?(?:{_PLACE})$",
                r"^(?:sampl(?:e|ing)|images?|img|preview|gen|generate|infer|render|demo|fid)-(?:every|interval|freq|frequency|period)$",
                f"^(?!(?:{_INSTEAD}|checkpoint|checkpointing|ckpt|profile)$)(?:{_REPORTS}|{_OUTPUT})$",
                r"^(?:weights|model|checkpoint|ckpt|result|results|metrics|csv|json)-(?:out|output)$",
                r"^(?:out|output)-(?:weights|model|checkpoint|ckpt|result|results|metrics|csv|json)$",
                r"^(?:model|checkpoint|ckpt)-?dir$",
                f"^(?!(?:{_INSTEAD})-only$)(?:{_REPORTS})-(?:model|models|weights|best|last|only|final)",
                _any("outf|outdir|logdir|wandb|tensorboard|mlflow|neptune"),
                r"^(?:o|name|tags?|notes?|comments?|track|capture-video|predictions?|preds?|submission|metrics)$",
                r"^(?:desc|description|suffix|u?uid|guid|git-(?:hash|sha|commit|rev|branch)|commit|study-name)$|^push-to-hub$|^(?:push-to-)?hub-",
            )
        ),
    ),
    (
        Meaning.RESUME,
        r"(?:^|-)(?:resume|restore)(?:-from)?(?:-(?:checkpoint|ckpt|path|file|epoch|step))?$|"
        r"^(?:start|initial|begin)-(?:epoch|step|iter|iteration)$",
    ),
    (Meaning.STOPPING, r"^(?:[a-z]+-)?(?<!lr-)patience$|early-?stop"),
    (
        Meaning.HARMLESS,
        "|".join(
            (
                _any(
                    "lr|lrs|learning-?rate|lrate|step-size|momentum|wd|weight-decay|dropout|drop-?path",
                    "droprate|p-?drop|smoothing|milestones|warmup|cooldown|patience|nesterov|anneal|regularization|max-norm|lambda|lam",
                    "grad-norm|jitter|verbose|verbosity|quiet|silent|progress|tqdm|rdzv|cudnn|deterministic|overwrite",
                    "force(?=$|-(?:re)?(?:download|build|run|start|train|load))",
                    "local-?rank|node-?rank|gpu-?ids?|device-?ids?|cuda-?device",
                ),
                _last(
                    "betas?|beta-?[0-9]|eps|epsilon|tau|tol|tolerance|decay|gamma|l1|l2|reg|ridge|lasso|coeff?|coefficient|clipping",
                    "clip(?!-(?:name|type|id)$)|clip-v?loss|clip-grad(?:ient)?s?|temperature|temp|schedulers?|sched",
                    "color|message|group|project|entity|port|host|addr|address|url|user|email|label|[a-z]+-alpha",
                    "noise|noise-std|init-std|margin|timeout|kl|hflip|vflip|cutmix|mixup",
                    "(?:loss|kl|pos|class|cls|aux|adv|bbox|perceptual|contrastive|recon|reg)-weight",
                ),
                _ONE_OF_EQUALS,
                r"^(?:task|array|shard|split|chunk)-(?:id|idx|index)$",
                r"^(?:v|q|no-(?:cuda|accel|progress|log|save))$",
            )
        ),
    ),
    (
        Meaning.SPACING,
        _any(
            "(?:patch|voxel|cell|pixel|bin|hop)-?size|hop-?length|hop|stride|strides|spacing|d[xyz]",
            "(?:down|sub)-?(?:sampl(?:e|es|ing)|scale)|(?:reduction|compression|decimation)-(?:factor|ratio)|compression",
            "(?:tensor|pipeline|model|context|sequence|expert|data)-(?:model-)?parallel|tp|pp|dp|shard-degree",
        ),
    ),
    (
        Meaning.VOLUME,
        r"^(?:n|num)?-?(?:grid|voxels?|vol|volume|cube|lattice|roi|mesh(?=-size))(?:-(?:size|res|resolution|side|dim|shape|points|n))?$",
    ),
    (Meaning.STORE, _any("cache|cached|caching|preload|prefetch-all|in-?memory|in-?ram|ram|keep-in-memory|load-all")),
    (
        Meaning.SAVING,
        _any(
            f"checkpointing|{_SAVES}",
            "flash|flash-attn|xformers|memory-efficient|low-?(?:mem|memory|vram)|sparse|(?:attn|attention)-(?:impl|implementation|type)",
        ),
    ),
    (
        Meaning.COPIES,
        _any(
            f"{_PRECISION}|mixed|mixed-precision|optimizer|optimiser|optim|opt|ema|use-ema|fused|compile|bidirectional",
        ),
    ),
    (
        Meaning.LENGTH,
        r"(?:^|-)n?-?epochs?(?:-|$)|^(?:its|niter|nepochs?|seeds|runs|multirun|steps?)$|(?:^|-)(?:minutes|hours|budget)$|"
        rf"(?:^|-)(?:max|total|train|training|end|stop|limit)-?(?:(?!(?:{_OF_A_PART})-)[a-z]+-)*(?:{_OF_A_RUN})$|"
        r"^(?:n|num|number-of)?-?(?:iter|iterations?|updates|episodes|batches|rounds|passes|folds|trials)$|"
        r"^(?:n|num)-?iters$",
    ),
    (Meaning.BATCH, r"^max-duration$"),
    (Meaning.STEPS, rf"(?:^|-)n?(?:{_OF_A_RUN}|generations|duration|unroll)$"),
    (
        Meaning.DEPTH,
        r"layers?(?:-|$)|depth|(?:^|-)(?:num-|n-)?(?:blocks?|stages|levels|stacks|encoders|decoders)$|n-?layer",
    ),
    (Meaning.BATCH, r"batch|(?:^|-)bs(?:z)?(?:-|$)|(?:^|-)(?:b|chunk|chunk-size)$|samples-per"),
    (
        Meaning.SIDE,
        r"^sample-size$|(?:image|img|crop|frame|tile|patch|video)-?(?:size|res|resolution|side|height|width|sz|h|w)$|"
        r"resolution|(?:^|-)(?:res|per-side)$|^(?:side|frame|imgsz|height|crop)$",
    ),
    (
        Meaning.SEQUENCE,
        r"^(?:(?:n|num|number|max|total|of)-?)*(?:points?|nodes?|particles|atoms|residues|frames)$|"
        r"seq|block-?size|context|ctx|(?:^|-)(?:bptt|length|len|maxlen|window|horizon|lookback|unroll)(?:-|$)|max-(?:tokens|positions?)",
    ),
    (
        # Before the width, for which `base` and `hidden` stand too.
        Meaning.CHOICE,
        r"^(?:[a-z]{2,}-)?(?:model|arch|backbone|network|checkpoint|ckpt|pretrained|weights|tokenizer|adapter|config|cfg|unet|"
        r"teacher|student|l?lm)(?:-(?:name|type|id|path|or-path|file|variant|version|class|tag|config))*$|"
        r"^(?:type|version|phase|action|algo|algorithm|method|agent|policy|benchmark|configuration|network-code)$",
    ),
    (
        Meaning.COUNT,
        r"vocab|(?:^|-)(?:n|num|number|max|total)-?(?:of-)?(?:sample|row|col|feature|example|user|item|node|point|image|word|token|"
        r"record|entit|relation|cluster|tree|estimator|expert|head|class|worker|env|actor|thread|neg|component|bin|topic|file|shard|"
        r"train|data)[a-z]*(?:-|$)|"
        r"(?:train|data|dataset|corpus|buffer|memory|replay|subset|sample|pool|bank|queue|population|group)-?(?:size|len|capacity|num)|"
        + _any(
            "samples?|rows|cols|columns|examples|instances|points|users|items|nodes|edges|degree|images|queries|words|tokens|ntokens|records"
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
# Values that choose whatever their setting is called: `yolox-s`, `vit-base`, `llama-7b`; `exps/large.py`, or the digest of one.
_SIZED = re.compile(
    r"(?:^|[-_])(?:nano|micro|mini|tiny|small|base|medium|large|big|huge|giant|x+l|x+s|\d+(?:\.\d+)?[mb])$"
    r"|[a-z0-9][-_][nsmlx]$|^yolo\w*\d[nsmlx]$|net-?b\d$"
)
_FILE = re.compile(
    r"\.(?:py|gin|j?sonnet|libsonnet|prototxt|json|toml|ya?ml|ini|cfg|conf|txt|xml|pt|pth|ckpt|safetensors|bin|h5|hdf5|npz|npy|pkl|"
    r"onnx|gguf|tar|tpr)$|^file-[0-9a-f]{8}$"
)
RESULTS = re.compile(r"(?:^|/)(?:out(?:puts?)?|results?|runs?|logs?|checkpoints?|ckpts?|saved?|work_dirs?)(?:[/_.-]|$)")
"""Paths to what runs leave behind."""
_SAYS_NOTHING = frozenset({"name", "type", "target", "class", "kind", "id", "enabled", "enable"})
# Words of secrets; and of sizes, whose numbers are none: `key-dim`, `max-tokens`.
_SECRETS = re.compile(
    r"token(?!iz)|secret|passw|passphrase|credential|api-?key|(?:^|[.-])(?:keys?|pass|pwd|pat|bearer|cookies?|auth|login|tok)(?=[.-]|$)"
)
_MEASURES = re.compile(
    r"(?:^|[.-])(?:n|num|number|max|min|total|per|len|length|size|dims?|width|heads?|layers?|count|samples?|n?tokens)(?:[.-]|$)"
)
# Under these keys stand loggers, and what Hydra does with a run.
_KEEPS_RECORDS = re.compile(r"(?:^|\.)(?:loggers?|logging|wandb|tensorboard|mlflow|neptune|comet)\.|^hydra(?:[./]|$)")
# Factors that leave out what they are factors of where they are zero: a buffer of the optimiser, a mask, a loss with its network.
_LEAVES_OUT = re.compile(
    r"(?:^|-)(?:momentum|dropout|drop-?path|droprate|p-?drop|mixup|cutmix|noise|noise-std|lambda|lam|coeff?|coefficient"
    r"|reg|regularization|kl|gamma|alpha|[a-z0-9]+-alpha|(?!lr|learning|ema)[a-z]+-gamma"
    r"|(?:loss|kl|pos|class|cls|aux|adv|bbox|perceptual|contrastive|recon|reg)-weight)(?:-|$)|(?:^|-)ema-(?:[a-z]+-)*decay$"
)
# Of whole numbers some factors are sizes: frames of a clip, units of the layers `l1` and `l2`, a vector of noise.
_MAY_BE_SIZE = re.compile(r"^(?!lr-|learning-)(?:[a-z0-9]+-)*(?:beta|clip|gamma|l1|l2|margin|noise|tau)$")
_SAVING, _WHICH = re.compile(_any(_SAVES)), re.compile(_ONE_OF_EQUALS)
_COMPILED = tuple((meaning, re.compile(pattern)) for meaning, pattern in _PATTERNS)
# All names of settings in use are shorter, and some patterns take long for a name of thousands of letters.
_LONGEST = 100
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """A name in lower case with dashes, from any style: `batchSize`, `BATCH_SIZE`, `--batch_size`, `data.batch_size`.

    Of a dotted name the last part, or the one before it where the last says nothing: `optimizer.name` is the optimizer.
    """
    parts = name.strip("-").split(".")
    last = parts[-2] if len(parts) > 1 and parts[-1].strip("_").lower() in _SAYS_NOTHING else parts[-1]
    return _HUMP.sub("-", last).replace("_", "-").strip("-").lower()


CHOSEN = "choice-of-"
"""Before the name of a setting that chooses what is done, though its name says that it is harmless."""
NUMBERED = "no-"
"""Before the value of one that is a place in a list: such numbers are no quantities."""


@lru_cache(maxsize=4096)
def meaning(name: str) -> Meaning:
    """The meaning of a setting with this plain name; of a dotted one that of its last part, unless the whole says more: secrets,
    loggers, and what saves memory (`zero_optimization.offload_optimizer.device`)."""
    if may_be_secret(name) and not _MEASURES.search(name):
        return Meaning.PRIVATE
    if len(name) > _LONGEST or name.startswith(CHOSEN):
        return Meaning.OTHER
    if _KEEPS_RECORDS.search(name):
        return Meaning.OUTPUT
    last = plain(name)
    about = next((found for found, pattern in _COMPILED if pattern.search(last)), Meaning.OTHER)
    # Of a factor and of a run's name it does not matter what they belong to.
    belongs = about not in (Meaning.HARMLESS, Meaning.OUTPUT, Meaning.LENGTH) or _WHICH.search(last)
    saves = belongs and any(_SAVING.search(plain(part)) for part in name.split(".")[:-1])
    return Meaning.SAVING if saves else about


def leaves_out_at_zero(name: str) -> bool:
    """Whether a setting of this plain name, which is harmless, switches something on that zero switches off."""
    return bool(_LEAVES_OUT.search(plain(name)))


def may_be_size(name: str) -> bool:
    """Whether a setting of this plain name, which is a factor as a rule, is a size where it is a whole number."""
    return bool(_MAY_BE_SIZE.search(plain(name)))


def may_be_secret(name: str) -> bool:
    """Whether the words of a plain name are those of secrets, so that no text is kept of it."""
    return bool(_SECRETS.search(name))


def names_size(value: str) -> bool:
    """Whether a word names one of several sizes of a network."""
    return bool(_SIZED.search(value))


def names_file(value: str) -> bool:
    """Whether a word is the name of a configuration, a program, weights or data."""
    return bool(_FILE.search(value))
