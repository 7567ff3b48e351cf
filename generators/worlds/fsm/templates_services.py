"""Sites of services: a bank, a forum."""

from generators.worlds.fsm.draft import Draft, PageDraft, fail, put, say
from generators.worlds.fsm.spec import Edge, SiteSpec
from generators.worlds.fsm.words import CITIES, MAILS, PEOPLE, SECRETS, SENTENCES, STREETS, THREADS, TOPICS

AMOUNTS = ("25", "40", "120", "75")


def bank(seed: int) -> SiteSpec:
    d = Draft("bank", seed, ("Quay Bank", "First Harbour", "Millstone Bank", "Northern Trust Co", "Penny Savings"))
    rng = d.rng
    # Number and password stand on the page: a task must be doable by who sees only the screen.
    user, secret = str(rng.randint(100000, 999999)), rng.choice(SECRETS)
    payees = rng.sample(PEOPLE, rng.randint(3, 5))
    d.flag("signed")
    # Everything behind the login shows only once one is signed in.
    inside = (("signed", "eq", True),)
    d.menu("Start", "home")
    d.menu("Accounts", "accounts", shown=inside)
    d.menu("Pay", "payees", shown=inside)
    d.menu("Cards", "cards", shown=inside)
    d.menu("Branches", "branches")
    home = d.page("home", f"{d.name} online")
    home.text(f'Demo account: number "{user}", password "{secret}".', style="quiet")
    home.field("Account number", "s_user", (user, "111111"), "eq", error="We don't know this account number.")
    home.field("Password", "s_word", (secret, "1234"), "eq", error="The password is wrong.", secret=True)
    home.submit("Log in", put("signed", True), to="accounts")
    accounts = d.page("accounts", "Your accounts", deep=False)
    accounts.row("Everyday account", f"{rng.randint(900, 4000)} €", "everyday")
    accounts.row("Savings", f"{rng.randint(1000, 9000)} €", "savings").link("Log out", "home", put("signed", False))

    def section(id: str, title: str) -> PageDraft:
        """A page of the everyday account, under its three tabs."""
        page = d.page(id, title, deep=False)
        return page.tab("Payments", "everyday").tab("Statements", "papers").tab("Limits", "limits")

    everyday = section("everyday", "Everyday account")
    everyday.notice("Paid {paid_sum} € to {paid_to}", shown=(("paid_to", "ne", ""),)).text("Rent 640 €")
    everyday.text("Power 58 €")
    papers = section("papers", "Statements")
    papers.check("Send statements by mail", "by_mail", scope="site").check("Only once a year", "yearly", scope="site")
    limits = section("limits", "Limits")
    d.text("limit", (), "site", "500")
    limits.text("Daily limit: {limit} €", style="big")
    limits.field("New limit in €", "n_limit", ("800", "250", "1500"), "amount")
    limits.submit("Change limit", ("limit", "copy", "n_limit"), *say("The limit was changed."))
    savings = d.page("savings", "Savings account", deep=False).text("Put aside: {saved} times", style="big")
    d.number("saved", 0, 8)
    savings.button(
        "Put 50 € aside",
        Edge((("saved", "ge", 8),), fail("The account is full for this month.")),
        Edge((), (("saved", "add", 1), put("error", ""))),
        style="main",
    )
    savings.button(
        "Take 50 € back",
        Edge((("saved", "le", 0),), fail("There is nothing to take back.")),
        Edge((), (("saved", "add", -1), put("error", ""))),
    )
    # Two variables each: what is being entered, and what was confirmed; goals ask for the latter.
    d.choice("paid_to", ("", *payees))
    d.choice("payee", ("", *payees))
    d.text("sum", (), "site")
    d.text("paid_sum", (), "site")
    d.choice("paid_when", ("", "Now", "Tomorrow"))
    d.choice("when", ("", "Now", "Tomorrow"))
    pay = d.page("payees", "Who do you want to pay?", deep=False)
    for name in payees:
        pay.row(name, "Saved payee", "amount", put("payee", name))
    amount = d.page("amount", "Amount", deep=False, bare=True).text("To: {payee}", style="big")
    amount.field("Amount in €", "p_sum", AMOUNTS, "amount")
    amount.field("Reference", "p_ref", ("Rent", "Lunch", "Tickets")).radios("When", "p_when", ("Now", "Tomorrow"))
    amount.submit("Next", ("sum", "copy", "p_sum"), ("when", "copy", "p_when"), to="confirm")
    amount.link("Other payee", "payees")
    # A code that only this page shows: a payment can't be confirmed from memory.
    tan = str(rng.randint(10000, 99999))
    confirm = d.page("confirm", "Confirm the payment", deep=False, bare=True)
    confirm.text("{sum} € to {payee}, {when}", style="big")
    confirm.text(f'Your code for this payment is "{tan}".', style="quiet")
    confirm.field("Payment code", "p_tan", (tan, "00000"), "eq", error="The code is wrong.")
    confirm.submit(
        "Confirm", ("paid_to", "copy", "payee"), ("paid_sum", "copy", "sum"), ("paid_when", "copy", "when"), to="paid"
    )
    confirm.link("Stop this payment", "payees")
    d.page("paid", "Payment done", deep=False).notice("{paid_sum} € go to {paid_to}.", style="good").link(
        "To the accounts", "accounts"
    )
    cards = d.page("cards", "Cards", deep=False)
    for n, card in enumerate(("Debit card", "Credit card")):
        d.flag(f"blocked{n}")
        cards.row(card, f"blocked: {{blocked{n}}}", f"card{n}")
        page = d.page(f"card{n}", card, deep=False).text(f"Blocked: {{blocked{n}}}")
        page.switch(f"blocked{n}", "Block this card", "Unblock this card", style="danger")
        page.check("Pay abroad", f"abroad{n}", scope="site").link("All cards", "cards")
        d.goal(f"block{n}", {f"blocked{n}": True}, f"Block my {card.lower()}", f"I lost my {card.lower()}: block it")
        d.goal(f"abroad{n}", {f"abroad{n}": True}, f"Allow payments abroad with the {card.lower()}")
    branches = d.page("branches", "Our branches")
    for n, city in enumerate(rng.sample(CITIES, 3)):
        branches.item(city, "Open until 17:00", f"branch{n}")
        d.page(f"branch{n}", f"Branch in {city}").text(f"{rng.choice(STREETS)}, {city}").link(
            "Other branches", "branches"
        )
    for name in payees:
        for money in AMOUNTS[:3]:
            d.goal(
                f"pay-{name}-{money}",
                {"paid_to": name, "paid_sum": money},
                f"Pay {money} € to {name}",
                f"Transfer {money} € to {name}",
            )
        d.goal(f"tomorrow-{name}", {"paid_to": name, "paid_when": "Tomorrow"}, f"Pay {name} any amount tomorrow")
    for money in ("800", "250"):
        d.goal(f"limit-{money}", {"limit": money}, f"Set the daily limit to {money} €")
    d.goal("papers", {"by_mail": True, "yearly": True}, "Get statements by mail, only once a year")
    for count in (2, 4):
        # Two and four, so that repeating something a number of times is asked for.
        d.goal(f"save{count}", {"saved": count}, f"Put 50 € aside {count} times in the savings account")
    return d.site()


