"""Django: migrations, models, inspectdb."""
import io
import os
import sys
import tempfile
import types

import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["PGDATABASE"],
        "USER": os.environ["PGUSER"],
        "PASSWORD": os.environ["PGPASSWORD"],
        "HOST": os.environ["PGHOST"],
        "PORT": os.environ["PGPORT"],
    }},
    INSTALLED_APPS=[
        "django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "shop",
    ],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
    SECRET_KEY="test",
)
folder = tempfile.mkdtemp()
os.makedirs(os.path.join(folder, "shop", "migrations"))
for name in ("shop/__init__.py", "shop/migrations/__init__.py"):
    open(os.path.join(folder, name), "w").close()
with open(os.path.join(folder, "shop", "models.py"), "w") as out:
    out.write('''
from django.db import models

class Author(models.Model):
    name = models.CharField(max_length=40, unique=True)
    born = models.DateField(null=True)

class Book(models.Model):
    title = models.CharField(max_length=80, db_index=True)
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    price = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    added = models.DateTimeField(auto_now_add=True)
    extra = models.JSONField(default=dict)
    key = models.UUIDField(null=True)
    readers = models.ManyToManyField("auth.User")

    class Meta:
        constraints = [
            models.CheckConstraint(check=models.Q(price__gte=0), name="price_not_negative"),
            models.UniqueConstraint(fields=["author", "title"], name="one_title"),
        ]
        indexes = [models.Index(fields=["-price", "title"], name="by_price")]
''')
sys.path.insert(0, folder)
django.setup()
from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, connection, models, transaction  # noqa: E402

call_command("makemigrations", "shop", verbosity=0)
call_command("migrate", verbosity=0)
call_command("migrate", verbosity=0)
call_command("check")
from django.contrib.auth.models import User  # noqa: E402
from shop.models import Author, Book  # noqa: E402

ann = User.objects.create_user("ann", password="secret")
one, two = Author.objects.create(name="one"), Author.objects.create(name="two")
Book.objects.bulk_create(
    Book(title=f"t{i}", author=one if i % 2 else two, price=i, extra={"n": i}) for i in range(10)
)
book = Book.objects.get(title="t3")
book.readers.add(ann)
assert [b.title for b in ann.book_set.all()] == ["t3"]
assert Book.objects.filter(author__name="one").count() == 5
assert Book.objects.filter(extra__n=7).get().title == "t7"
sums = Author.objects.annotate(all=models.Sum("books__price")).order_by("name")
assert [(a.name, int(a.all)) for a in sums] == [("one", 25), ("two", 20)]
Book.objects.filter(price__lt=2).update(price=models.F("price") + 100)
assert Book.objects.filter(price__gte=100).count() == 2
for wrong in (dict(title="x", author=one, price=-1), dict(title="t3", author=one)):
    try:
        with transaction.atomic():
            Book.objects.create(**wrong)
        raise AssertionError(f"{wrong} was taken")
    except IntegrityError:
        pass
made, fresh = Author.objects.get_or_create(name="three")
assert fresh and not Author.objects.get_or_create(name="three")[1]
Author.objects.update_or_create(name="three", defaults={"born": "2001-02-03"})
with transaction.atomic():
    assert Author.objects.select_for_update().get(name="three").born.year == 2001
one.delete()
assert Book.objects.count() == 5
# A change of the model, migrated forth and back.
from django.db import migrations  # noqa: E402
with connection.schema_editor() as editor:
    field = models.CharField(max_length=10, default="new")
    field.set_attributes_from_name("state")
    editor.add_field(Book, field)
    editor.remove_field(Book, field)
shown = io.StringIO()
call_command("inspectdb", stdout=shown)
text = shown.getvalue()
for wanted in (
    "class ShopBook(models.Model):",
    "title = models.CharField(max_length=80)",
    "author = models.ForeignKey(ShopAuthor, models.DO_NOTHING)",
    "price = models.DecimalField(max_digits=8, decimal_places=2)",
    "extra = models.JSONField()",
    "key = models.UUIDField(blank=True, null=True)",
    "name = models.CharField(unique=True, max_length=40)",
    "unique_together = (('author', 'title'),)",
):
    assert wanted in text, (wanted, text)
assert "Unable to inspect" not in text, text
with connection.cursor() as cursor:
    found = connection.introspection.get_constraints(cursor, "shop_book")
assert found["price_not_negative"]["check"] and found["one_title"]["unique"], found
assert found["by_price"]["orders"] == ["DESC", "ASC"], found
call_command("migrate", "shop", "zero", verbosity=0)
assert "shop_book" not in connection.introspection.table_names()
print("django", django.get_version())
