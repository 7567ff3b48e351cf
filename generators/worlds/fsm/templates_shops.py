"""Sites that sell or show things: a shop with checkout, ticket booking, recipes, a streaming library."""

from generators.worlds.fsm.draft import Draft, fail, put, say
from generators.worlds.fsm.spec import Edge, SiteSpec
from generators.worlds.fsm.words import CITIES, CODES, DISHES, FILMS, GOODS, MAILS, PEOPLE, SENTENCES, STREETS, WORDS


def shop(seed: int) -> SiteSpec:
    d = Draft("shop", seed, ("Oak & Thread", "Nordwind Store", "Blue Door Goods", "Corner Market", "Hearth Supply"))
    rng = d.rng
    # Groups, goods and prices are drawn, so that no two shops agree in anything but their kind.
    groups = rng.sample(sorted(GOODS), rng.randint(2, 4))
    goods = {group: rng.sample(GOODS[group], rng.randint(3, 5)) for group in groups}
    names = [name for group in groups for name in goods[group]]
    price = {name: rng.randint(6, 90) for name in names}
    code = rng.choice(CODES)
    basket, ship = rng.choice(("Cart", "Basket", "Bag")), ("Standard", "Express", "Pick-up")
    d.number("cart", 0, 9)
    d.choice("shipping", ("", *ship))
    d.flag("coupon")
    d.choice("ordered", ("", "placed"))
    d.menu("Home", "home")
    for number, group in enumerate(groups):
        d.menu(group, f"group{number}")
    d.menu(f"{basket} ({{cart}})", "cart")
    d.menu("Help", "help")
    home = d.page("home", f"Welcome to {d.name}").text("Well made things for every day. Free returns for 30 days.")
    home.field("Find a product", "query", (*names, "sofa"), "", hint=f'Try "{names[0]}"', enter="button-search")
    # Search finds exact names only; anything else leads to an empty result.
    found = [Edge((("query", "eq", name),), (), f"item{n}") for n, name in enumerate(names)]
    home.button(
        "Search",
        *found,
        Edge((("query", "empty", ""),), fail("Type what you look for.")),
        Edge((), (), "nothing"),
        style="main",
    )
    home.part("Popular today")
    for name in rng.sample(names, 3):
        home.item(name, f"{price[name]} €", f"item{names.index(name)}")
    d.page("nothing", "No results").text("We found no product of that name.").link("Back to the start", "home")
    for number, group in enumerate(groups):
        page = d.page(f"group{number}", group).text(f"{len(goods[group])} products")
        for name in goods[group]:
            page.item(name, f"{price[name]} €", f"item{names.index(name)}")
    for n, name in enumerate(names):
        d.flag(f"has{n}")
        page = d.page(f"item{n}", name).text(f"{price[name]} €", style="big")
        page.text(f"{name}, carefully made, in stock, ships in two days. Item number {seed % 90 + 10}-{n + 100}.")
        effects = (("cart", "add", 1), put(f"has{n}", True), *say(f"{name} is in your {basket.lower()}."))
        page.button(f"Add to {basket.lower()}", Edge((), effects), style="main").link(f"View {basket.lower()}", "cart")
        d.goal(
            f"add{n}",
            {f"has{n}": True},
            f"Put the {name} in the {basket.lower()}",
            f"Add {name} to my {basket.lower()}",
            f"I want to buy the {name}: place it in the {basket.lower()}",
        )
    cart = d.page("cart", f"Your {basket.lower()}").text("Products chosen: {cart}", style="big")
    for n, name in enumerate(names):
        cart.row(name, f"{price[name]} €", f"item{n}", shown=((f"has{n}", "eq", True),))
    cart.notice("The code is applied. You pay less.", shown=(("coupon", "eq", True),), style="good")
    cart.text(f'Today\'s code is "{code}".', style="quiet")
    cart.field("Discount code", "code", (code, "OLD1"), "eq", error="This code is not valid.")
    cart.submit("Apply code", put("coupon", True), put("error", ""))
    # Order of edges: the empty cart is refused first.
    empty = Edge((("cart", "le", 0),), fail(f"Your {basket.lower()} is empty."))
    cart.button("Go to checkout", empty, Edge((), (), "address"), style="main")
    # Emptying has to reset every product's flag as well as the count.
    wipe = (put("cart", 0), *(put(f"has{n}", False) for n in range(len(names))), *say("All products were removed."))
    cart.button("Empty it", Edge((), wipe), style="danger")
    for name in ("o_name", "o_street", "o_mail", "o_city"):
        d.text(name, (), "site")
    address = d.page("address", "Delivery address", deep=False, bare=True)
    address.field("Full name", "a_name", PEOPLE[:5]).field("Street and number", "a_street", STREETS)
    address.field("City", "a_city", CITIES[:4]).field("Email", "a_mail", MAILS, "email", hint="name@example.com")
    copied = (
        ("o_name", "copy", "a_name"),
        ("o_street", "copy", "a_street"),
        ("o_city", "copy", "a_city"),
        ("o_mail", "copy", "a_mail"),
    )
    address.submit("Continue", *copied, to="delivery").link("Cancel", "cart")
    delivery = d.page("delivery", "Delivery", deep=False, bare=True)
    delivery.radios("How shall we send it?", "way", ship)
    delivery.submit("Continue to payment", ("shipping", "copy", "way"), to="pay").link("Back to address", "address")
    pay = d.page("pay", "Payment", deep=False, bare=True)
    pay.radios("Pay by", "pay_by", ("Card", "Invoice"))
    pay.check("I accept the terms", "terms", must="Please accept the terms.")
    pay.submit("Place order", put("ordered", "placed"), put("cart", 0), to="thanks").link("Cancel order", "cart")
    thanks = d.page("thanks", "Thank you for your order", deep=False).text("It goes to {o_name}, {o_street}, {o_city}.")
    thanks.text("Delivery: {shipping}").text("We write to {o_mail}.").link("Continue shopping", "home")
    # Pages that no goal of the order needs: help to get lost in.
    _shop_help(d)
    for way in ship:
        for name in PEOPLE[:3]:
            when = [("ordered", "eq", "placed"), ("shipping", "eq", way), ("o_name", "eq", name)]
            d.goal(
                f"order-{way}-{name}",
                when,
                f"Order any product for {name} with {way.lower()} delivery",
                f"Buy something and have it sent to {name} by {way.lower()} delivery",
            )
    d.goal("coupon", {"coupon": True}, f"Apply the discount code {code}", f"Use the code {code} on my order")
    return d.site()


