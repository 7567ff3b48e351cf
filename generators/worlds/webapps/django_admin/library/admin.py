"""What the admin shows of the library (imported in the server's process only)."""

from __future__ import annotations

from typing import Any

from django.contrib import admin

from generators.worlds.webapps.django_admin.library.models import Author, Book, Loan


@admin.register(Author)
class AuthorAdmin(admin.ModelAdmin):
    list_display = ("name", "country", "born")
    search_fields = ("name",)
    list_filter = ("country",)


@admin.register(Book)
class BookAdmin(admin.ModelAdmin):
    list_display = ("title", "author", "genre", "published", "copies", "available")
    list_filter = ("genre", "available")
    search_fields = ("title", "author__name")
    actions = ("withdraw",)

    @admin.action(description="Withdraw selected books")
    def withdraw(self, request: Any, queryset: Any) -> None:
        count = queryset.update(available=False)
        self.message_user(request, f"{count} books withdrawn.")


@admin.register(Loan)
class LoanAdmin(admin.ModelAdmin):
    list_display = ("book", "reader", "due", "returned")
    list_filter = ("returned",)
    search_fields = ("book__title", "reader")
    actions = ("take_back",)

    @admin.action(description="Take back selected loans")
    def take_back(self, request: Any, queryset: Any) -> None:
        count = queryset.update(returned=True)
        self.message_user(request, f"{count} loans taken back.")
