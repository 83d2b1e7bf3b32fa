"""What `fireside models` prints for a person: the list of models, the end of a scan, and what is in a file."""

from collections.abc import Iterable

from app.cli.terminal_text import safe_text
from models import FileContents, LibraryEntry, LibraryScan, ModelKind, short_count

_SHOWN_CHARACTERS = 100
_HEADINGS: tuple[tuple[ModelKind, str], ...] = (
    (ModelKind.TEXT, "Models to chat with"),
    (ModelKind.EMBEDDING, "Embedding models"),
    (ModelKind.PROJECTOR, "Projectors, which belong to a model"),
    (ModelKind.ADAPTER, "Adapters, which belong to a model"),
    (ModelKind.CONTROL_VECTOR, "Control vectors"),
    (ModelKind.IMPORTANCE_MATRIX, "Importance matrices"),
    (ModelKind.VOCABULARY, "Vocabularies without weights"),
    (ModelKind.DRAFT, "Draft heads"),
    (ModelKind.DIFFUSION, "Text diffusion models"),
    (ModelKind.IMAGE, "Image models"),
    (ModelKind.SPEECH, "Speech models"),
    (ModelKind.SPLIT_PART, "Parts without their first one"),
)


def size_text(num_bytes: int) -> str:
    """Return a number of bytes for a person."""
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if num_bytes >= unit:
            return f"{num_bytes / unit:.1f} {name}"
    return f"{num_bytes} bytes"


def print_entries(entries: Iterable[LibraryEntry]) -> None:
    """Print all models, by what they are for; levels of one model follow each other."""
    entries = tuple(entries)
    if not entries:
        print("There is no model yet. `fireside models scan --add DIR` looks into a folder of yours.")
    width = max((len(entry.name) for entry in entries), default=0)
    for kind, heading in _HEADINGS:
        rows = [entry for entry in entries if entry.kind is kind and entry.problem is None]
        if rows:
            print(heading)
        for entry in rows:
            print(f"  {safe_text(_row(entry, min(width, 60)))}")
    broken = [entry for entry in entries if entry.problem is not None]
    if broken:
        print("Cannot be used")
    for entry in broken:
        print(f"  {safe_text(f'{entry.name}: {entry.problem} {entry.hint}').strip()}")


def _row(entry: LibraryEntry, width: int) -> str:
    parameters = short_count(entry.num_parameters)
    if entry.num_active_parameters < entry.num_parameters:
        parameters += f" ({short_count(entry.num_active_parameters)} active)"
    facts = [f"{parameters:>5}", f"{size_text(entry.file_bytes):>9}"]
    if entry.bits_per_weight:
        facts.append(f"{entry.bits_per_weight:4.1f} bits")
    if entry.n_ctx_train:
        facts.append(f"{entry.n_ctx_train:>9,} tokens")
    if entry.can_chat and not entry.has_chat_template:
        facts.append("no template")
    facts.append(f"{entry.source} ({entry.alias})" if entry.alias else entry.source)
    if entry.other_places:
        facts.append(f"also in {', '.join(str(path.parent) for path in entry.other_places)}")
    return f"{entry.name:<{width}}  " + "  ".join(facts)


def print_scan(scan: LibraryScan, *, num_new: int, num_gone: int) -> None:
    """Print how a scan went."""
    print(
        f"models: {len(scan.entries)}, files: {scan.num_files}, {num_new} new, {num_gone} gone ({scan.seconds:.1f} s)"
    )
    for entry in scan.entries:
        if entry.problem is not None:
            print(f"  {safe_text(f'{entry.problem} {entry.hint}').strip()}")
    for problem in scan.problems:
        print(f"  {safe_text(f'{problem.message} {problem.hint}').strip()}")


def print_contents(contents: FileContents, *, with_tensors: bool) -> None:
    """Print what is in a file."""
    info = contents.info
    print(safe_text(str(info.path)))
    parameters = short_count(info.num_parameters)
    if info.num_active_parameters < info.num_parameters:
        parameters += f", {short_count(info.num_active_parameters)} of them used for each token"
    facts = {
        "kind": info.kind.value,
        "name": info.name,
        "architecture": info.architecture,
        "quantised": f"{info.type_name}, {info.bits_per_weight:.2f} bits for each weight" if info.type_name else "",
        "parameters": parameters,
        "size": size_text(info.file_bytes),
        "context": f"{info.n_ctx_train:,} tokens" if info.n_ctx_train else "",
        "layers": f"{info.block_count}" if info.block_count else "",
        "licence": info.licence,
        "template": "yes" if info.has_chat_template else "no",
        "part": f"{info.split_no + 1} of {info.split_count}" if info.split_count > 1 else "",
    }
    for name, text in facts.items():
        if text:
            print(f"  {name:<13} {safe_text(text)}")
    print("Tensors by type")
    for total in contents.types:
        print(f"  {total.type_name:<9}{total.num_tensors:>6}  {size_text(total.num_bytes):>10}")
    print("Metadata")
    for row in contents.metadata:
        count = f" ({row.num_elements:,})" if row.type_name.startswith("array") else ""
        text = row.text if len(row.text) <= _SHOWN_CHARACTERS else row.text[:_SHOWN_CHARACTERS] + "…"
        print(f"  {safe_text(row.key)}{count} = {safe_text(text)}")
    if with_tensors:
        print("Tensors")
    for tensor in contents.tensors if with_tensors else ():
        shape = " x ".join(map(str, tensor.shape))
        print(f"  {safe_text(tensor.name):<40} {tensor.type_name:<8} {size_text(tensor.num_bytes):>10}  {shape}")
