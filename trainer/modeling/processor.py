"""Sample rows → tensors. One query a sequence, its parts in the order of the messages, labels only on the answer.

    <|im_start|>user\\n TEXT <|vision_start|><|image_pad|>…<|vision_end|><|im_end|>\\n
    <|im_start|>assistant\\n ANSWER <|im_end|>

`Processor` is built from a checkpoint's tokenizer and image processor; `training_batch` pads right, `prompt_batch`
pads left (for generation), `reply_batch` takes sampled replies as token ids (for RL). Text of data never becomes a
control token; otherwise the ids are those that the chat template of the tokenizer gives for the same messages, so
what is trained is what a client of a server sends. Pictures are decoded and resized once and kept in a bounded cache.
"""

import copy
import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipelines.store.images import image_size, open_image
from trainer.modeling import tokenizer as words
from trainer.modeling.batches import BadSample, Batch, PixelPicture, Prompt, Row, row_images
from trainer.modeling.codecs.coding import decode, encode
from trainer.modeling.drafts import Drafts
from trainer.modeling.rope_positions import rope_positions
from trainer.modeling.seen_pictures import Features, SeenPictures
from trainer.modeling.span_weights import ActionPart, AnswerSpans
from trainer.presets import Preset
from trainer.settings.supervised import SpanWeights

CACHE_BYTES = 512 * 2**20
"""Of resized pictures that a processor holds."""


