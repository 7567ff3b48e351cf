"""`exports/<name>`: an export retained in the store, of which only what changed is written again."""

import contextlib
from itertools import count

from pipelines.exports.export import ChosenRow, Export, ExportPiece
from pipelines.exports.filters import Refuses, require_allowed
from pipelines.exports.folder import total
from pipelines.exports.parts import Exported, WrittenPart, write_parts
from pipelines.exports.records import Picture
from pipelines.store import CheckSpec, Manifest, PartSpec, PartWriter, Store
from schemas.ids import digest

CODE_VERSION = "1"
ALL_EXPORTED = CheckSpec("every chosen row is in the export", "The export holds more or fewer rows than were chosen")


def asset_of(name: str) -> str:
    """Key of the asset that holds an export."""
    return f"exports/{name.replace('-', '_')}"


def build_asset(store: Store, asset: str, export: Export[ChosenRow, Exported], *, refuses: Refuses) -> Manifest:
    """Write the pieces of an export that the asset doesn't hold yet, and its card. Raises `ValueError` if the policy
    refuses a licence."""
    plan = export.plan
    require_allowed(plan.asset, export.groups, refuses)
    inputs = {plan.asset: plan.version, **export.inputs}
    base = [CODE_VERSION, plan.form, export.form.version, export.shard_mb]
    specs = {PartSpec(piece.name, digest([base, *piece.made_from])): piece for piece in export.pieces()}
    # The card depends on all parts, so it is one of its own.
    about = PartSpec("about", digest([base, inputs, sorted(spec.inputs_digest for spec in specs)]))
    with store.build(
        asset, code_version=CODE_VERSION, config=plan.settings, inputs=inputs, parts=[*specs, about]
    ) as build:
        written: list[WrittenPart] = []
        for spec, piece in specs.items():
            result = build.run_part(spec, lambda out, piece=piece: _write(out, export, piece))  # type: ignore[misc]
            written += [WrittenPart.parsed(plain) for plain in result.counts["parts"]]
        groups = total(written)
        build.run_part(about, lambda out: put_texts(out, export.texts(groups)))
        rows = sum(groups.values())
        check = ALL_EXPORTED.check(rows == len(export.rows), rows, len(export.rows))
        return build.commit(counts={"rows": rows, "files": len(written)}, checks=[check])


def put_texts(out: PartWriter, texts: dict[str, str]) -> None:
    """Write what stands beside the parts, name → text."""
    for name, text in texts.items():
        out.bytes(name, text.encode())


def _write(out: PartWriter, export: Export[ChosenRow, Exported], piece: ExportPiece[ChosenRow]) -> dict[str, object]:
    put: set[str] = set()

    def put_picture(picture: Picture) -> None:
        # A picture of many rows is one file.
        if (name := picture.path) not in put:
            put.add(name)
            out.bytes(name, picture.data)

    parts = write_parts(
        export.form,
        export.read(piece.rows, 0),
        export.shard_mb,
        (f"{piece.name}-{number:03d}" for number in count()),
        lambda name: contextlib.nullcontext(out.path(name)),
        put_picture,
    )
    return {"parts": [part.plain() for part in parts]}
