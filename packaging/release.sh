#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes a release of the present commit. It pushes nothing, and a failure leaves the checkout as it was.
#   packaging/release.sh FOLDER        commits, tags and packages; FOLDER gets the packages
#   packaging/release.sh --dry-run     the same in a clone that is removed, without building packages
#   packaging/release.sh --check ROOT  only the rules for every commit: the places of the version agree
# The steps: the version loses its -dev, in the changelog Unreleased becomes the version with the date,
# that is committed and tagged; releases of the changelog that have no tag get one; then development of
# the next patch begins. The first change that breaks an interface behind it begins the next minor
# version in the same places. HIPVMM_PROVIDER chooses whose HIP the Debian packages link.
set -euo pipefail
export LC_ALL=C

stop() {
  printf 'release.sh: %s\n' "$1" >&2
  exit 1
}

number() {  # ROOT NAME: a number of version.hpp
  sed -n "s/^#define HIPVMM_VERSION_$2 \([0-9][0-9]*\)$/\1/p" "$1/include/hipvmm/version.hpp"
}

# The files that ask for a version by find_package.
asking_files() {  # ROOT
  grep -rlE 'find_package\(hipvmm(_host_hip)? [0-9.]+ REQUIRED' "$1/README.md" "$1/docs" "$1/tests/consumer"
}

# read_version ROOT: sets minor ("0.3"), version ("0.3.0"), development (0 or 1) and of_python.
read_version() {
  minor=$(number "$1" MAJOR).$(number "$1" MINOR)
  version=$minor.$(number "$1" PATCH)
  development=$(number "$1" DEVELOPMENT)
  [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ && $development =~ ^[01]$ ]] ||
    stop "include/hipvmm/version.hpp does not define the four numbers of a version"
  of_python=$version
  ((development == 0)) || of_python+=.dev0
}

check() {  # ROOT
  local root=$1 line first problems=0
  read_version "$root"
  complain() {
    printf '%s\n' "$1" >&2
    problems=$((problems + 1))
  }
  grep -qxF "__version__ = \"$of_python\"" "$root/python/src/hipvmm/_version.py" ||
    complain "python/src/hipvmm/_version.py: the version is $of_python, by include/hipvmm/version.hpp"
  while IFS= read -r line; do
    complain "${line#"$root"/}: the version is $minor, by include/hipvmm/version.hpp"
  done < <(asking_files "$root" | xargs grep -nE 'find_package\(hipvmm(_host_hip)? [0-9.]+ REQUIRED' /dev/null |
    grep -vE "find_package\(hipvmm(_host_hip)? ${minor//./\\.} REQUIRED")
  first=$(sed -n 's/^## //p' "$root/CHANGELOG.md" | head -n 1)
  if ((development)); then
    [[ $first == Unreleased ]] || complain "CHANGELOG.md: the first heading is '$first', and that of a \
development version is Unreleased"
    ! grep -qE "^## ${version//./\\.}( |$)" "$root/CHANGELOG.md" ||
      complain "CHANGELOG.md: $version is under development and has a section already"
  else
    [[ $first == "$version ("????-??-??")" ]] ||
      complain "CHANGELOG.md: the first heading is '$first', and that of a release is '$version (DATE)'"
  fi
  cmp -s "$root/LICENSE" "$root/python/LICENSE" || complain "python/LICENSE is not LICENSE"
  ((problems == 0)) || stop "$problems places are to be mended"
}

# set_version ROOT MAJOR.MINOR.PATCH DEVELOPMENT: in all places but the changelog.
set_version() {
  local -a part
  IFS=. read -ra part <<<"$2"
  sed -i -e "s/^\(#define HIPVMM_VERSION_MAJOR\) .*/\1 ${part[0]}/" \
    -e "s/^\(#define HIPVMM_VERSION_MINOR\) .*/\1 ${part[1]}/" \
    -e "s/^\(#define HIPVMM_VERSION_PATCH\) .*/\1 ${part[2]}/" \
    -e "s/^\(#define HIPVMM_VERSION_DEVELOPMENT\) .*/\1 $3/" "$1/include/hipvmm/version.hpp"
  read_version "$1"
  sed -i "s/^__version__ = .*/__version__ = \"$of_python\"/" "$1/python/src/hipvmm/_version.py"
  asking_files "$1" | xargs sed -i -E "s/(find_package\(hipvmm(_host_hip)?) [0-9]+\.[0-9]+/\1 $minor/"
}

