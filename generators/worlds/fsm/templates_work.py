"""Sites to work with: an issue tracker, a calendar, a wiki, an admin console."""

from generators.worlds.fsm.draft import Draft, fail, put, say
from generators.worlds.fsm.spec import Edge, SiteSpec
from generators.worlds.fsm.words import (
    ARTICLES,
    DATES,
    EVENTS,
    ISSUES,
    MAILS,
    PEOPLE,
    PHONES,
    SECRETS,
    SENTENCES,
    SERVERS,
    WORDS,
)


def issues(seed: int) -> SiteSpec:
    d = Draft("issues", seed, ("Bugtrail", "Ticketdesk", "Northstar Issues", "Patchwork", "Fixlist"))
    rng = d.rng
    titles = rng.sample(ISSUES, rng.randint(5, 9))
    people = [name.split()[0] for name in rng.sample(PEOPLE, 3)]
    levels = ("Low", "High", "Urgent")
    d.menu("Open issues", "home")
    d.menu("Closed", "closed")
    d.menu("New issue", "new")
    d.menu("People", "people")
    d.menu("Settings", "settings")
    home, closed = d.page("home", "Open issues"), d.page("closed", "Closed issues")
    closed.text("Issues that were solved.", style="quiet")
    for n, title in enumerate(titles):
        d.choice(f"state{n}", ("open", "closed"))
        d.choice(f"level{n}", ("Low", "High", "Urgent"), rng.choice(levels))
        d.choice(f"owner{n}", ("nobody", *people))
        home.row(title, f"{{level{n}}}", f"issue{n}", shown=((f"state{n}", "eq", "open"),))
        closed.row(title, "Solved", f"issue{n}", shown=((f"state{n}", "eq", "closed"),))
        page = d.page(f"issue{n}", title).text(f"Reported by {rng.choice(PEOPLE)}. Owner: {{owner{n}}}.")
        page.tab("Overview", f"issue{n}").tab("Comments", f"talk{n}")
        is_open = ((f"state{n}", "eq", "open"),)
        # Priority and owner are set at once, without a button: dropdowns over site variables.
        page.dropdown("Priority", f"level{n}", levels, must=False, scope="site")
        page.dropdown("Owner", f"owner{n}", ("nobody", *people), must=False, scope="site")
        page.button(
            "Close issue",
            # An owner first: a precondition that an agent learns only by trying.
            Edge(((f"owner{n}", "eq", "nobody"),), fail("Give it an owner first.")),
            Edge((), (put(f"state{n}", "closed"), *say("The issue is closed."))),
            shown=is_open,
            style="main",
        )
        page.button(
            "Open again",
            Edge((), (put(f"state{n}", "open"), *say("The issue is open again."))),
            shown=((f"state{n}", "eq", "closed"),),
        )
        d.text(f"said{n}", (), "site")
        talk = d.page(f"talk{n}", f"Comments on issue {n + 1}").tab("Overview", f"issue{n}").tab("Comments", f"talk{n}")
        talk.text(f"Last comment: {{said{n}}}", shown=((f"said{n}", "filled", ""),))
        talk.field("Your comment", "comment", SENTENCES)
        talk.submit("Post comment", (f"said{n}", "copy", "comment"), put("comment", ""), *say("Posted."))
        words = rng.choice(SENTENCES)
        who, level = rng.choice(people), rng.choice(levels)
        d.goal(f"close{n}", {f"state{n}": "closed"}, f'Close the issue "{title}"', f'Mark "{title}" as solved')
        d.goal(
            f"own{n}",
            {f"owner{n}": who, f"level{n}": level},
            f'Give the issue "{title}" to {who} with priority {level}',
        )
        d.goal(f"say{n}", {f"said{n}": words}, f'Comment "{words}" on the issue "{title}"')
    d.text("made", (), "site")
    d.choice("made_level", ("", *levels))
    new = d.page("new", "Report an issue").field("Title", "n_title", [f"The {w} is broken" for w in WORDS[:4]])
    new.field("What happened?", "n_text", SENTENCES).dropdown("How bad is it?", "n_level", levels)
    new.check("I searched for the same issue", "n_look", must="Please search first.")
    new.submit("Create issue", ("made", "copy", "n_title"), ("made_level", "copy", "n_level"), to="made")
    d.page("made", "Issue created", deep=False).notice("{made} ({made_level})", style="good").link("All issues", "home")
    for word in WORDS[:4]:
        for level in levels:
            when = [("made", "eq", f"The {word} is broken"), ("made_level", "eq", level)]
            d.goal(f"new-{word}-{level}", when, f'Report the issue "The {word} is broken", {level.lower()}')
    team = d.page("people", "People")
    for name in people:
        team.text(f"{name}: developer")
    team.field("Invite by email", "invite", MAILS, "email")
    team.submit("Send invitation", put("invited", True), *say("Invited."))
    d.flag("invited")
    settings = d.page("settings", "Settings").check("Mail me about comments", "mails", scope="site")
    settings.check("Weekly summary", "weekly", scope="site")
    settings.radios("Start page", "start", ("Mine", "All"), must=False, scope="site")
    d.goal("invite", {"invited": True}, "Invite somebody to the team by email")
    d.goal("weekly", {"weekly": True, "start": "Mine"}, "Turn on the weekly summary, start page Mine")
    return d.site()


