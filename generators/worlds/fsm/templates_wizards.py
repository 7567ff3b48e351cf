"""Sites that ask: an insurance wizard, a survey."""

from generators.worlds.fsm.draft import Draft, fail, put, say
from generators.worlds.fsm.spec import Edge, SiteSpec
from generators.worlds.fsm.words import CITIES, DATES, MAILS, PEOPLE, PHONES, SENTENCES, STREETS, TOPICS


def insurance(seed: int) -> SiteSpec:
    d = Draft("insurance", seed, ("Umbrella Mutual", "Safe Harbour", "Coverwell", "Granite Insure", "Lee Side"))
    rng = d.rng
    products = rng.sample(("Bicycle", "Home", "Travel", "Dog", "Boat"), rng.randint(3, 4))
    d.choice("product", ("", *products))
    d.choice("bought", ("", *products))
    d.choice("level", ("", "Basic", "Comfort", "Full"))
    d.choice("pay", ("", "Monthly", "Yearly"))
    d.text("holder", (), "site")
    d.menu("Products", "home")
    d.menu("Claims", "claims")
    d.menu("My policy", "policy")
    d.menu("Questions", "faq")
    d.menu("Call me", "call")
    home = d.page("home", "What may we protect?")
    for n, product in enumerate(products):
        home.item(f"{product} insurance", f"from {rng.randint(3, 19)} € a month", f"product{n}")
        page = d.page(f"product{n}", f"{product} insurance").tab("Overview", f"product{n}")
        page.tab("What is covered", f"cover{n}")
        page.text("Simple terms, quick help.")
        page.button("Get a quote", Edge((), (put("product", product),), "person"), style="main")
        cover = d.page(f"cover{n}", f"{product}: what is covered").tab("Overview", f"product{n}")
        cover.tab("What is covered", f"cover{n}")
        cover.text("Theft, damage and loss. Not covered: wear.")
    person = d.page("person", "Step 1: about you", deep=False, bare=True).text("Your quote: {product}")
    person.field("Full name", "i_name", PEOPLE[:5])
    person.field("Born on", "i_born", ("1980-04-02", "1991-11-23"), "date", hint="1985-05-31")
    person.field("Email", "i_mail", MAILS, "email")
    person.submit("Next step", ("holder", "copy", "i_name"), to="place").link("Cancel the quote", "home")
    place = d.page("place", "Step 2: where you live", deep=False, bare=True).field("Street", "i_street", STREETS)
    place.dropdown("City", "i_city", CITIES[:4]).submit("Continue", to="cover")
    place.link("Back to step 1", "person")
    cover = d.page("cover", "Step 3: your cover", deep=False, bare=True)
    cover.radios("Level", "i_level", ("Basic", "Comfort", "Full"))
    cover.check("Add legal protection", "legal", scope="site").check("Add a spare device", "spare", scope="site")
    cover.submit("To the price", ("level", "copy", "i_level"), to="price").link("Back to step 2", "place")
    price = d.page("price", "Step 4: price", deep=False, bare=True)
    price.text(f"{rng.randint(4, 40)} € a month for {{level}}", style="big")
    price.radios("How do you pay?", "i_pay", ("Monthly", "Yearly")).check(
        "I read the conditions",
        "i_read",
        must="Please read the conditions.",
        # Signing copies what was chosen; leaving the wizard earlier changes nothing.
    )
    price.submit("Sign now", ("pay", "copy", "i_pay"), ("bought", "copy", "product"), to="signed")
    price.link("Back to step 3", "cover")
    d.page("signed", "Your policy is ready", deep=False).notice(
        "{bought} for {holder}, {level}, {pay}", style="good"
    ).link("See my policy", "policy")
    policy = d.page("policy", "My policy").text("You have no policy yet.", shown=(("bought", "eq", ""),))
    policy.notice("{bought}: {level}, {pay}", shown=(("bought", "ne", ""),))
    policy.button(
        "End this policy",
        Edge((), (put("bought", ""), put("ended", True), *say("The policy has ended."))),
        shown=(("bought", "ne", ""),),
        style="danger",
    )
    d.flag("ended")
    claims = d.page("claims", "Report a claim").radios("What happened?", "c_kind", ("Theft", "Damage", "Loss"))
    claims.field("When", "c_when", DATES, "date", hint="2026-12-31").field("Describe it", "c_text", SENTENCES)
    claims.submit("Send claim", ("claimed", "copy", "c_kind"), ("claimed_on", "copy", "c_when"), to="claimed")
    d.choice("claimed", ("", "Theft", "Damage", "Loss"))
    d.text("claimed_on", (), "site")
    d.page("claimed", "We have your claim", deep=False).notice("{claimed} on {claimed_on}", style="good").link(
        "To the start page", "home"
    )
    faq = d.page("faq", "Questions and answers")
    for n, words in enumerate(("How do I pay?", "How do I cancel?", "Who pays for theft?")):
        faq.row(words, "Answer", f"faq{n}")
        d.page(f"faq{n}", words).text("We explain it on the phone, too.").link("All questions", "faq")
    call = d.page("call", "We call you").field("Phone number", "t_phone", PHONES, "digits")
    call.dropdown("Time of day", "t_time", ("Morning", "Noon", "Evening"))
    call.submit("Call me back", ("callback", "copy", "t_time"), *say("We will call you."))
    d.choice("callback", ("", "Morning", "Noon", "Evening"))
    for time in ("Morning", "Evening"):
        d.goal(f"call-{time}", {"callback": time}, f"Ask for a call back in the {time.lower()}")
    for product in products:
        for level in ("Basic", "Comfort", "Full"):
            d.goal(
                f"buy-{product}-{level}",
                {"bought": product, "level": level},
                f"Insure my {product.lower()} with the {level} level",
                f"Sign a {product} insurance, level {level}",
            )
        d.goal(
            f"yearly-{product}",
            {"bought": product, "pay": "Yearly", "legal": True},
            f"Sign a {product} insurance with legal protection, paid yearly",
        )
    for kind in ("Theft", "Damage", "Loss"):
        for date in DATES[:3]:
            d.goal(
                f"claim-{kind}-{date}",
                {"claimed": kind, "claimed_on": date},
                f"Report a claim: {kind.lower()} on {date}",
            )
    # Alone: it ends what buying goals ask to have.
    d.goal("ended", {"ended": True}, "Sign any insurance and end it again", alone=True)
    return d.site()


