#!/usr/bin/env bash
# Gets fonts, looks and icons of known UI kits (npm packages: MIT, ISC and OFL licences) into DIR, for nano-base's pages
# in real fonts. Optional: what can't be fetched is left out, it says so, and pages are drawn with what there is.
#   deploy/get_ui_kits.sh [DIR]      DIR: $VESPER_HOME/cache/nano_base/ui_kits (VESPER_HOME: .vesper)
set -euo pipefail

dir="${1:-${VESPER_HOME:-.vesper}/cache/nano_base/ui_kits}"
# package@version, folder, what of it is used
kits='
@fontsource/inter@5.3.0 fontsource-inter files/inter-latin-[47]00-normal.woff2
@fontsource/roboto@5.3.0 fontsource-roboto files/roboto-latin-[47]00-normal.woff2
@fontsource/open-sans@5.3.0 fontsource-open-sans files/open-sans-latin-[47]00-normal.woff2
@fontsource/noto-sans-sc@5.3.0 fontsource-noto-sans-sc files/noto-sans-sc-chinese-simplified-[47]00-normal.woff2
bootstrap@5.3.8 bootstrap dist/css/bootstrap.min.css
bulma@1.0.4 bulma css/bulma.min.css
@picocss/pico@2.1.1 picocss-pico css/pico.min.css
bootstrap-icons@1.13.1 bootstrap-icons icons/*.svg
lucide-static@1.62.0 lucide-static icons/*.svg
'
if ! command -v npm >/dev/null; then
  echo "npm isn't installed, so no UI kits are fetched; pages are drawn with this machine's fonts and our own looks" >&2
  exit 0
fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
while read -r package folder files; do
  [[ -n "$package" ]] || continue
  if [[ -d "$dir/$folder" ]]; then
    echo "$dir/$folder is there already"
    continue
  fi
  rm -rf "$work/packed" && mkdir -p "$work/packed/package"
  if ! (cd "$work/packed" && npm pack --silent "$package" >/dev/null); then
    echo "npm couldn't fetch $package; pages are drawn without it" >&2
    continue
  fi
  tar -xzf "$(find "$work/packed" -maxdepth 1 -name '*.tgz')" -C "$work/packed/package" --strip-components=1
  for file in "$work"/packed/package/LICENSE* "$work"/packed/package/$files; do
    [[ -f "$file" ]] || continue
    to="$work/packed/used/${file#"$work/packed/package/"}"
    mkdir -p "$(dirname "$to")" && cp "$file" "$to"
  done
  mkdir -p "$dir" && mv "$work/packed/used" "$dir/$folder"
  echo "$dir/$folder: $package"
done <<<"$kits"