def _shop_help(d: Draft) -> None:
    page = d.page("help", "Help").text("What do you need?")
    for number, topic in enumerate(("Returns", "Delivery times", "Warranty")):
        page.row(topic, "Read", f"help{number}")
        d.page(f"help{number}", topic).text(f"All about {topic.lower()}: we answer within a day.").link(
            "All topics", "help"
        )
    page.field("Your question", "ask", SENTENCES, hint="Ask us anything")
    page.submit("Send question", *say("Your question was sent."), put("asked", True))
    d.flag("asked")
    d.goal("ask", {"asked": True}, "Send the help team a question", f"Ask {d.name} something from its help page")


def tickets(seed: int) -> SiteSpec:
    d = Draft("tickets", seed, ("Railhop", "Ticketry", "Swift Seats", "Platform Nine", "Fareway"))
    rng = d.rng
    cities = rng.sample(CITIES, rng.randint(4, 6))
    # Each pair once, in alphabetical order: a route and its way back are one.
    routes = [(a, b) for a in cities for b in cities if a < b]
    routes = rng.sample(routes, min(len(routes), rng.randint(5, 9)))
    times = {r: rng.sample(["06:10", "08:45", "11:20", "14:05", "17:30", "20:15"], 2) for r in routes}
    d.choice("booked", ("", *(f"{a}-{b}" for a, b in routes)))
    d.choice("picked", ("", *(f"{a}-{b}" for a, b in routes)))
    d.choice("time", ("", *sorted({t for pair in times.values() for t in pair})))
    d.choice("seat", ("", "Window", "Aisle"))
    d.choice("fare", ("", "Saver", "Flex", "First"))
    d.number("people", 1, 6, 1)
    d.text("passenger", (), "site")
    d.menu("Timetable", "home")
    d.menu("My trips", "trips")
    d.menu("Fares", "fares")
    d.menu("Contact", "contact")
    home = d.page("home", "Where do you want to go?").text("Pick a connection. Every train runs daily.")
    for n, (a, b) in enumerate(routes):
        home.item(f"{a} to {b}", f"from {rng.randint(12, 70)} €", f"route{n}")
    for n, (a, b) in enumerate(routes):
        page = d.page(f"route{n}", f"{a} to {b}").text("Choose a departure.")
        for time in times[a, b]:
            go = (put("picked", f"{a}-{b}"), put("time", time))
            page.button(f"Departure {time}", Edge((), go, "people"), style="main")
        page.link("Other connections", "home")
    people = d.page("people", "Passengers", deep=False).text("Trip {picked} at {time}")
    people.text("Travellers: {people}", style="big")
    people.button(
        "One more",
        Edge((("people", "ge", 6),), fail("At most six people can travel together.")),
        Edge((), (("people", "add", 1), put("error", ""))),
    )
    people.button(
        "One less",
        Edge((("people", "le", 1),), fail("At least one person has to travel.")),
        Edge((), (("people", "add", -1), put("error", ""))),
    )
    people.field("Name of the first traveller", "p_name", PEOPLE[:5]).field("Email", "p_mail", MAILS, "email")
    people.submit("Choose a fare", ("passenger", "copy", "p_name"), to="fare")
    fare = d.page("fare", "Fare and seat", deep=False)
    fare.radios("Fare", "p_fare", ("Saver", "Flex", "First")).dropdown("Seat", "p_seat", ("Window", "Aisle"))
    fare.submit("Review the booking", ("fare", "copy", "p_fare"), ("seat", "copy", "p_seat"), to="review")
    review = d.page("review", "Review your booking", deep=False).text("{picked} at {time}, {fare} fare, {seat} seat")
    review.text("{people} travelling, booked by {passenger}")
    review.check("The data above is correct", "sure", must="Please confirm the data.")
    review.submit("Pay now", ("booked", "copy", "picked"), to="done").link("Change fare", "fare")
    review.link("Start again", "home")
    d.page("done", "You are booked", deep=False).notice("Trip {booked} at {time} is booked.", style="good").link(
        "See my trips", "trips"
    )
    trips = d.page("trips", "My trips").text("No trip is booked.", shown=(("booked", "eq", ""),))
    booked = (("booked", "ne", ""),)
    trips.notice("{booked} at {time}, {seat} seat", shown=booked)
    trips.button(
        "Cancel trip",
        Edge((), (put("booked", ""), put("cancelled", True), *say("The trip was cancelled."))),
        shown=booked,
        style="danger",
    )
    d.flag("cancelled")
    fares = d.page("fares", "Our fares").text("Saver can't be changed. Flex can. First has a meal.")
    fares.link("Rules for luggage", "luggage").link("Rules for bicycles", "bicycles")
    d.page("luggage", "Luggage").text("Two pieces travel free.").link("Our fares again", "fares")
    d.page("bicycles", "Bicycles").text("A bicycle needs a ticket of its own.").link("Our fares again", "fares")
    contact = d.page("contact", "Contact us").field("Your email", "c_mail", MAILS, "email")
    contact.field("Message", "c_text", SENTENCES)
    contact.submit("Send message", put("wrote", True), *say("Thank you, we have your message."))
    d.flag("wrote")
    for a, b in routes:
        for fare_name in ("Saver", "Flex", "First"):
            when = [("booked", "eq", f"{a}-{b}"), ("fare", "eq", fare_name)]
            d.goal(
                f"book-{a}-{b}-{fare_name}",
                when,
                f"Book a {fare_name} ticket from {a} to {b}",
                f"Get me on a train from {a} to {b}, fare {fare_name}",
            )
        for count in (2, 4):
            group = (("booked", "eq", f"{a}-{b}"), ("people", "eq", count), ("seat", "eq", "Window"))
            d.goal(f"group-{a}-{b}-{count}", group, f"Book {count} people from {a} to {b}, window seat")
    # Alone: it undoes a booking that another goal may ask for.
    d.goal(
        "cancel", {"cancelled": True}, "Book any trip and then cancel it", "Cancel a trip after booking it", alone=True
    )
    d.goal("wrote", {"wrote": True}, "Send the railway a message", "Write to the contact team")
    return d.site()