def survey(seed: int) -> SiteSpec:
    d = Draft("survey", seed, ("Askaround", "Pollhouse", "Opinion Lab", "Tell Us", "Fieldnotes"))
    rng = d.rng
    subjects = rng.sample(TOPICS, rng.randint(2, 3))
    scale = ("Never", "Sometimes", "Often", "Daily")
    d.menu("Surveys", "home")
    d.menu("My points", "points")
    d.menu("Privacy", "privacy")
    d.menu("Profile", "profile")
    d.number("points", 0, 30)
    home = d.page("home", "Open surveys").text("Every survey takes three minutes and earns points.")
    for s, subject in enumerate(subjects):
        # Three to five kinds of question in random order.
        kinds = rng.sample(("age", "often", "rate", "words", "why"), rng.randint(3, 5))
        home.item(f"About {subject.lower()}", f"{len(kinds)} questions", f"s{s}intro")
        intro = d.page(f"s{s}intro", f"Survey about {subject.lower()}").text("Your answers stay with us.")
        intro.check("I am over 16", f"adult{s}", must="You have to be over 16.").submit("Begin", to=f"s{s}q0")
        intro.link("Other surveys", "home")
        d.flag(f"done{s}")
        for q, kind in enumerate(kinds):
            page = d.page(f"s{s}q{q}", f"{subject}: question {q + 1} of {len(kinds)}", deep=False, bare=True)
            # The answer on the page, and the one that was handed on by the button.
            name, kept = f"q{s}_{q}", f"a{s}_{q}"
            if kind == "age":
                page.dropdown("Your age", name, ("16-29", "30-49", "50-69"))
                d.choice(kept, ("", "16-29", "30-49", "50-69"))
                answer = rng.choice(("16-29", "30-49", "50-69"))
            elif kind in ("often", "rate"):
                options = scale if kind == "often" else ("Bad", "Fair", "Good")
                page.radios(
                    f"How often do you think of {subject.lower()}?"
                    if kind == "often"
                    else f"How is {subject.lower()}?",
                    name,
                    options,
                )
                d.choice(kept, ("", *options))
                answer = rng.choice(options)
            else:
                samples = SENTENCES[:3] if kind == "why" else ("calm", "useful", "new")
                page.field(f"Why {subject.lower()}?" if kind == "why" else "One word about it", name, samples)
                d.text(kept, (), "site")
                answer = rng.choice(samples)
            copied = (kept, "copy", name)
            if q + 1 < len(kinds):
                page.submit("Next question", copied, to=f"s{s}q{q + 1}")
            else:
                page.submit("Hand in", copied, put(f"done{s}", True), ("points", "add", 10), to=f"s{s}end")
            page.link("Stop the survey", "home")
            # Any answer counts only once the survey was handed in.
            d.goal(
                f"answer{s}-{q}",
                {kept: answer, f"done{s}": True},
                f'Take the survey about {subject.lower()}; answer "{answer}" to question {q + 1}',
            )
        end = d.page(f"s{s}end", f"Thank you: {subject.lower()}", deep=False)
        end.text("You have {points} points.", style="big")
        end.link("More surveys", "home").link("What are points for?", "points")
        d.goal(f"done{s}", {f"done{s}": True}, f"Complete the survey about {subject.lower()}")
    points = d.page("points", "My points").text("Points: {points}", style="big").text("Twenty points buy a voucher.")
    gifts = ("Book", "Coffee", "Plant")
    d.choice("gift", ("", *gifts))
    for gift in gifts:
        points.button(
            f"Get the {gift.lower()} voucher",
            # Twenty points are two surveys: a goal that needs others first.
            Edge((("points", "ge", 20),), (("points", "add", -20), put("gift", gift)), "gift"),
            Edge((), fail("You need 20 points.")),
        )
        d.goal(f"gift-{gift}", {"gift": gift}, f"Earn enough points and get the {gift.lower()} voucher")
    d.page("gift", "Your voucher", deep=False).notice("{gift} voucher", style="good").link(
        "Back to my points", "points"
    )
    privacy = d.page("privacy", "Privacy").check("Share answers with partners", "share", scope="site")
    privacy.check("Keep my data for a year", "keep", scope="site")
    privacy.link("Delete my data", "delete")
    delete = d.page("delete", "Delete my data").field(
        "Type DELETE to confirm", "word", ("DELETE", "no"), "eq", hint='"DELETE"', error="Please type the word."
    )
    delete.submit("Delete everything", put("deleted", True), put("points", 0), *say("Your data is gone."))
    d.flag("deleted")
    profile = d.page("profile", "Your profile").field("Name", "p_name", PEOPLE[:4])
    profile.field("Email", "p_mail", MAILS, "email")
    profile.dropdown("Country", "p_land", ("Belgium", "Norway", "Portugal"))
    profile.submit("Save", ("land", "copy", "p_land"), ("who", "copy", "p_name"), *say("Saved."))
    d.choice("land", ("", "Belgium", "Norway", "Portugal"))
    d.text("who", (), "site")
    for land in ("Belgium", "Norway", "Portugal"):
        for name in PEOPLE[:4]:
            d.goal(f"profile-{land}-{name}", {"land": land, "who": name}, f"Save my profile as {name} from {land}")
    d.goal(
        "deleted",
        {"deleted": True},
        "Delete all my data",
        "Have the site forget everything about me",
        # Alone: what it deletes other goals need.
        alone=True,
    )
    d.goal("privacy", {"share": True, "keep": True}, "Share my answers and keep my data for a year")
    for n in range(3):
        d.page(f"about{n}", f"{('Who we are', 'How we ask', 'Press')[n]}").text("We ask since 2011.").link(
            "To the surveys", "home"
        )
        privacy.link(("Who we are", "How we ask", "Press")[n], f"about{n}")
    return d.site()