# Releases that the changelog has and that nobody has tagged.
tag_older() {
  local older commit
  for older in $(sed -n 's/^## \([0-9][0-9.]*\)\( .*\)*$/\1/p' CHANGELOG.md); do
    ! git rev-parse -q --verify "refs/tags/v$older" >/dev/null || continue
    commit=$(git log --format=%H --extended-regexp --grep "^(hipvmm|version) ${older//./\\.}( |\$)" |
      tail -n 1)
    if [[ -n $commit ]]; then
      git tag --annotate "v$older" --message "hipvmm $older" "$commit"
      printf 'tagged %s as v%s\n' "$(git log -1 --format='%h (%s)' "$commit")" "$older"
    else
      printf 'skipped: the commit of %s is not in this clone\n' "$older"
    fi
  done
}

build_packages() {  # FOLDER
  local tree=$1/source
  mkdir "$tree"
  git archive "v$version" | tar -xf - -C "$tree"
  cmake -S "$tree" -B "$1/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
    -DHIPVMM_PROVIDER="${HIPVMM_PROVIDER:-auto}" -DHIPVMM_TESTS=OFF -DHIPVMM_BENCH=OFF \
    -DHIPVMM_SAMPLES=OFF -DCMAKE_INSTALL_PREFIX=/usr
  cmake --build "$1/build" --parallel "$(nproc)"
  (cd "$1/build" && cpack)
  mv "$1/build"/*.deb "$1"
  # Its source archive has the name of the whole one.
  (cd "$tree/python" && python3 -m build --no-isolation --outdir "$1/python")
  rm -rf "$tree" "$1/build"
}

root=$(cd "$(dirname "$0")/.." && pwd)
if [[ ${1:-} == --check ]]; then
  check "${2:?the root of the tree is missing}"
  printf 'the places of version %s agree\n' "$of_python"
  exit
fi
[[ $# == 1 ]] || stop "name a folder for the packages, or --dry-run"
check "$root"
# cannot REASON: a dry run ends well, because not every commit can be released.
cannot() {
  [[ $mode == --dry-run ]] || stop "$1"
  printf 'skipped: %s\n' "$1"
  exit 0
}
mode=$1  # or the folder
[[ $mode == --dry-run ]] || mode=$(realpath -m "$1")
text=$(awk '/^## / { inside = $2 == "Unreleased"; next } inside' "$root/CHANGELOG.md")
((development)) || cannot "$version is no development version: this commit is a release already"
[[ $text == *[a-z]* ]] || cannot "CHANGELOG.md says nothing under Unreleased"
[[ $mode == --dry-run || -z $(git -C "$root" status --porcelain) ]] || stop "the checkout has changes"
[[ $mode == --dry-run || ! -e $mode ]] || stop "$mode exists: name a new folder"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet --shared "$root" "$work/clone"
mkdir "$work/packages"
cd "$work/clone"
if [[ $mode == --dry-run ]]; then
  git config user.name release.sh
  git config user.email release.sh@localhost
else
  git config user.name "$(git -C "$root" config user.name)"
  git config user.email "$(git -C "$root" config user.email)"
fi
tag_older
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || stop "the tag v$version exists already"

set_version . "$version" 0
sed -i "s/^## Unreleased$/## $version ($(date -u +%F))/" CHANGELOG.md
check .
git commit --quiet --all --message "hipvmm $version"
git tag --annotate "v$version" --message "hipvmm $version"
git archive --prefix="hipvmm-$version/" --output="$work/packages/hipvmm-$version.tar.gz" "v$version"
for file in LICENSE packaging/THIRD_PARTY_NOTICES CHANGELOG.md; do
  tar -tzf "$work/packages/hipvmm-$version.tar.gz" "hipvmm-$version/$file" >/dev/null
done
[[ $mode == --dry-run ]] || build_packages "$work/packages"
released=$version

set_version . "$minor.$((${version##*.} + 1))" 1
sed -i "0,/^## /s//## Unreleased\n\n## /" CHANGELOG.md
check .
git commit --quiet --all --message "hipvmm $version-dev: development begins"
git log --format='%h %s%d' -n 2
if [[ $mode == --dry-run ]]; then
  echo "$released could be released; nothing was changed"
  exit
fi
mv "$work/packages" "$mode"
git -C "$root" pull --quiet --ff-only --tags "$work/clone" HEAD
ls "$mode"
printf 'look at the commits, then: git push --follow-tags origin HEAD\n'
