"""Django with its admin as ASGI app over the folder's `app.db` (runs in the server's process).

At its start it makes the tables, the person who works in the admin (who has no password), and a session of theirs.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

APPS = ("auth", "admin", "contenttypes", "sessions", "messages", "staticfiles")
LIBRARY = "generators.worlds.webapps.django_admin.library"
TRUTH = "/truth/"
"""Address at which the parent asks what a list shows; it answers only those who know the folder's token."""
SESSION_S = 10 * 365 * 86400
urlpatterns: list[Any] = []


def _configure(folder: Path) -> None:
    import django
    from django.conf import settings

    # Configured in code: the process serves this one folder and ends with it.
    settings.configure(
        SECRET_KEY=secrets.token_hex(32),
        DEBUG=False,
        ALLOWED_HOSTS=["127.0.0.1"],
        ROOT_URLCONF=__name__,
        USE_TZ=True,
        TIME_ZONE="UTC",
        LANGUAGE_CODE="en-us",
        STATIC_URL="/static/",
        INSTALLED_APPS=[*(f"django.contrib.{app}" for app in APPS), f"{LIBRARY}.apps.LibraryConfig"],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.common.CommonMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        DATABASES={
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": folder / "app.db", "OPTIONS": {"timeout": 20}}
        },
        # No migrations: tables are made from the models, in a fraction of the time.
        MIGRATION_MODULES=dict.fromkeys((*APPS, "library")),
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
    )
    django.setup()


def _sign_in() -> str:
    """Make the person `admin` and a session; gives the session's cookie."""
    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import User
    from django.contrib.sessions.backends.db import SessionStore

    user = User(username="admin", first_name="Ada", is_staff=True, is_superuser=True)
    # Nobody can sign in by password; the cookie is the only way in.
    user.set_unusable_password()
    user.save()
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    # Years: the browser's clock stands still somewhere in them.
    session.set_expiry(SESSION_S)
    session.create()
    return str(session.session_key)


def _truth_view(token: str) -> Any:
    from django.contrib import admin
    from django.contrib.auth.models import User
    from django.http import Http404, HttpRequest, JsonResponse
    from django.test import RequestFactory
    from django.urls import resolve

    def truth(request: HttpRequest) -> JsonResponse:
        """{"model", "ids"} of the list at the address ?path=: Django's own filtered, ordered query, all pages of it."""
        # In constant time, and as if the address didn't exist.
        if not secrets.compare_digest(request.headers.get("X-Token", ""), token):
            raise Http404
        # The list that the browser shows, asked again with Django's own filters.
        inner = RequestFactory().get(request.GET["path"])
        inner.user = User.objects.get(username="admin")
        name = resolve(inner.path_info).url_name or ""
        for model, shown in admin.site._registry.items():
            if name == f"{model._meta.app_label}_{model._meta.model_name}_changelist":
                found = shown.get_changelist_instance(inner).queryset
                return JsonResponse({"model": model._meta.model_name, "ids": [str(row.pk) for row in found]})
        return JsonResponse({})

    return truth


@contextmanager
def open_application(folder: Path) -> Iterator[object]:
    """The ASGI app."""
    _configure(folder)
    from django.contrib import admin
    from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
    from django.core.asgi import get_asgi_application
    from django.core.management import call_command
    from django.urls import path

    call_command("migrate", run_syncdb=True, verbosity=0)
    # Only this process and its parent know it.
    token = secrets.token_hex(16)
    admin.site.site_header = admin.site.site_title = "Library office"
    urlpatterns.extend([path(TRUTH.strip("/") + "/", _truth_view(token)), path("", admin.site.urls)])
    (folder / "secrets.json").write_text(json.dumps({"session": _sign_in(), "token": token}), "utf-8")
    yield ASGIStaticFilesHandler(get_asgi_application())