def recipes(seed: int) -> SiteSpec:
    d = Draft("recipes", seed, ("Spoon & Rye", "Kitchen Post", "Simmer", "The Daily Pot", "Crumbs"))
    rng = d.rng
    dishes = rng.sample(DISHES, rng.randint(6, 11))
    tags = rng.sample(("Quick", "Vegetarian", "For guests", "Baking", "Winter"), 3)
    of = {dish: rng.choice(tags) for dish in dishes}
    d.menu("Recipes", "home")
    for n, tag in enumerate(tags):
        d.menu(tag, f"tag{n}")
    d.menu("My book", "book")
    # Counted apart from the flags, since the page shows the number.
    d.menu("Shopping list", "list")
    d.number("listed", 0, 20)
    home = d.page("home", f"{d.name}: all recipes").text("Tested in a small kitchen.")
    for n, dish in enumerate(dishes):
        home.item(dish, of[dish], f"dish{n}")
    for n, tag in enumerate(tags):
        page = d.page(f"tag{n}", f"{tag} recipes").text("Chosen for you.")
        for m, dish in enumerate(dishes):
            if of[dish] == tag:
                page.item(dish, f"{rng.randint(15, 90)} min", f"dish{m}")
    book, todo = d.page("book", "My recipe book"), d.page("list", "My shopping list")
    todo.text("Recipes on the list: {listed}", style="big")
    for n, dish in enumerate(dishes):
        d.flag(f"saved{n}")
        d.choice(f"stars{n}", ("", "1", "2", "3", "4", "5"))
        d.flag(f"shop{n}")
        page = d.page(f"dish{n}", dish).text(f"For {rng.randint(2, 6)} people. Takes {rng.randint(15, 90)} minutes.")
        page.text("Cut, stir, season, and wait for the smell.")
        saved = ((f"saved{n}", "eq", True),)
        page.button(
            "Save recipe",
            Edge((), (put(f"saved{n}", True), *say("Saved in your book."))),
            shown=((f"saved{n}", "eq", False),),
            style="main",
        )
        page.button(
            "Remove from book", Edge((), (put(f"saved{n}", False), *say("Removed from your book."))), shown=saved
        )
        page.button(
            "Add to shopping list",
            Edge(((f"shop{n}", "eq", True),), fail("It is on the list already.")),
            Edge((), (put(f"shop{n}", True), ("listed", "add", 1), *say("Added to the list."))),
        )
        page.part("Rate it").text(f"Your stars: {{stars{n}}}", shown=((f"stars{n}", "ne", ""),))
        for star in ("2", "3", "5"):
            page.button(f"{star} stars", Edge((), (put(f"stars{n}", star),)))
        book.item(dish, of[dish], f"dish{n}", shown=saved)
        todo.row(dish, "Open recipe", f"dish{n}", shown=((f"shop{n}", "eq", True),))
        d.goal(f"save{n}", saved, f"Save the recipe for {dish}", f"Put {dish} in my recipe book")
        d.goal(
            f"list{n}",
            {f"shop{n}": True},
            f"Put {dish} on the shopping list",
            f"I need to shop for {dish}: add it to the list",
        )
        star = rng.choice(("2", "3", "5"))
        d.goal(f"rate{n}", {f"stars{n}": star}, f"Give {dish} {star} stars", f"Rate {dish} with {star} stars")
    # All flags and the count together, as in a real list.
    wipe = (put("listed", 0), *(put(f"shop{n}", False) for n in range(len(dishes))), *say("The list is empty now."))
    todo.button("Clear the list", Edge((("listed", "eq", 0),), fail("There is nothing to clear.")), Edge((), wipe))
    book.text("Recipes that you save are kept here.", style="quiet").link("Write a recipe", "write")
    d.text("own", (), "site")
    d.choice("own_course", ("", "Starter", "Main", "Dessert"))
    write = d.page("write", "Write a recipe").field("Title", "w_title", [f"{w.title()} soup" for w in WORDS[:4]])
    write.dropdown("Course", "w_course", ("Starter", "Main", "Dessert")).field("Steps", "w_steps", SENTENCES)
    write.check("Publish it for everyone", "w_public")
    write.submit("Publish recipe", ("own", "copy", "w_title"), ("own_course", "copy", "w_course"), to="written")
    d.page("written", "Your recipe is published").notice("{own} ({own_course})", style="good").link(
        "To my book", "book"
    )
    for word in WORDS[:4]:
        for course in ("Starter", "Dessert"):
            when = [("own", "eq", f"{word.title()} soup"), ("own_course", "eq", course)]
            d.goal(
                f"write-{word}-{course}", when, f'Publish a recipe titled "{word.title()} soup" as a {course.lower()}'
            )
    return d.site()