def forum(seed: int) -> SiteSpec:
    d = Draft("forum", seed, ("Talkyard", "The Agora", "Roundtable", "Chatter Hall", "Common Room"))
    rng = d.rng
    topics = rng.sample(TOPICS, rng.randint(3, 4))
    threads = rng.sample(THREADS, rng.randint(5, 8))
    # Thread → topic, in turn.
    of = {n: n % len(topics) for n in range(len(threads))}
    d.flag("member")
    d.text("nick", (), "site", "guest")
    d.menu("Topics", "home")
    d.menu("Latest", "latest")
    d.menu("Join", "join", shown=(("member", "eq", False),))
    d.menu("Profile", "profile", shown=(("member", "eq", True),))
    d.menu("Rules", "rules")
    home, latest = d.page("home", "Topics").text("Be kind to each other."), d.page("latest", "Latest threads")
    for t, topic in enumerate(topics):
        home.item(topic, f"{rng.randint(12, 900)} posts", f"topic{t}")
        page = d.page(f"topic{t}", topic)
        page.button(
            "Start a thread",
            Edge((("member", "eq", True),), (put("where", topic),), "start"),
            Edge((), fail("Only members can start threads.")),
            style="main",
        )
        for n, title in enumerate(threads):
            if of[n] == t:
                page.row(title, rng.choice(PEOPLE), f"thread{n}")
    d.choice("where", ("", *topics))
    for n, title in enumerate(threads):
        d.flag(f"liked{n}")
        d.flag(f"followed{n}")
        d.text(f"reply{n}", (), "site")
        latest.row(title, topics[of[n]], f"thread{n}")
        page = d.page(f"thread{n}", title).text(f"{rng.choice(PEOPLE)}: {rng.choice(SENTENCES)}")
        page.text(f"{{nick}}: {{reply{n}}}", shown=((f"reply{n}", "filled", ""),))
        page.switch(f"liked{n}", "Like", "Unlike")
        page.check("Follow this thread", f"followed{n}", scope="site").field("Your reply", "draft", SENTENCES)
        page.button(
            "Reply",
            Edge((("member", "eq", False),), fail("Please join before you reply.")),
            Edge(
                (("draft", "filled", ""),),
                ((f"reply{n}", "copy", "draft"), put("draft", ""), *say("Your reply is online.")),
            ),
            Edge((), fail("The reply is empty.")),
            style="main",
        )
        # The reply's own edges check the text, or the message would be the form's.
        page.needs.clear()
        words = rng.choice(SENTENCES)
        d.goal(
            f"reply{n}",
            {f"reply{n}": words},
            f'Reply "{words}" in the thread "{title}"',
            f'Write "{words}" under "{title}"',
        )
        d.goal(f"like{n}", {f"liked{n}": True}, f'Like the thread "{title}"')
        d.goal(f"follow{n}", {f"followed{n}": True}, f'Follow the thread "{title}"')
    join = d.page("join", "Join us", without=("nav-profile",))
    join.field("Nickname", "j_nick", ("fernweh", "quill", "maple", "drift"))
    join.field("Email", "j_mail", MAILS, "email")
    join.check("I accept the rules", "j_rules", must="Please accept the rules.")
    join.submit("Create account", ("nick", "copy", "j_nick"), put("member", True), to="profile")
    d.text("about", (), "site")
    profile = d.page("profile", "Your profile", deep=False, without=("nav-join",))
    profile.text("You are {nick}.", style="big").text("About me: {about}", shown=(("about", "filled", ""),))
    profile.field("About you", "p_about", SENTENCES)
    profile.submit("Save profile", ("about", "copy", "p_about"), *say("Saved."))
    # Leaving is possible, so that an agent can undo what let it in.
    profile.check("Hide me from the list", "hidden", scope="site").link("Leave the forum", "home", put("member", False))
    d.text("started", (), "site")
    d.choice("started_in", ("", *topics))
    start = d.page("start", "New thread", deep=False, without=("nav-join",)).text("In: {where}")
    start.field("Title", "t_title", ("A new idea", "Need advice", "Good news"))
    start.field("First post", "t_text", SENTENCES)
    start.submit("Post thread", ("started", "copy", "t_title"), ("started_in", "copy", "where"), to="posted")
    start.link("Discard", "home")
    d.page("posted", "Thread posted", deep=False, without=("nav-join",)).notice(
        "{started} in {started_in}", style="good"
    ).link("All topics", "home")
    d.page("rules", "House rules").text("No advertising. No shouting.").link("Report a problem", "report")
    report = d.page("report", "Report a problem").radios("What is it?", "r_kind", ("Spam", "Insult", "Other"))
    report.field("Details", "r_text", SENTENCES)
    report.submit("Send report", ("reported", "copy", "r_kind"), *say("Reported."))
    d.choice("reported", ("", "Spam", "Insult", "Other"))
    for kind in ("Spam", "Insult"):
        d.goal(f"report-{kind}", {"reported": kind}, f"Report a problem: {kind.lower()}")
    for topic in topics:
        for title in ("A new idea", "Need advice"):
            d.goal(
                f"start-{topic}-{title}",
                {"started": title, "started_in": topic},
                f'Start the thread "{title}" in {topic}',
                f'Open a thread called "{title}" under {topic}',
            )
    for nick in ("quill", "maple"):
        d.goal(f"join-{nick}", {"nick": nick, "hidden": True}, f'Join as "{nick}" and hide me from the list')
    return d.site()