def calendar(seed: int) -> SiteSpec:
    d = Draft("calendar", seed, ("Daybook", "Weekwise", "Plannery", "Clocktower", "Agenda One"))
    rng = d.rng
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
    events = rng.sample(EVENTS, rng.randint(4, 7))
    hours = ("09:00", "11:30", "14:00", "16:30")
    d.menu("Week", "home")
    d.menu("New event", "new")
    d.menu("Invitations", "invites")
    d.menu("Settings", "settings")
    home = d.page("home", "This week").text("Choose a day.")
    for n, day in enumerate(days):
        home.item(day, f"{14 + n} December", f"day{n}")
    # All days first, since events stand on every page and show by their variable.
    pages = [d.page(f"day{n}", f"{day}, {14 + n} December") for n, day in enumerate(days)]
    for n, page in enumerate(pages):
        if n:
            page.tab("Previous day", f"day{n - 1}")
        if n + 1 < len(days):
            page.tab("Next day", f"day{n + 1}")
        page.text("All times are local.", style="quiet")
    for n, event in enumerate(events):
        first = rng.randrange(5)
        d.choice(f"day_of{n}", days, days[first])
        d.choice(f"hour{n}", hours, rng.choice(hours))
        d.flag(f"gone{n}")
        for m, page in enumerate(pages):
            page.row(
                event, f"{{hour{n}}}", f"event{n}", shown=((f"day_of{n}", "eq", days[m]), (f"gone{n}", "eq", False))
            )
        page = d.page(f"event{n}", event).text(f"{{day_of{n}}} at {{hour{n}}}", style="big")
        page.notice("This event was deleted.", shown=((f"gone{n}", "eq", True),), style="bad")
        page.dropdown("Day", f"day_of{n}", days, must=False, scope="site")
        page.dropdown("Time", f"hour{n}", hours, must=False, scope="site")
        page.check("Remind me", f"remind{n}", scope="site")
        page.switch(f"gone{n}", "Delete event", "Bring it back", style="danger")
        # Another day than now, or the goal would hold at the start.
        day, hour = rng.choice([x for x in days if x != days[first]]), rng.choice(hours)
        d.goal(
            f"move{n}",
            {f"day_of{n}": day, f"hour{n}": hour},
            f"Move {event} to {day} at {hour}",
            f"{event} should take place on {day}, {hour}",
        )
        d.goal(f"delete{n}", {f"gone{n}": True}, f"Delete the event {event}", f"Cancel {event} in the calendar")
        d.goal(f"remind{n}", {f"remind{n}": True}, f"Set a reminder for {event}")
    # A text that was typed, and the day that was chosen for it.
    for name, kind in (("made", "text"), ("made_day", "day")):
        if kind == "text":
            d.text(name, (), "site")
        else:
            d.choice(name, ("", *days))
    new = d.page("new", "New event").field("Name", "n_name", [f"{w.title()} meeting" for w in WORDS[:4]])
    new.radios("Day of the event", "n_day", days[:4]).field("Guest (email)", "n_guest", MAILS, "email")
    new.submit("Save event", ("made", "copy", "n_name"), ("made_day", "copy", "n_day"), to="made")
    d.page("made", "Event saved", deep=False).notice("{made} on {made_day}", style="good").link(
        "Back to the week", "home"
    )
    for word in WORDS[:4]:
        for day in days[:4]:
            d.goal(
                f"new-{word}-{day}",
                {"made": f"{word.title()} meeting", "made_day": day},
                f'Create the event "{word.title()} meeting" on {day}',
                f"Plan a {word.title()} meeting for {day}",
            )
    invites = d.page("invites", "Invitations").text("You are invited to these events.")
    for n, who in enumerate(rng.sample(PEOPLE, 3)):
        d.choice(f"answer{n}", ("open", "accepted", "declined"))
        invites.row(f"Lunch with {who}", f"{{answer{n}}}", f"invite{n}")
        page = d.page(f"invite{n}", f"Lunch with {who}").text(f"Your answer: {{answer{n}}}")
        page.button("Accept", Edge((), (put(f"answer{n}", "accepted"),), "invites"), style="main")
        page.button("Decline", Edge((), (put(f"answer{n}", "declined"),), "invites"))
        for word in ("accepted", "declined"):
            verb = "Accept" if word == "accepted" else "Decline"
            d.goal(f"{word}{n}", {f"answer{n}": word}, f"{verb} the lunch with {who}")
    settings = d.page("settings", "Calendar settings").check("Week starts on Sunday", "sunday", scope="site")
    settings.dropdown("Time zone", "zone", ("UTC", "Berlin", "Lisbon"), must=False, scope="site")
    settings.field("Share with", "share", MAILS, "email").submit("Share calendar", put("shared", True), *say("Shared."))
    d.flag("shared")
    d.goal("zone", {"zone": "Lisbon", "sunday": True}, "Set the zone to Lisbon and start weeks on Sunday")
    d.goal("share", {"shared": True}, "Share my calendar with somebody")
    return d.site()


