"""Label Studio's tasks (https://labelstud.io/guide/task_format): labels from them, and answers into them.

Images are classified there by a Taxonomy control; its values are paths: `{"taxonomy": [["fruit", "apple"]]}`.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import quoteattr

from ramify.datasets.splits import ClassPath
from ramify.errors import RamifyError
from ramify.learner.asking import FileAnswer
from ramify.learner.exchange import Brought, plain_names, unique_names
from ramify.taxonomy import Taxonomy
from ramify.taxonomy.edit import ancestry

Task = dict[str, Any]
LOCAL, UPLOADED = "/data/local-files/", "/data/upload/"
CONTROL, OBJECT = "taxonomy", "image"  # the names in the labelling configuration that is written
PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".heic", ".jfif")


def read_tasks(path: Path) -> list[Task]:
    """The tasks of an export, or of a file to import there."""
    try:
        tasks = json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise RamifyError(f"{path} is not valid JSON ({error}); export from Label Studio again") from None
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise RamifyError(f"{path} holds no list of tasks; export from Label Studio as JSON")
    for number, task in enumerate(tasks, 1):
        if not isinstance(task.get("data"), dict):
            raise RamifyError(
                f"{path} task {number} has no table data; export from Label Studio as JSON, not as JSON-MIN"
            )
    return tasks


def brought(tasks: Sequence[Task], field: str | None = None, control: str | None = None) -> Brought:
    """The image and the path that each task was given, in the order of the tasks.

    Of several annotations the one marked as ground truth counts, else the latest. `field` is the one of the
    data that has the image, `control` the Taxonomy control; they may be left out where there is one only.
    """
    field, control = field or image_field(tasks), control or _only_control(tasks)
    left_out: Counter[str] = Counter()
    found: list[tuple[str, ClassPath]] = []
    for task in tasks:
        reference = task["data"].get(field)
        paths, reason = _given(task, control)
        if not isinstance(reference, str) or not reference:
            reason = f"has no image in {field!r}"
        if reason:
            left_out[reason] += 1
            continue
        found.append((image_path(str(reference)), paths))
    unique = unique_names(path for _, path in found)
    rows = [(image, dict(enumerate(unique[path], 1))) for image, path in found]
    return Brought(rows, left_out)


def image_path(reference: str) -> str:
    """The path of a task's image below the folder of images: of local files, uploads and addresses."""
    if reference.startswith(LOCAL):
        return parse_qs(urlsplit(reference).query).get("d", [""])[0]
    if reference.startswith(UPLOADED):
        return unquote(reference.removeprefix(UPLOADED))
    parts = urlsplit(reference)
    return unquote(parts.path.lstrip("/")) if "://" in reference else reference


def image_field(tasks: Sequence[Task]) -> str:
    """The field of the data in which images are named, where it is clear which."""
    names: set[str] = {name for task in tasks for name in task["data"]}
    if len(names) == 1:
        return names.pop()
    pictures = {
        name
        for name in names
        for task in tasks
        if isinstance(task["data"].get(name), str)
        and image_path(task["data"][name]).lower().endswith(PICTURES)
    }
    if len(pictures) == 1:
        return pictures.pop()
    told = ", ".join(sorted(names)) or "no data at all"
    raise RamifyError(f"the tasks have {told}; say with --field which of them is the image")


def with_answers(
    tasks: Sequence[Task],
    answers: Iterable[FileAnswer],
    tree: Taxonomy | None,
    version: str,
    control: str | None = None,
) -> list[Task]:
    """The tasks as they are, each with one more prediction; none where there is no answer.

    An earlier prediction of the same version gives way.
    """
    names = control_names(tasks, control)
    done = []
    for task, answer in zip(tasks, answers, strict=True):
        task = copy.deepcopy(task)
        others = [p for p in task.get("predictions") or () if not _is_ours(p, version)]
        if path := whole_path(answer, tree):
            finest = max(answer.levels)
            sure = answer.share(finest)
            value = {"taxonomy": [plain_names(path)]}
            result = {"from_name": names[0], "to_name": names[1], "type": "taxonomy", "value": value}
            others.append({"model_version": version, "score": round(float(sure), 4), "result": [result]})
        if others or "predictions" in task:
            task["predictions"] = others
        done.append(task)
    return done


def new_tasks(images: Iterable[str]) -> list[Task]:
    """Tasks for image files that Label Studio serves from the folder in which they are named."""
    return [{"data": {OBJECT: f"{LOCAL}?d={quote(Path(image).as_posix())}"}} for image in images]


