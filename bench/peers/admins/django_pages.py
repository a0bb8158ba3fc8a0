"""Django's admin with a list of cases in its quickest setting: fifty rows, no count, an index under each of what is asked."""

import os
from urllib.parse import unquote, urlsplit

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application

_url = urlsplit(os.environ["PEER_DATABASE_URL"].replace("+psycopg", ""))
_query = dict(part.split("=") for part in _url.query.split("&") if part)
settings.configure(
    DEBUG=False, SECRET_KEY="bench", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, USE_TZ=True, STATIC_URL="/static/",
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    INSTALLED_APPS=["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
                    "django.contrib.messages", "django.contrib.staticfiles"],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware",
                "django.contrib.messages.middleware.MessageMiddleware"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {"context_processors": [
        "django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages"]}}],
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql", "NAME": _url.path.lstrip("/"), "USER": unquote(_url.username or ""),
        "PASSWORD": unquote(_url.password or ""), "HOST": unquote(_query.get("host", _url.hostname or "")),
        "PORT": _query.get("port", _url.port or ""), "CONN_MAX_AGE": None,
    }},
)  # fmt: skip
django.setup()

from django.contrib import admin  # noqa: E402
from django.core.paginator import Paginator  # noqa: E402
from django.db import models  # noqa: E402
from django.urls import path  # noqa: E402

STAGES = ("ready", "waiting_goods", "paid", "rejected", "nothing_due")


class Case(models.Model):
    id = models.CharField(primary_key=True, max_length=36)
    number = models.BigIntegerField()
    order_ref = models.CharField(max_length=100)
    customer = models.CharField(max_length=200)
    summary = models.CharField(max_length=200)
    stage = models.CharField(max_length=40, choices=[(stage, stage) for stage in STAGES])
    currency = models.CharField(max_length=3)
    amount_minor = models.BigIntegerField(null=True)
    due_at = models.DateTimeField()
    opened_at = models.DateTimeField()

    class Meta:
        app_label = "auth"
        managed = False
        db_table = 'bench"."peer_cases'


class Uncounted(Paginator):
    count = 100_000_000


class Open(admin.AdminSite):
    def has_permission(self, request: object) -> bool:
        return True


class Cases(admin.ModelAdmin):
    list_display = (
        "number",
        "order_ref",
        "customer",
        "summary",
        "stage",
        "currency",
        "amount_minor",
        "due_at",
        "opened_at",
    )
    list_filter = ("stage",)
    search_fields = ("order_ref__startswith",)
    ordering = ("due_at", "id")
    list_per_page = 50
    show_full_result_count = False
    paginator = Uncounted

    def has_view_permission(self, request: object, obj: object = None) -> bool:
        return True

    has_module_permission = has_change_permission = has_view_permission


site = Open(name="admin")
site.register(Case, Cases)
urlpatterns = [path("admin/", site.urls)]
application = get_wsgi_application()
