#!/usr/bin/env bash
# Gets what tests drive real devices with: Debian's adb, and a desktop (sshd, Xvfb, a window manager, programs with
# their accessibility tree: calculator, editor, file manager, settings, spreadsheet …); Tesseract, which reads screens
# for judges; and PostgreSQL's programs. Where this machine's user can't install packages everything works but the
# tests that need them, which say so and are skipped.
set -euo pipefail

if ! command -v apt-get >/dev/null; then  # macOS's bash is too old for what follows, too
  echo "no apt-get here: tests that need programs which are missing are skipped" >&2
  exit 0
fi

declare -A package_of=(
  [adb]=adb [sshd]=openssh-server [Xvfb]=xvfb [xdotool]=xdotool [xclip]=xclip [import]=imagemagick [openbox]=openbox
  [dbus-daemon]=dbus [dbus-launch]=dbus-x11 [galculator]=galculator [mousepad]=mousepad [thunar]=thunar
  [xfce4-appearance-settings]=xfce4-settings [gnumeric]=gnumeric [abiword]=abiword [xfce4-terminal]=xfce4-terminal
  [gtkhash]=gtkhash [engrampa]=engrampa [ristretto]=ristretto [mtpaint]=mtpaint [atril]=atril
  [claws-mail]=claws-mail
  [bwrap]=bubblewrap [tesseract]=tesseract-ocr
)
# A machine that would start a login server by itself gets none from here: those tests are skipped there.
[[ -d /run/systemd/system ]] && unset "package_of[sshd]"
missing=()
for program in "${!package_of[@]}"; do
  command -v "$program" >/dev/null || [[ -x "/usr/sbin/$program" ]] || missing+=("${package_of[$program]}")
done
# Debian keeps a server's programs off the PATH.
for program in initdb postgres; do
  command -v "$program" >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/$program" >/dev/null || postgres=postgresql
done
if [[ ${#missing[@]} -eq 0 && -z "${postgres:-}" ]]; then exit 0; fi

get() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; }
get_devices() { [[ ${#missing[@]} -eq 0 ]] || get "${missing[@]}" at-spi2-core gir1.2-atspi-2.0 python3-gi; }
# Tests make clusters of their own. Debian would make one and start it, so it is told not to before the server comes;
# the file that tells it belongs to the first package.
get_postgres() {
  [[ -n "${postgres:-}" ]] || return 0
  local settings=/etc/postgresql-common/createcluster.conf
  get postgresql-common && sed -Ei 's/^#? *create_main_cluster *=.*/create_main_cluster = false/' "$settings" &&
    grep -q '^create_main_cluster = false' "$settings" && get "$postgres"
}
can() { command -v apt-get >/dev/null && [[ "$(id -u)" == 0 ]] && apt-get update -qq; }
failed=()
if can >&2; then
  get_devices >&2 || failed+=("${missing[@]}")
  get_postgres >&2 || failed+=("$postgres")
else
  failed+=("${missing[@]}" ${postgres:+"$postgres"})
fi
if [[ ${#failed[@]} -gt 0 ]]; then echo "not installed: ${failed[*]}; tests that need them are skipped" >&2; fi
