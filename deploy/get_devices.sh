#!/usr/bin/env bash
# Gets what tests drive real devices with: Debian's adb, and a desktop (sshd, Xvfb, a window manager, programs with
# their accessibility tree: calculator, editor, file manager, settings). Where this machine's user can't install
# packages everything works but the tests that need them, which say so and are skipped.
set -euo pipefail

declare -A package_of=(
  [adb]=adb [sshd]=openssh-server [Xvfb]=xvfb [xdotool]=xdotool [xclip]=xclip [import]=imagemagick [openbox]=openbox
  [dbus-daemon]=dbus [dbus-launch]=dbus-x11 [galculator]=galculator [mousepad]=mousepad [thunar]=thunar
  [xfce4-appearance-settings]=xfce4-settings
)
# A machine that would start a login server by itself gets none from here: those tests are skipped there.
[[ -d /run/systemd/system ]] && unset "package_of[sshd]"
missing=()
for program in "${!package_of[@]}"; do
  command -v "$program" >/dev/null || [[ -x "/usr/sbin/$program" ]] || missing+=("${package_of[$program]}")
done
if [[ ${#missing[@]} -eq 0 ]]; then exit 0; fi

install() {
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" at-spi2-core gir1.2-atspi-2.0 python3-gi
}
if ! command -v apt-get >/dev/null || [[ "$(id -u)" != 0 ]] || ! install >&2; then
  echo "not installed: ${missing[*]}; tests that need them are skipped" >&2
fi