class Processor:
    """Rows → batches, for one tokenizer and image processor.

    `never` are the ids that no reply may hold: all control tokens but the end.
    `cache_bytes` bounds the resized pictures that are held, those not asked for the longest going first (three bytes a
    pixel: 430 kB each at most on nano, 3 MB at a megapixel). `source`: the folder of a checkpoint that began as a
    published one; what is saved keeps its files (`published_files`).
    """

    def __init__(
        self, tokenizer: Any, images: Any, preset: Preset, *, cache_bytes: int = CACHE_BYTES, source: Path | None = None
    ) -> None:
        self.tokenizer = tokenizer
        self.images = images
        self.preset = preset
        self.source = source
        self.numbers = words.number_ids(tokenizer)
        self._cache: OrderedDict[str, PixelPicture] = OrderedDict()
        self._cache_bytes, self._cached = cache_bytes, 0
        ids = tokenizer.convert_tokens_to_ids
        self.image_id, self.end_id, self.pad_id = ids(words.IMAGE), ids(words.END), tokenizer.pad_token_id
        # a reply may end, and hold no other control token: an image token without a picture can't be laid out
        self.never = sorted(set(tokenizer.all_special_ids) - {self.end_id})
        self._vision = (ids(words.VISION_START), ids(words.VISION_END))
        self._start = ids(words.START)
        self._turns = {role: words.encode_text(tokenizer, f"{role}\n") for role in ("user", "assistant", "system")}
        self._newline = words.encode_text(tokenizer, "\n")
        self._spans = AnswerSpans(tokenizer)

    @cached_property
    def drafts(self) -> Drafts:
        """How replies of its tokens go on."""
        return Drafts(self)

    def apart(self) -> "Processor":
        """The same for another thread, with a tokenizer and a cache of its own."""
        return Processor(
            copy.deepcopy(self.tokenizer), self.images, self.preset, cache_bytes=self._cache_bytes, source=self.source
        )

    # pictures

    def picture(self, data: bytes) -> PixelPicture:
        """Encoded picture → resized pixels. Raises `BadSample` if it can't be decoded, or is 200 times longer one way
        than the other, which the image processor refuses."""
        key = hashlib.sha256(data).hexdigest()
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        return self._held(self._decoded(key, data))

    def decode(self, pictures: Iterable[bytes], pool: Executor) -> None:
        """Decode those that aren't held in the threads of `pool`; one that can't be is left to `picture`."""
        keys = {hashlib.sha256(data).hexdigest(): data for data in pictures}
        for made in [pool.submit(self._decoded, key, data) for key, data in keys.items() if key not in self._cache]:
            with suppress(BadSample):
                self._held(made.result())  # by the caller: the cache is one thread's

    def _decoded(self, key: str, data: bytes) -> PixelPicture:
        try:
            return PixelPicture(key, self._resized(np.asarray(open_image(data))))
        except ValueError as error:  # an `ImageError` is one
            raise BadSample(f"picture {key[:12]}: can't be decoded: {error}") from error

    def _held(self, found: PixelPicture) -> PixelPicture:
        self._cache[found.key] = found
        self._cached += found.pixels.nbytes
        # the newest stays, however large it is
        while self._cached > self._cache_bytes and len(self._cache) > 1:
            self._cached -= self._cache.popitem(last=False)[1].pixels.nbytes
        return found

    def pixels(self, pixels: np.ndarray) -> PixelPicture:
        """Decoded pixels, uint8 [height, width, 3], resized; nothing is kept."""
        return PixelPicture(hashlib.sha256(pixels.tobytes()).hexdigest(), self._resized(pixels))

    def _resized(self, pixels: np.ndarray) -> np.ndarray:
        from transformers.image_utils import SizeDict

        factor = self.images.patch_size * self.images.merge_size
        size = self.images.size
        limits = SizeDict(shortest_edge=size["shortest_edge"], longest_edge=size["longest_edge"])
        resized = self.images.resize(pixels.transpose(2, 0, 1), limits, self.images.resample, factor=factor)
        return np.ascontiguousarray(np.asarray(resized, dtype=np.uint8))

    def patches(self, picture: PixelPicture) -> tuple[np.ndarray, tuple[int, int, int]]:
        """Resized pixels → float32 [patches, C*T*P*P] and the grid (1, rows, columns), as the image processor does."""
        # in float32 and in this order, as the image processor computes: the patches are the same to the bit
        scaled = picture.pixels.astype(np.float32) * np.float32(1 / 255)
        mean = np.asarray(self.images.image_mean, np.float32)[:, None, None]
        std = np.asarray(self.images.image_std, np.float32)[:, None, None]
        flat, rows, columns = self.images.patchify(
            (scaled - mean) / std, self.images.patch_size, self.images.merge_size, self.images.temporal_patch_size
        )
        return flat, (1, rows, columns)

    def grid(self, picture: PixelPicture) -> tuple[int, int, int]:
        """Its patches: (1, rows, columns)."""
        return 1, picture.pixels.shape[1] // self.images.patch_size, picture.pixels.shape[2] // self.images.patch_size

    def image_tokens(self, picture: PixelPicture) -> int:
        """Tokens the picture takes in the sequence."""
        unit = self.images.patch_size * self.images.merge_size
        # merge x merge patches become one token
        return (picture.pixels.shape[1] // unit) * (picture.pixels.shape[2] // unit)

    # text

    def prompt(self, row: Row) -> Prompt:
        """The prompt of a row. Raises `BadSample` if messages are no chat or name more pictures than there are."""
        parsed, shown = self._parsed(row)
        ready = [image if isinstance(image, PixelPicture) else self.picture(image) for image in shown]
        return Prompt(self._layout(parsed, [self.image_tokens(picture) for picture in ready]), ready)

    def length(self, row: Row) -> int:
        """Tokens of prompt and answer; see `prompt_length`."""
        return self.prompt_length(row) + len(self.answer(str(row["answer"])))

    def prompt_length(self, row: Row) -> int:
        """Tokens of the prompt; of a picture only the size is read. Raises `BadSample` as `prompt` does, but for a
        picture whose header is whole and whose body isn't."""
        parsed, shown = self._parsed(row)
        return len(self._layout(parsed, [self._shown_tokens(image) for image in shown]))

    def _shown_tokens(self, image: PixelPicture | bytes) -> int:
        if isinstance(image, PixelPicture):
            return self.image_tokens(image)
        # of the header alone: lengths of all rows are wanted before any picture is decoded
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

        unit, size = self.images.patch_size * self.images.merge_size, self.images.size
        try:
            columns, rows = image_size(image)
            height, width = smart_resize(rows, columns, unit, size["shortest_edge"], size["longest_edge"])
        except ValueError as error:
            raise BadSample(f"picture of {len(image)} bytes: can't be decoded: {error}") from error
        return (height // unit) * (width // unit)

    def _parsed(self, row: Row) -> tuple[list[tuple[str, list[str | None]]], list[PixelPicture | bytes]]:
        """Roles with their parts (None is a picture), and the pictures."""
        name = str(row.get("sample_id", "?"))
        try:
            turns = json.loads(row["messages"]) if isinstance(row["messages"], str) else list(row["messages"])
            parsed = [(turn["role"], _parts(turn["content"])) for turn in turns]
        except (ValueError, KeyError, TypeError) as error:
            raise BadSample(f"sample {name}: messages are no chat: {error!r}") from error
        if unknown := [role for role, _ in parsed if role not in self._turns]:
            raise BadSample(f"sample {name}: expected the role user, assistant or system, found {unknown[0]!r:.40}")
        given = list(row.get("images") or [])
        ready = all(isinstance(image, PixelPicture) for image in given)
        shown: list[PixelPicture | bytes] = given if ready else [*row_images(row)]
        places = sum(part is None for _, parts in parsed for part in parts)
        if places != len(shown):
            raise BadSample(f"sample {name}: messages show {places} pictures, the row has {len(shown)}")
        return parsed, shown

    def _layout(self, parsed: Sequence[tuple[str, list[str | None]]], image_tokens: Sequence[int]) -> list[int]:
        """Ids of the prompt, up to and with the assistant's opening."""
        ids: list[int] = []
        left = iter(image_tokens)
        for role, parts in parsed:
            ids.append(self._start)
            # a tokenizer joins what stands side by side: the name of the role, line break and texts up to a picture
            text, opening = f"{role}\n", len(self._turns[role])
            for part in parts:
                if part is None:
                    ids += [*self._cut(text, opening), self._vision[0], *[self.image_id] * next(left), self._vision[1]]
                    text, opening = "", 0
                else:
                    text += part
            ids += [*self._cut(text, opening), self.end_id, *self._newline]
        return [*ids, self._start, *self._turns["assistant"]]

    def text_tokens(self, text: str) -> int:
        """Tokens of a text, before its middle is cut out where they are more than `Preset.max_prompt_tokens`."""
        return len(words.encode_text(self.tokenizer, text))

    def _cut(self, text: str, opening: int) -> list[int]:
        """Ids of a text whose middle is cut out where they are too many, `opening` ones at its beginning aside."""
        ids, limit = words.encode_text(self.tokenizer, text), self.preset.max_prompt_tokens
        if len(ids) - opening <= limit:
            return ids
        # the goal stands at the beginning and the latest steps at the end; of the two the goal gets more
        head = limit * 2 // 3
        return ids[: opening + head] + ids[len(ids) - (limit - head) :]

    def answer(self, text: str) -> list[int]:
        """Label ids of an answer, closed by the end token unless it was too long and got cut."""
        ids = words.encode_text(self.tokenizer, encode(text, self.preset.action_codec))
        limit = self.preset.max_answer_tokens
        return ids[:limit] if len(ids) >= limit else [*ids, self.end_id]

    def text(self, ids: Sequence[int]) -> str:
        """Reply text of generated ids, its action in the text of the corpus whatever the codec."""
        return decode(words.decode(self.tokenizer, ids), self.preset.action_codec)

    def coordinate_places(self, ids: Sequence[int]) -> list[int]:
        """Indices of number tokens inside brackets that hold nothing but numbers and commas."""
        return self._spans.coordinates(ids)

    def answer_weights(self, ids: Sequence[int], spans: SpanWeights) -> list[float]:
        """Loss weight of each answer token, see `SpanWeights`."""
        return self._spans.weights(ids, spans)

    def action_parts(self, ids: Sequence[int]) -> list[ActionPart]:
        """Which part of its action each reply token is of, see `AnswerSpans.action_parts`."""
        return self._spans.action_parts(ids)

    # batches

    def training_batch(
        self, rows: Sequence[Row], spans: SpanWeights | None = None, seen: SeenPictures | None = None
    ) -> Batch:
        """Prompt + answer, padded right; labels and weights on the answer and its end token. `seen` as in `pad`."""
        return self.reply_batch(rows, [self.answer(str(row["answer"])) for row in rows], spans or SpanWeights(), seen)

    def empty_batch(self) -> Batch:
        """A batch without a label: what a rank runs that has no rows left where others have."""
        return self.with_picture(self.pad([Prompt([self._start], [])], [[]], None, left=False))

    def with_picture(self, batch: Batch) -> Batch:
        """The batch itself, or, if it shows no picture, with the smallest one, which no sequence shows."""
        if batch.pixel_values is not None:
            return batch
        unit = self.images.patch_size * self.images.merge_size
        flat, grid = self.patches(PixelPicture("blank", np.full((3, unit, unit), 255, np.uint8)))
        return replace(batch, pixel_values=torch.from_numpy(flat), image_grid_thw=torch.tensor([grid]))

    def prompt_batch(self, rows: Sequence[Row], seen: SeenPictures | None = None) -> Batch:
        """Prompts alone, padded left. `seen` as in `pad`."""
        return self.pad([self.prompt(row) for row in rows], [[]] * len(rows), None, left=True, seen=seen)

    def reply_batch(
        self,
        rows: Sequence[Row],
        replies: Sequence[Sequence[int]],
        spans: SpanWeights | None = None,
        seen: SeenPictures | None = None,
    ) -> Batch:
        """Prompt + given reply ids (as sampled), padded right; every reply token is a label, weights 1 by default.
        `seen` as in `pad`."""
        if len(rows) != len(replies):
            raise ValueError(f"reply_batch: expected a reply per row, found {len(rows)} rows, {len(replies)} replies")
        return self.pad(self.prompts(rows), replies, spans, left=False, seen=seen)

    def prompts(self, rows: Sequence[Row]) -> list[Prompt]:
        """Of each row, made once for one that comes again."""
        # by identity: members of a group share their row, and comparing pictures would be slow
        laid_out: dict[int, Prompt] = {}
        for row in rows:
            if id(row) not in laid_out:
                laid_out[id(row)] = self.prompt(row)
        return [laid_out[id(row)] for row in rows]

    def pad(
        self,
        prompts: Sequence[Prompt],
        replies: Sequence[Sequence[int]],
        spans: SpanWeights | None,
        *,
        left: bool,
        seen: SeenPictures | None = None,
    ) -> Batch:
        """Laid-out prompts with reply ids, padded on one side; every reply token is a label, weighted by `spans`. What
        a frozen tower has `seen` comes with its features, without pixels."""
        size = len(prompts)
        width = max(len(p.ids) + len(r) for p, r in zip(prompts, replies, strict=True))
        ids = np.full((size, width), self.pad_id, np.int64)
        mask = np.zeros((size, width), np.int64)
        labels = np.full((size, width), -100, np.int64)
        weights = np.zeros((size, width), np.float32)
        coordinate = np.zeros((size, width), bool)
        positions = np.zeros((3, size, width), np.int64)
        grids: dict[str, tuple[int, int, int]] = {}
        features: dict[str, Features] = {}
        patches: list[np.ndarray] = []
        use: list[int] = []
        order: dict[str, int] = {}
        for i, (prompt, reply) in enumerate(zip(prompts, replies, strict=True)):
            length = len(prompt.ids) + len(reply)
            here = slice(width - length, width) if left else slice(0, length)
            answer = slice(here.start + len(prompt.ids), here.stop)
            ids[i, here] = [*prompt.ids, *reply]
            mask[i, here] = 1
            labels[i, answer] = reply
            weights[i, answer] = self.answer_weights(reply, spans) if spans else 1.0
            coordinate[i, answer][self.coordinate_places(reply)] = True
            shown = []
            for picture in prompt.pictures:
                # a picture that several sequences show goes through the tower once
                if picture.key not in grids:
                    order[picture.key], grids[picture.key] = len(grids), self.grid(picture)
                    if seen is not None and (known := seen.get(picture.key)) is not None:
                        features[picture.key] = known
                    else:
                        patches.append(self.patches(picture)[0])
                use.append(order[picture.key])
                shown.append(grids[picture.key])
            positions[:, i, here] = rope_positions(ids[i, here], self.image_id, shown, self.images.merge_size)
        tensors = [
            torch.from_numpy(x)
            for x in (ids, mask, positions, (ids == self.image_id).astype(np.int64), labels, weights, coordinate)
        ]
        pixels = torch.from_numpy(np.concatenate(patches)) if patches else None
        thw = torch.tensor(list(grids.values())) if grids else None
        ids_, mask_, positions_, types_, labels_, weights_, coordinate_ = tensors
        return Batch(
            ids_,
            mask_,
            positions_,
            types_,
            labels_,
            weights_,
            coordinate_,
            use,
            pixels,
            thw,
            picture_keys=list(grids),
            features=features,
        )


def _parts(content: Any) -> list[str | None]:
    """Text parts as they are, pictures as None."""
    if isinstance(content, str):
        return [content]
    return [None if part["type"] == "image" else str(part["text"]) for part in content]
