"""The Django app's registration."""

from django.apps import AppConfig


class LibraryConfig(AppConfig):
    name = "generators.worlds.webapps.django_admin.library"
    label = "library"
    verbose_name = "Library"
    default_auto_field = "django.db.models.BigAutoField"
