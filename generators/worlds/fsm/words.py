"""Words of the templates: names, things and looks from which a seed draws."""

from __future__ import annotations

PALETTES = (
    ("#1f6feb", "#12263f", "#f5f7fa", "#1b1f24"),
    ("#b3471d", "#3a2218", "#fbf7f2", "#2b211c"),
    ("#0b7a5c", "#0f2f29", "#f3f8f6", "#16231f"),
    ("#7a3ea8", "#2a1a3c", "#f8f5fb", "#221a2b"),
    ("#a8264c", "#351522", "#fbf4f6", "#2a171d"),
    ("#0f6f8c", "#123040", "#f2f8fa", "#152228"),
    ("#5b6b10", "#252b0d", "#f9faf0", "#20230f"),
    ("#374151", "#111827", "#f3f4f6", "#111827"),
)
"""(accent, dark, paper, ink); text on each is readable (contrast ≥ 4.5)."""
FONTS = ("Arial, Liberation Sans, sans-serif", "Georgia, Liberation Serif, serif", "Verdana, DejaVu Sans, sans-serif")
PEOPLE = (
    "Mira Stone",
    "Paul Berg",
    "Lena Fox",
    "Otto Lang",
    "Ines Vale",
    "Karl Moss",
    "Nora Hale",
    "Sven Dahl",
    "Rosa Quinn",
    "Emil Ford",
    "Ada Frost",
    "Leo Marsh",
)
MAILS = ("mira@post.test", "paul@mail.test", "lena@web.test", "otto@post.test", "ines@mail.test")
STREETS = ("Oak Street 12", "Mill Lane 4", "Park Row 19", "Hill Road 7", "Quay Side 31")
CITIES = ("Berlin", "Oslo", "Porto", "Ghent", "Turin", "Bergen", "Leiden", "Graz", "Lyon", "Malmo")
DATES = ("2026-12-03", "2026-12-14", "2027-01-08", "2027-02-20", "2027-03-15")
PHONES = ("0305512", "0894410", "0207781", "0551903")
CODES = ("SPRING10", "HELLO5", "CLOUD20", "FRIEND15", "LUCKY7")
SECRETS = ("oak-4217", "river-308", "lamp-9920", "stone-551")
GOODS = {
    "Lamps": ("Oak Lamp", "Desk Light", "Paper Lantern", "Brass Sconce", "Clip Lamp", "Floor Lamp"),
    "Kitchen": ("Copper Kettle", "Bread Knife", "Soup Pot", "Salad Bowl", "Pepper Mill", "Tea Tin"),
    "Garden": ("Rose Shears", "Rain Barrel", "Clay Pot", "Seed Box", "Hand Fork", "Bird House"),
    "Office": ("Steel Stapler", "Felt Pad", "Ink Set", "Paper Tray", "Desk Clock", "Note Block"),
    "Travel": ("Canvas Bag", "Neck Pillow", "Rain Cape", "Trail Map", "Field Bottle", "Tent Peg Set"),
}
FILMS = (
    "Harbour Nights",
    "The Quiet Mill",
    "Snow Signals",
    "Copper Sky",
    "Last Ferry",
    "Paper Kings",
    "Blue Orchard",
    "Night Bakery",
    "The Glass Hill",
    "Two Rivers",
    "Iron Garden",
    "Salt Road",
)
DISHES = (
    "Lentil Soup",
    "Plum Cake",
    "Rye Bread",
    "Leek Tart",
    "Bean Stew",
    "Apple Pancakes",
    "Fish Pie",
    "Beet Salad",
    "Pea Risotto",
    "Nut Roast",
    "Barley Pot",
    "Fig Toast",
)
TOPICS = ("Mapping", "Gardening", "Cycling", "Cooking", "Radio", "Sailing", "Chess", "Baking", "Hiking", "Weaving")
THREADS = (
    "Which tyres for winter?",
    "First steps and questions",
    "Show your best result",
    "Meeting in spring",
    "Tools that last",
    "A problem with the new version",
    "Looking for a partner",
    "Books worth reading",
    "What did you do today?",
)
ISSUES = (
    "Login page is slow",
    "Wrong total in the report",
    "Button hidden on small screens",
    "Export loses a column",
    "Typo on the start page",
    "Search ignores accents",
    "Mail is sent twice",
    "Clock shows the wrong zone",
    "Upload stops at 2 MB",
    "Chart has no legend",
)
ARTICLES = (
    "Lighthouse",
    "Windmill",
    "Tram line 4",
    "Old harbour",
    "Botanical garden",
    "City archive",
    "North bridge",
    "Market hall",
    "River ferry",
    "Observatory",
)
EVENTS = (
    "Team breakfast",
    "Dentist",
    "Budget review",
    "Choir practice",
    "Parents evening",
    "Train to Ghent",
    "Design workshop",
    "Garden day",
)
WORDS = ("river", "copper", "morning", "garden", "signal", "harbour", "paper", "window")
SENTENCES = (
    "Thank you, that helped a lot.",
    "I will try it tomorrow.",
    "Please add more details.",
    "It works now.",
    "See you on Friday.",
    "The second part is missing.",
)
SERVERS = ("atlas", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "iris", "juno")