def whole_path(answer: FileAnswer, tree: Taxonomy | None) -> list[str]:
    """The labels from level 1 down to the finest that was answered."""
    if not answer.levels:
        return []
    finest = max(answer.levels)
    label = str(answer.levels[finest][0])
    if tree is not None and finest <= tree.depth and label in tree.names(finest):
        return list(ancestry(tree, finest, label))
    return [str(answer.levels[level][0]) for level in sorted(answer.levels)]


def labelling_config(tree: Taxonomy, names: tuple[str, str], field: str) -> str:
    """A labelling configuration with the tree as choices, for a new project or that of the tasks.

    `names` are those of the Taxonomy control and of the image, `field` has the image in the tasks' data: what
    predictions speak of must be called so in the project, or Label Studio does not show them.
    """
    control, image = map(quoteattr, names)
    children: dict[ClassPath, list[ClassPath]] = {}
    for leaf in range(tree.leaves):
        path = tree.path(leaf)
        for level in range(1, len(path) + 1):
            known = children.setdefault(path[: level - 1], [])
            if path[:level] not in known:
                known.append(path[:level])

    def choices(above: ClassPath, indent: str) -> list[str]:
        lines = []
        for path in children.get(above, []):
            value = quoteattr(plain_names(path)[-1])
            inner = choices(path, f"{indent}  ")
            tag = f"{indent}<Choice value={value}"
            lines += [f"{tag}>", *inner, f"{indent}</Choice>"] if inner else [f"{tag}/>"]
        return lines

    head = f"  <Image name={image} value={quoteattr('$' + field)}/>"
    begin = f"  <Taxonomy name={control} toName={image}>"
    return "\n".join(["<View>", head, begin, *choices((), "    "), "  </Taxonomy>", "</View>", ""])


def _given(task: Task, control: str | None) -> tuple[ClassPath, str | None]:
    """The path of a task, or why it has none."""
    given = [a for a in task.get("annotations") or () if isinstance(a, dict)]
    kept = [a for a in given if not a.get("was_cancelled")]
    if not kept:
        return (), "was skipped by who annotated it" if given else "has no annotation"
    order = [
        (bool(a.get("ground_truth")), str(a.get("updated_at") or a.get("created_at") or "")) for a in kept
    ]
    chosen = kept[max(range(len(kept)), key=lambda i: (*order[i], i))]
    paths = {path for result in _taxonomies(chosen) if _named(result, control) for path in _paths(result)}
    if not paths:
        return (), "has no path of a Taxonomy control"
    longest = max(paths, key=len)
    if any(path != longest[: len(path)] for path in paths):
        return (), "has labels that lie on no one path"
    return longest, None


def _taxonomies(annotation: Task) -> list[Task]:
    results = annotation.get("result") or ()
    return [r for r in results if isinstance(r, dict) and r.get("type") == "taxonomy"]


def _named(result: Task, control: str | None) -> bool:
    return control is None or result.get("from_name") == control


def _paths(result: Task) -> list[ClassPath]:
    value = (result.get("value") or {}).get("taxonomy") or ()
    found = [path if isinstance(path, list) else [path] for path in value]
    return [tuple(str(name).strip() for name in path) for path in found if path]


def _results(tasks: Sequence[Task]) -> list[Task]:
    made = (a for task in tasks for kind in ("annotations", "predictions") for a in task.get(kind) or ())
    return [result for one in made if isinstance(one, dict) for result in _taxonomies(one)]


def _only_control(tasks: Sequence[Task]) -> str | None:
    names = sorted({str(result.get("from_name")) for result in _results(tasks)})
    if len(names) > 1:
        raise RamifyError(
            f"the tasks have the Taxonomy controls {', '.join(names)}; say with --control which"
        )
    return names[0] if names else None


def control_names(tasks: Sequence[Task], control: str | None) -> tuple[str, str]:
    """What the control and the image are called in the project; ours where nothing was annotated yet."""
    control = control or _only_control(tasks)
    for result in _results(tasks):
        if _named(result, control):
            return str(result.get("from_name", CONTROL)), str(result.get("to_name", OBJECT))
    return control or CONTROL, OBJECT


def _is_ours(prediction: Any, version: str) -> bool:
    return isinstance(prediction, dict) and prediction.get("model_version") == version
