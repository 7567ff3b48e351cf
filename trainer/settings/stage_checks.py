"""What is checked of checkpoints and evaluations: declared apart from what makes them, for the graph to read."""

from pipelines.store.manifest import CheckSpec

WEIGHTS_FINITE = CheckSpec("weights finite", "NaN or infinity in the weights")
LOADS = CheckSpec("loads with from_pretrained", "The folder is not a complete Hugging Face checkpoint")
HAS_TEXTS = CheckSpec("has texts", "No training text for the tokenizer", sometimes=True)
NANO_SIZE = CheckSpec("nano size", "The nano preset isn't 2 to 6 million parameters", sometimes=True)
LOSS_FELL = CheckSpec("loss fell", "The validation loss did not fall, or an objective was unlearned", blocking=False)
ALL_STEPS = CheckSpec("all steps", "Training stopped early")
REWARD_HELD = CheckSpec("held-out reward did not fall", "Offline RL made it worse, by an interval wholly below 0")
TRACES_DECIDE = CheckSpec("traces decide the peak", "Too few whole episodes to decide", blocking=False, sometimes=True)
SUCCESS_HELD = CheckSpec("validation success did not fall", "Online RL made it worse, by an interval wholly below 0")
TAUGHT_HELD = CheckSpec("held-out success did not fall", "Distillation made it worse, by an interval wholly below 0")
DEVICES_HELD = CheckSpec("devices held", "More than half of the rollouts were lost")
GROUPS_COMPARE = CheckSpec("groups with a comparison", "Rewards differ in no group: nothing is learned", blocking=False)
ALL_SAMPLES_PUT = CheckSpec("all samples put", "Some held-out samples were not asked")
CONTROLS_BESIDE_GROUNDING = CheckSpec("controls beside grounding", "Grounding was measured without all its controls")
BASE = (WEIGHTS_FINITE, LOADS, HAS_TEXTS, NANO_SIZE)
TRAINED = (WEIGHTS_FINITE, LOADS, LOSS_FELL, ALL_STEPS)
SPECIALIST = (TRACES_DECIDE, LOADS, REWARD_HELD, WEIGHTS_FINITE)
ONLINE = (LOADS, WEIGHTS_FINITE, SUCCESS_HELD, DEVICES_HELD, GROUPS_COMPARE)
DISTILLED = (LOADS, TAUGHT_HELD, WEIGHTS_FINITE)
MERGE = (WEIGHTS_FINITE, LOADS)
EVALUATION = (ALL_SAMPLES_PUT, CONTROLS_BESIDE_GROUNDING)
ALL_COMPARED = CheckSpec(
    "every experiment was compared", "An experiment isn't evaluated yet, so the page does without it", blocking=False
)
SAME_SAMPLES = CheckSpec(
    "both sides have the same samples", "A figure is of other samples on one side than on the other"
)
COMPARISON = (SAME_SAMPLES, ALL_COMPARED)