def wiki(seed: int) -> SiteSpec:
    d = Draft("wiki", seed, ("Townpedia", "Openlore", "Harbour Wiki", "Factory of Facts", "Citybook"))
    rng = d.rng
    articles = rng.sample(ARTICLES, rng.randint(5, 8))
    user, secret = rng.choice(PEOPLE).split()[0].lower(), rng.choice(SECRETS)
    d.flag("signed")
    d.menu("Articles", "home")
    d.menu("Recent changes", "changes")
    d.menu("Rules", "rules")
    d.menu("Sign in", "signin", shown=(("signed", "eq", False),))
    d.menu("My page", "me", shown=(("signed", "eq", True),))
    home = d.page("home", "All articles").text("A book that everyone writes.")
    home.field("Find an article", "query", (*articles, "xyz"), "", hint=f'Try "{articles[0]}"', enter="button-find")
    home.button(
        "Find",
        # Exact names lead to the article; everything else is said not to exist.
        *(Edge((("query", "eq", a),), (), f"read{n}") for n, a in enumerate(articles)),
        Edge((), fail("There is no article of this name.")),
        style="main",
    )
    changes = d.page("changes", "Recent changes").text("Edits of today are listed here.", style="quiet")
    for n, article in enumerate(articles):
        d.text(f"text{n}", (), "site", rng.choice(SENTENCES))
        d.flag(f"edited{n}")
        d.flag(f"watched{n}")
        home.item(article, "Article", f"read{n}")
        read = d.page(f"read{n}", article).tab("Read", f"read{n}").tab("History", f"old{n}")
        read.text(f"{{text{n}}}").text("This article has one paragraph so far.", style="quiet")
        # Guests are sent to sign in, whatever they wanted to edit.
        signed = Edge((("signed", "eq", True),), (), f"edit{n}")
        read.button("Edit", signed, Edge((), fail("Only members can edit. Please sign in.")), style="main")
        read.switch(f"watched{n}", "Watch", "Stop watching")
        old = d.page(f"old{n}", f"History of {article}").tab("Read", f"read{n}").tab("History", f"old{n}")
        old.notice("It was edited today.", shown=((f"edited{n}", "eq", True),))
        old.text("First written in 2019.")
        edit = d.page(f"edit{n}", f"Edit {article}", deep=False, without=("nav-signin",))
        edit.field("Text", "draft", SENTENCES)
        edit.field("What did you change?", "summary", ("More detail", "Typo", "New facts"))
        edit.check("This is a small change", "small")
        edit.submit("Save changes", (f"text{n}", "copy", "draft"), put(f"edited{n}", True), to=f"read{n}")
        edit.link("Cancel", f"read{n}")
        changes.row(article, "edited", f"old{n}", shown=((f"edited{n}", "eq", True),))
        words = rng.choice(SENTENCES)
        d.goal(
            f"edit{n}",
            {f"text{n}": words, f"edited{n}": True},
            f'Change the article {article} to "{words}"',
            f'Edit {article} so that it reads "{words}"',
        )
        d.goal(f"watch{n}", {f"watched{n}": True}, f"Watch the article {article}", f"Follow changes of {article}")
    signin = d.page("signin", "Sign in", without=("nav-me",))
    signin.text(f'For visitors: name "{user}", password "{secret}".', style="quiet")
    signin.field("User name", "s_user", (user, "guest"), "eq", error="This user is unknown.")
    signin.field("Password", "s_word", (secret, "1234"), "eq", error="The password is wrong.", secret=True)
    signin.submit("Sign in now", put("signed", True), to="me")
    me = d.page("me", "My page", deep=False, without=("nav-signin",)).text(f"Signed in as {user}.")
    me.check("Show my real name", "real", scope="site").link("Sign out", "home", put("signed", False))
    rules = d.page("rules", "Rules").text("Write what you know. Name your source. Be kind.")
    rules.link("How to edit", "how").link("How to name a source", "sources")
    d.page("how", "How to edit").text("Sign in, open an article, press Edit.").link("Back to the rules", "rules")
    d.page("sources", "How to name a source").text("Book, page, year.").link("Back to the rules", "rules")
    d.goal("signin", {"signed": True}, f'Sign in as "{user}" with the password "{secret}"')
    d.goal("real", {"real": True}, f'Sign in as "{user}" (password "{secret}") and show my real name')
    return d.site()


