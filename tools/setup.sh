#!/usr/bin/env bash
# Makes .venv from uv.lock. A fresh Debian has neither uv nor, often, python3-venv; this brings both.
set -euo pipefail
cd "$(dirname "$0")/.."

UV_VERSION=0.13.9
PYTHON=${PYTHON:-python3}

say() { printf '%s\n' "$*" >&2; }

command -v "$PYTHON" >/dev/null || { say "setup: no '$PYTHON' found. Install Python 3.11 or newer, or say where it is: make setup PYTHON=/path/to/python3"; exit 1; }
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  say "setup: '$PYTHON' is $("$PYTHON" -V 2>&1 | cut -d' ' -f2); Middlewatch needs 3.11 or newer. Say where one is: make setup PYTHON=/path/to/python3"
  exit 1
}

# The machine's own certificates: a site may stand behind a proxy with a certificate of its own.
export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-1}
bundle=/etc/ssl/certs/ca-certificates.crt
if [ -z "${PIP_CERT:-}" ] && [ -r "$bundle" ]; then export PIP_CERT=$bundle; fi
if [ -z "${SSL_CERT_FILE:-}" ] && [ -r "$bundle" ]; then export SSL_CERT_FILE=$bundle; fi

if command -v uv >/dev/null 2>&1; then
  uv=$(command -v uv)
else
  uv=.uv/bin/uv
  if [ "$("$uv" --version 2>/dev/null | cut -d' ' -f2)" != "$UV_VERSION" ]; then
    if ! "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null; then
      if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "setup: installing python3-venv"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
      else
        say "setup: this Python cannot make virtual environments. As root: apt-get install python3-venv"
        exit 1
      fi
    fi
    say "setup: no uv on PATH, putting uv $UV_VERSION into .uv/"
    rm -rf .uv
    "$PYTHON" -m venv .uv
    .uv/bin/python -m pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"
  fi
fi

# Which packages, and from where, is the lock file's word alone.
unset UV_INDEX UV_INDEX_URL UV_DEFAULT_INDEX UV_EXTRA_INDEX_URL UV_FIND_LINKS VIRTUAL_ENV
case "${1:-sync}" in
  sync) "$uv" sync --frozen --quiet --python "$PYTHON" ;;
  lock) shift || true; "$uv" lock --python "$PYTHON" "$@" ;;
  *) say "setup: unknown word '$1' (sync or lock)"; exit 2 ;;
esac
