"""UI-Vision: elements and layouts of 83 desktop programs. `platform` names the program; corners may be swapped."""

from pipelines.suites import SuiteCard
from pipelines.suites._rows import Form

CARD = SuiteCard(
    id="ui_vision",
    title="UI-Vision",
    origin="https://huggingface.co/datasets/ServiceNow/ui-vision",
    licence="MIT",
    citation="Nayak et al. 2025, UI-Vision: A Desktop-centric GUI Benchmark for Visual Perception and Interaction",
    size="5,479 element instructions, and layouts",
    frame="corner pixels in either order, origin top left",
    known_problems=("corners of some boxes are swapped",),
)
FORM = Form(
    lambda row: "xyxy",
    wordings=(("", ("prompt_to_evaluate", "instruction", "name"), "en"), (":explanation", ("explanation",), "en")),
    picture=("image_path", "img_path", "img_filename", "image"),
    app=("platform",),
)
items = FORM.items
"""Rows of `annotations/element_grounding/*.json` and `annotations/layout_grounding/*.json`; a layout's explanation is
a wording of its own."""
