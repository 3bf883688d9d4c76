"""A saved model on the Hugging Face hub (extra `hub`)."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ramify.errors import RamifyError
from ramify.files import write_atomic
from ramify.learner import saving
from ramify.learner.card import CARD, licence, with_licence
from ramify.learner.history import FILE as HISTORY
from ramify.learner.learner import Learner
from ramify.learner.relabel import stored
from ramify.learner.saving import FILE
from ramify.learner.sharing import without_samples
from ramify.plural import counted

SENT = (FILE, CARD, HISTORY)
REPO = re.compile(r"[\w.-]+/[\w.-]+")
REFUSED = {
    401: "the token is not valid; log in again with `hf auth login`",
    403: "the token may not write there; make one that may, or choose another REPO",
    404: "there is no such place, or the token may not see it",
}


@dataclass(frozen=True)
class Pushed:
    """What was sent, and where it is."""

    url: str
    private: bool
    size: int
    """Bytes of the model."""
    samples: int
    """Stored samples that went along."""
    left_out: int
    """Stored samples that did not."""
    licence: str | None
    """What the card names."""


def push(
    model: Path,
    repo: str,
    *,
    memory: bool = False,
    public: bool = False,
    licence_name: str | None = None,
    network: str | None = None,
    own_code: bool = False,
    progress: bool = False,
) -> Pushed:
    """Send a model, with its card, to the repository `owner/name`, which is made (private) if need be.

    Stored samples are sent only with `memory`; without them the model answers the same. `progress` lets the
    hub's client draw its bars.
    """
    try:
        import huggingface_hub
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ImportError:
        raise RamifyError("push needs the extra `hub`: pip install 'ramify[hub]'") from None
    if not REPO.fullmatch(repo):
        raise RamifyError(f"REPO is {repo!r}; expected OWNER/NAME, such as rosa/garden-plants")
    if huggingface_hub.get_token() is None:
        raise RamifyError("the hub needs a token; log in with `hf auth login`, or set HF_TOKEN")
    learner = Learner.load(model, device="cpu", network=network, own_code=own_code)
    count = sum(1 for _ in stored(learner._trainer))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        named = _prepare(learner, model, folder, repo, memory, licence_name)
        api = huggingface_hub.HfApi()
        if not progress:
            disable_progress_bars()
        try:
            api.create_repo(repo, private=not public, exist_ok=True)
            private = bool(api.model_info(repo).private)
            message = f"{counted(learner.samples, 'sample')} learned"
            api.upload_folder(
                repo_id=repo, folder_path=folder, allow_patterns=list(SENT), commit_message=message
            )
        except Exception as error:  # whatever the client and the network bring
            raise RamifyError(f"{repo} was not pushed: {_reason(error)}") from error
        size = (folder / FILE).stat().st_size
    sent = count if memory else 0
    return Pushed(f"{api.endpoint}/{repo}", private, size, sent, count - sent, named)


def _prepare(
    learner: Learner, model: Path, folder: Path, repo: str, memory: bool, licence_name: str | None
) -> str | None:
    """Write what is sent; returns the licence that its card names."""
    if learner.taxonomy is None and learner.levels:
        learner.hierarchy()  # for the card, and for whoever asks for paths
    if (model / CARD).is_file():
        write_atomic(folder / CARD, (model / CARD).read_bytes())
    saving.save(learner if memory else without_samples(learner), folder, repo)
    text = (folder / CARD).read_text(encoding="utf-8", errors="replace")
    if licence_name is not None:
        text = with_licence(text, licence_name)
        write_atomic(folder / CARD, text)
    return licence(text)


def _reason(error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in REFUSED:
        return REFUSED[status]
    first: BaseException = error
    while first.__cause__ is not None:
        first = first.__cause__
    words = " ".join(str(first).split()) or type(first).__name__
    return f"{words[:200]}; look whether the hub can be reached, and try again"
