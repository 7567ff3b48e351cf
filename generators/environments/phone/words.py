"""Words from which snapshots of the phone and the slots of its tasks are drawn."""

from __future__ import annotations

FIRST = (
    "Anna",
    "Ben",
    "Carla",
    "David",
    "Elena",
    "Frank",
    "Grace",
    "Hugo",
    "Irene",
    "Jonas",
    "Karin",
    "Liam",
    "Mona",
    "Nils",
    "Olga",
    "Peter",
    "Quinn",
    "Rosa",
    "Sam",
    "Tina",
    "Uwe",
    "Vera",
    "Walter",
    "Xenia",
    "Yara",
    "Zoe",
)
LAST = ("Adler", "Brandt", "Costa", "Dorn", "Evans", "Fischer", "Garcia", "Hansen", "Ivanov", "Jansen", "Keller",
        "Lopez", "Meyer", "Novak", "Olsen", "Price", "Reyes", "Silva", "Tanaka", "Urban", "Vogel", "Weber")  # fmt: skip
STREETS = ("Oak Street", "Mill Lane", "Harbour Road", "Hill Avenue", "Station Road", "Park Row", "River Walk",
           "Garden Way", "Bridge Street", "Chapel Close")  # fmt: skip
CITIES = ("Berlin", "Lisbon", "Oslo", "Madrid", "Vienna", "Prague", "Dublin", "Athens", "Zurich", "Warsaw")
CHAT = (
    "Are you free on Saturday?",
    "The train was late again",
    "Thanks for the photos",
    "I left the keys with Sam",
    "Did you see the match?",
    "Dinner was lovely",
    "I am almost there",
    "Can you bring some bread?",
    "Good luck today",
    "The meeting moved to room 4",
    "Happy birthday!",
    "Let us talk tomorrow",
    "Sounds good to me",
    "I forgot my umbrella",
)
REPLIES = ("On my way", "See you soon", "Thanks a lot", "Please call me back", "Not this week, sorry", "Count me in",
           "I will be late", "That works for me", "Let me check", "Congratulations!")  # fmt: skip
NOTE_TITLES = ("Garden plan", "Book club", "Gift ideas", "Trip to the coast", "Kitchen repairs", "Reading list",
               "Recipe for soup", "Bike service", "Choir dates", "Moving house", "Film night", "Language course",
               "Winter clothes", "Tax papers")  # fmt: skip
NOTE_BODIES = (
    "Ask the neighbours first",
    "Start before noon",
    "Needs two hours and a helper",
    "Look for a cheaper one",
    "Remember the blue folder",
    "Check the opening hours",
    "Bring cash and a bag",
    "Write to the office",
)
LISTS = {
    "Shopping": ("Milk", "Bread", "Eggs", "Rice", "Apples", "Coffee", "Soap", "Butter", "Tomatoes"),
    "Packing": ("Passport", "Charger", "Toothbrush", "Raincoat", "Camera", "Sunglasses", "Socks", "Book"),
    "Chores": ("Water plants", "Pay rent", "Clean oven", "Wash car", "Mow lawn", "Fold laundry", "Feed cat"),
}
ALARM_LABELS = (
    "Gym",
    "Work",
    "School run",
    "Medicine",
    "Swimming",
    "Early flight",
    "Market",
    "Yoga",
    "Dog walk",
    "Nap",
)
FILE_STEMS = (
    "Invoice",
    "Budget",
    "Holiday",
    "Report",
    "Map",
    "Interview",
    "Passport scan",
    "Menu",
    "Contract",
    "Timetable",
    "Sunset",
    "Portrait",
    "Lecture",
    "Songbook",
    "Backup",
    "Manual",
    "Ticket",
    "Plan",
)
FILE_KINDS = {"document": "pdf", "image": "jpg", "audio": "mp3", "archive": "zip"}
FOLDERS = ("Documents", "Pictures", "Music", "Downloads")
NEW_FOLDERS = ("Projects", "Family", "Old stuff", "Receipts", "School", "Travel", "Club", "Letters", "Garden", "Taxes")
PRODUCTS = {
    "Home": ("Desk Lamp", "Wool Blanket", "Coffee Mug", "Wall Mirror", "Tea Pot", "Bath Towel", "Alarm Clock"),
    "Clothes": ("Rain Jacket", "Running Shoes", "Leather Belt", "Wool Hat", "Linen Shirt", "Winter Gloves"),
    "Sports": ("Yoga Mat", "Bike Helmet", "Tennis Racket", "Water Bottle", "Jump Rope", "Camping Tent"),
    "Books": ("City Atlas", "Bread Book", "Star Guide", "Night Train", "Garden Year", "Small Histories"),
    "Music": ("Headphones", "Ukulele", "Drum Sticks", "Music Stand", "Record Player", "Tuning Fork"),
}
COLOURS = ("Red", "Blue", "Green", "Black", "White", "Grey")
EVENTS = ("Dentist", "Team meeting", "Piano lesson", "Lunch with Vera", "Parents' evening", "Car inspection", "Concert",
          "Board game night", "Haircut", "Yoga class", "Project review", "Museum visit", "Eye test", "Book launch",
          "Football match", "Flat viewing", "Cooking class", "Choir practice")  # fmt: skip
PLACES = ("Room 204", "Town hall", "Main square", "Cafe Luna", "Studio 5", "Old harbour", "City library", "Gate 12")
NETWORKS = ("HomeNet", "Cafe Guest", "Office 5G", "Library", "Harbour Hotel", "Station Free", "Neighbour", "Studio Air")
WALLPAPERS = ("Ocean", "Forest", "Desert", "Night", "Rose")
TINTS = ("#3f6fb5", "#2e7d5b", "#a1486f", "#a85a24", "#6a55b0", "#25707c", "#a8433c", "#4f5969")
WORLD_CITIES = {"Athens": 2, "Auckland": 13, "Berlin": 1, "Cairo": 2, "Chicago": -6, "Delhi": 5, "Dubai": 4, "Lima": -5,
                "Lisbon": 0, "Madrid": 1, "Moscow": 3, "Nairobi": 3, "New York": -5, "Oslo": 1, "Paris": 1, "Rome": 1,
                "Seoul": 9, "Sydney": 11, "Tokyo": 9, "Toronto": -5}  # fmt: skip
SHORT_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