def admin(seed: int) -> SiteSpec:
    d = Draft("admin", seed, ("Control Room", "Rackview", "Opsdeck", "Clusterly", "Uptime Desk"))
    rng = d.rng
    servers = rng.sample(SERVERS, rng.randint(4, 7))
    people = rng.sample(PEOPLE, rng.randint(2, 4))
    d.menu("Dashboard", "home")
    d.menu("Servers", "servers")
    d.menu("Users", "users")
    d.menu("Backups", "backups")
    d.menu("Alerts", "alerts")
    home = d.page("home", "Dashboard").text("Everything at a glance.")
    home.item("Servers in use", str(len(servers)), "servers").item("People with access", str(len(people)), "users")
    home.item("Backups", "{backups} made", "backups")
    d.number("backups", 0, 9)
    fleet = d.page("servers", "All servers")
    for n, name in enumerate(servers):
        d.choice(f"power{n}", ("running", "stopped"), rng.choice(("running", "stopped")))
        d.choice(f"size{n}", ("Small", "Medium", "Large"))
        fleet.row(name, f"{{power{n}}}, {{size{n}}}", f"server{n}")
        page = d.page(f"server{n}", f"Server {name}").text(f"State: {{power{n}}}. Size: {{size{n}}}.", style="big")
        running = ((f"power{n}", "eq", "running"),)
        page.button("Stop server", Edge((), (put(f"power{n}", "stopped"),)), shown=running, style="danger")
        page.button(
            "Start server",
            Edge((), (put(f"power{n}", "running"),)),
            shown=((f"power{n}", "eq", "stopped"),),
            style="main",
        )
        page.dropdown("New size", "p_size", ("Small", "Medium", "Large"))
        # The dropdown's condition moves into the button's own edges, after the rule on running servers.
        need = page.needs.pop()
        page.button(
            "Resize",
            Edge(running, fail("Stop the server before you resize it.")),
            Edge((need.atom,), ((f"size{n}", "copy", "p_size"), *say("The size was changed."))),
            Edge((), fail(need.error)),
        )
        size, power = rng.choice(("Medium", "Large")), rng.choice(("running", "stopped"))
        d.goal(
            f"size{n}", {f"size{n}": size, f"power{n}": power}, f"Resize server {name} to {size} and leave it {power}"
        )
        # The other state than the one it begins in.
        other = "stopped" if d._variables[f"power{n}"].initial == "running" else "running"
        verb = "Stop" if other == "stopped" else "Start"
        d.goal(f"power{n}", {f"power{n}": other}, f"{verb} the server {name}")
    users = d.page("users", "Users").link("Add a user", "adduser")
    for n, name in enumerate(people):
        d.choice(f"role{n}", ("Viewer", "Editor", "Owner"))
        d.flag(f"locked{n}")
        users.row(name, f"{{role{n}}}", f"user{n}")
        page = d.page(f"user{n}", name)
        page.notice("This account is locked.", shown=((f"locked{n}", "eq", True),), style="bad")
        page.radios("Role", f"role{n}", ("Viewer", "Editor", "Owner"), must=False, scope="site")
        page.button(
            "Lock account",
            # Owners are protected: first a role, then the lock.
            Edge(((f"role{n}", "eq", "Owner"),), fail("Owners can't be locked.")),
            Edge((), (put(f"locked{n}", True), put("error", ""))),
            shown=((f"locked{n}", "eq", False),),
            style="danger",
        )
        page.button("Unlock account", Edge((), (put(f"locked{n}", False),)), shown=((f"locked{n}", "eq", True),))
        d.goal(f"lock{n}", {f"locked{n}": True}, f"Lock the account of {name}", f"{name} must not get in: lock it")
        d.goal(f"role{n}", {f"role{n}": "Editor"}, f"Make {name} an editor", f"Give {name} the role Editor")
    d.text("added", (), "site")
    d.choice("added_role", ("", "Viewer", "Editor", "Owner"))
    add = d.page("adduser", "Add a user").field("Full name", "n_name", PEOPLE[:5])
    add.field("Email", "n_mail", MAILS, "email")
    add.field("Phone", "n_phone", PHONES, "digits")
    add.dropdown("Role of the user", "n_role", ("Viewer", "Editor", "Owner"))
    add.check("Send a welcome mail", "n_mailit")
    add.submit("Create user", ("added", "copy", "n_name"), ("added_role", "copy", "n_role"), to="added")
    d.page("added", "User created", deep=False).notice("{added} is now {added_role}.", style="good").link(
        "All users", "users"
    )
    for name in PEOPLE[:5]:
        for role in ("Viewer", "Editor", "Owner"):
            d.goal(
                f"add-{name}-{role}",
                {"added": name, "added_role": role},
                f"Create an account for {name} as {role}",
                f"Add {name} to the users with the role {role}",
            )
    backups = d.page("backups", "Backups").text("Backups made: {backups}", style="big")
    backups.button(
        "Back up now",
        Edge((("backups", "ge", 9),), fail("The disk is full.")),
        Edge((), (("backups", "add", 1),)),
        style="main",
    )
    backups.button(
        "Delete the oldest",
        Edge((("backups", "le", 0),), fail("There is no backup.")),
        Edge((), (("backups", "add", -1),)),
    )
    backups.field("Next backup on", "b_date", DATES, "date", hint="2026-12-31")
    backups.submit("Plan backup", ("planned", "copy", "b_date"), *say("Planned."))
    d.text("planned", (), "site")
    alerts = d.page("alerts", "Alerts").check("Mail on failure", "a_mail", scope="site")
    alerts.check("Page on failure", "a_page", scope="site")
    alerts.radios("How often", "often", ("At once", "Hourly", "Daily"), must=False, scope="site")
    alerts.link("Test the alert", "tested")
    d.page("tested", "Alert sent").text("A test alert is on its way.").link("Back to alerts", "alerts")
    for count in (1, 2, 3, 5):
        d.goal(f"backup{count}", {"backups": count}, f"Make {count} backup(s), so that {count} exist")
    d.goal("alerts", {"a_mail": True, "often": "Daily"}, "Send alerts by mail, daily")
    for date in DATES:
        d.goal(f"plan-{date}", {"planned": date}, f"Plan the next backup for {date}")
    return d.site()
