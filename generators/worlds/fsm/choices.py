"""SelectOption on a site: by clicks on what shows, so that a site in Chromium and one without do the same."""

from generators.devices.choose_option import no_option
from generators.tasks.world_interface import ScreenElement, World
from generators.worlds.wrappers.wrapper import elements_of
from schemas.action_types import Click, SelectOption
from schemas.coordinates import contains


def choose(world: World, action: SelectOption) -> None:
    """Open the combobox at a point, where none of its options shows, and click the option that says the text. Raises
    `WorldError` where there is no such option; a list that was opened stays open, as a user would leave it."""
    # Already open if an option shows below it.
    if not _options(world, action):
        world.act(Click(action.box))
    options = _options(world, action)
    # Case and blanks of the option don't matter to a user either.
    wanted = " ".join(action.option.split()).casefold()
    option = next((one for one in options if one.name.casefold() == wanted), None)
    if option is None:
        raise no_option(action, {"options": [one.name for one in options]})
    world.act(Click(option.centre))


def _options(world: World, action: SelectOption) -> list[ScreenElement]:
    """Those that show below the combobox at the action's point, and above the next one. Raises `WorldError` for a point
    that lies in none."""
    elements = elements_of(world)
    lists = [one for one in elements if one.role == "combobox"]
    aim = next((one for one in lists if contains(list(one.box), action.box)), None)
    if aim is None:
        raise no_option(action, {})
    # Down to the next combobox: options of another list must not be taken.
    low = min((one.box[1] for one in lists if one.box[1] > aim.box[1]), default=1000.0)
    return [one for one in elements if one.role == "option" and aim.box[1] < one.box[1] < low]