def streaming(seed: int) -> SiteSpec:
    d = Draft("streaming", seed, ("Lumen", "Reelhouse", "Kino Box", "Nightowl", "Projector"))
    rng = d.rng
    films = rng.sample(FILMS, rng.randint(7, 12))
    genres = rng.sample(("Drama", "Comedy", "Crime", "Documentary", "Family"), 3)
    # Genres in turn, so that each has films.
    of = {film: genres[n % 3] for n, film in enumerate(films)}
    profiles = [name.split()[0] for name in rng.sample(PEOPLE, 3)]
    d.choice("profile", ("Guest", *profiles))
    d.choice("watched", ("", *films))
    d.choice("quality", ("Auto", "High", "Low"))
    d.flag("kids")
    d.flag("subtitles")
    d.menu("Browse", "home")
    d.menu("My list", "mine")
    d.menu("Account", "account")
    d.menu("Who: {profile}", "who")
    home = d.page("home", "Tonight's films")
    for n, genre in enumerate(genres):
        home.tab(genre, f"genre{n}")
    for film in rng.sample(films, 6):
        home.item(film, of[film], f"film{films.index(film)}")
    for n, genre in enumerate(genres):
        page = d.page(f"genre{n}", genre)
        for film in films:
            if of[film] == genre:
                page.item(film, str(rng.randint(1961, 2025)), f"film{films.index(film)}")
    mine = d.page("mine", "Your list").text("Films that you keep for later.", style="quiet")
    for n, film in enumerate(films):
        d.flag(f"keep{n}")
        # The same condition shows the button and decides the goal.
        kept = ((f"keep{n}", "eq", True),)
        page = d.page(f"film{n}", film).text(f"{of[film]}, {rng.randint(78, 140)} minutes. A story you will remember.")
        page.button("Play", Edge((), (put("watched", film),), "player"), style="main")
        page.switch(f"keep{n}", "Add to my list", "On my list: remove")
        mine.item(film, of[film], f"film{n}", shown=kept)
        d.goal(f"keep{n}", kept, f"Put {film} on my list", f"Keep {film} for later")
        d.goal(f"watch{n}", {"watched": film}, f"Play {film}", f"Start watching {film}")
        who = profiles[n % 3]
        d.goal(
            f"who{n}",
            {"watched": film, "profile": who, "subtitles": True},
            f"Switch to {who}'s profile, turn on subtitles and play {film}",
        )
    player = d.page("player", "Now playing", deep=False, bare=True).text("{watched}", style="big")
    d.flag("paused", scope="page")
    player.switch("paused", "Pause", "Resume", style="main", off_style="main")
    player.check("Subtitles", "subtitles", scope="site").link("Close the player", "home")
    who_page = d.page("who", "Who is watching?")
    for name in ("Guest", *profiles):
        who_page.row(name, "Profile", "home", put("profile", name))
    account = d.page("account", "Account").tab("Playback", "playback").tab("Plan", "plan").tab("Parents", "parents")
    account.text("Signed in as {profile}. Member since 2024.")
    d.page("playback", "Playback").radios("Picture quality", "quality", ("Auto", "High", "Low"), must=False).link(
        "To account", "account"
    )
    d.choice("plan", ("Basic", "Plus", "Premium"))
    plan = d.page("plan", "Your plan").text("You have {plan}.", style="big")
    plan.dropdown("New plan", "p_plan", ("Basic", "Plus", "Premium"))
    plan.check("I agree to the new price", "p_agree", must="You have to agree to the price.")
    plan.submit("Change plan", ("plan", "copy", "p_plan"), *say("Your plan was changed."))
    # The PIN is shown on the page that asks for it.
    pin = str(rng.randint(1000, 9999))
    parents = d.page("parents", "Parents").text(f'The PIN of new accounts is "{pin}".', style="quiet")
    parents.field("PIN", "pin", (pin, "0000"), "eq", error="This PIN is wrong.", secret=True)
    parents.submit("Allow films for children only", put("kids", True), *say("Only films for children are shown."))
    d.goal("kids", {"kids": True}, f"Turn on the limit for children with PIN {pin}")
    for name in ("Plus", "Premium"):
        d.goal(f"plan-{name}", {"plan": name}, f"Change my plan to {name}", f"I want the {name} plan")
    for name in ("High", "Low"):
        d.goal(
            f"quality-{name}",
            {"quality": name},
            f"Set the picture quality to {name}",
            f"Stream in {name.lower()} quality",
        )
    return d.site()
