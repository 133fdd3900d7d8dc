"""Settings of the standalone project; a host project brings its own and adds our four apps.

Every value can be set by an environment variable of the same name. Library code never imports this
module: it reads `settings.OSTINATO` through `orchestrator.conf`.
"""

from __future__ import annotations

from pathlib import Path

import environ

from orchestrator.conf import from_environment

env = environ.Env()
BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env.str("DATA_DIR", default=str(Path.cwd() / ".ostinato"))).resolve()


def _kept(name: str, default: str) -> str:
    """What a running `up` keeps in its data folder: other commands beside it find the same server."""
    try:
        return (DATA_DIR / name).read_text().strip() or default
    except OSError:
        return default


DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = env.str("SECRET_KEY", default=_kept("secret-key", "only-for-tests-and-tools-up-makes-its-own"))
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

INSTALLED_APPS = [
    "orchestrator",
    "workflows",
    "dispatch",
    "outbox",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "orchestrator.urls"
ASGI_APPLICATION = "orchestrator.asgi.application"
APPEND_SLASH = False
LOGIN_URL = "/admin/login/"
LOGIN_REDIRECT_URL = "/ops/"

_CHECKOUT = (BASE_DIR / "pyproject.toml").exists()
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"] if _CHECKOUT else [],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {
    "default": {
        **env.db_url(
            "DATABASE_URL", default=_kept("run/database-url", "postgresql://ostinato@127.0.0.1:5432/ostinato")
        ),
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        "ATOMIC_REQUESTS": False,
        "DISABLE_SERVER_SIDE_CURSORS": True,
    }
}
DATABASES["default"]["ENGINE"] = "django.db.backends.postgresql"

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"] if _CHECKOUT else []
STATIC_ROOT = DATA_DIR / "static"
WHITENOISE_USE_FINDERS = True
DATA_UPLOAD_MAX_MEMORY_SIZE = env.int("DATA_UPLOAD_MAX_MEMORY_SIZE", default=20 * 1024 * 1024)

REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["orchestrator.api.OrjsonRenderer"],
    "DEFAULT_PARSER_CLASSES": ["orchestrator.api.AnyJSONParser"],
    "DEFAULT_AUTHENTICATION_CLASSES": ["orchestrator.api.PrincipalAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["orchestrator.api.DeclaredPermission"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "orchestrator.api.IgnoreAccept",
    "EXCEPTION_HANDLER": "orchestrator.api.error_response",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Ostinato",
    "DESCRIPTION": "Durable workflows on Django and PostgreSQL, wire-compatible with Conductor.",
    "VERSION": "0.1.0",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api",
    "POSTPROCESSING_HOOKS": ["orchestrator.api.openapi.complete"],
}

# Each key of orchestrator.conf as OSTINATO_<KEY>.
OSTINATO = {"DIRECT_URL": env.str("DIRECT_URL", default="")} | from_environment(env)
if "DATABASE_URL" not in env and _kept("run/database-url", ""):
    OSTINATO.setdefault("OFFLOAD_DIR", str(DATA_DIR / "payloads"))

LOGGING_CONFIG = None
