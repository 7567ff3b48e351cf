"""The library's tables (imported in the server's process only, where Django is set up)."""

from __future__ import annotations

from django.db import models

GENRES = ("crime", "history", "poetry", "science", "travel")


class Author(models.Model):
    name = models.CharField(max_length=80, unique=True)
    country = models.CharField(max_length=40)
    born = models.IntegerField(null=True, blank=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return str(self.name)


class Book(models.Model):
    title = models.CharField(max_length=120, unique=True)
    author = models.ForeignKey(Author, on_delete=models.PROTECT)
    genre = models.CharField(max_length=20, choices=[(genre, genre.title()) for genre in GENRES])
    published = models.IntegerField("year of publication")
    copies = models.IntegerField(default=1)
    available = models.BooleanField(default=True)

    class Meta:
        ordering = ("title",)

    def __str__(self) -> str:
        return str(self.title)


class Loan(models.Model):
    book = models.ForeignKey(Book, on_delete=models.PROTECT)
    reader = models.CharField(max_length=80)
    due = models.DateField()
    returned = models.BooleanField(default=False)

    class Meta:
        ordering = ("due", "id")

    def __str__(self) -> str:
        return f"{self.book} to {self.reader}"
