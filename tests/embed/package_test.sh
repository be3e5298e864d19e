#!/usr/bin/env bash
# The Debian packages: unpacked into an empty root, they are enough to build a C program and to run it and the command.
#   package_test.sh BUILD CMAKE CONSUMER.c PLAN WORK VERSION
set -euo pipefail
build=$1 cmake=$2 consumer=$3 plan=$4 work=$5 version=$6
fail() { echo "FAILED: $*" >&2; exit 1; }
rm -rf "$work"
mkdir -p "$work/unpacked"
cd "$work"
"$(dirname "$cmake")/cpack" -G DEB --config "$build/CPackConfig.cmake" -B "$work/debs" >cpack.log 2>&1 || { cat cpack.log; fail "cpack"; }

major=${version%%.*}
of() { echo "$work/debs/$1_${version}_$(dpkg --print-architecture).deb"; }
packages=$(cd debs && ls ./*.deb | sed 's,^./,,; s/_.*//')
for package in $packages; do
  dpkg-deb --contents "$(of $package)" | awk '!/^d/ { print $6 }' >>files
  dpkg-deb -x "$(of $package)" unpacked
done
[ "$(wc -l <files)" = "$(sort -u files | wc -l)" ] || fail "two packages have a file in common: $(sort files | uniq -d)"
[ "$(dpkg-deb -f "$(of librondo-dev)" Depends | cut -d, -f1)" = "librondo$major (= $version)" ] || fail "librondo-dev does not depend on its libraries"
# The packages depend on the libraries that binaries are linked with, in versions that this system has.
for package in "librondo$major" rondo; do
  depends=$(dpkg-deb -f "$(of $package)" Depends)
  grep -q 'libstdc++6 (>=' <<<"$depends" || fail "$package depends on: $depends"
done
if dpkg-deb -f "$(of "librondo$major")" Depends | grep -vE '^((libc6|libgcc-s1|libstdc\+\+6) \([^)]*\)(, |$))*$'; then fail "the runtime depends on more than the C++ library"; fi
dpkg-deb -c "$(of "librondo$major")" >shown
grep -q "librondo.so.$version" shown || fail "the shared library is not in librondo$major"
if grep -q '\.so$\|\.h$\|\.a$' shown; then fail "librondo$major holds what only development needs"; fi

# The components that each package lists are those that the loader finds and those that were compiled in.
if command -v python3 >/dev/null; then
  for package in $packages; do
    dpkg-deb -c "$(of "$package")" | awk '/^-/ { print $6 }' >contents
    python3 "$(dirname "$0")/sbom_test.py" unpacked "$package" contents "$build" || fail "the SBOM of $package"
  done
fi

# A project in C, against that root.
mkdir project
cp "$consumer" project/consumer.c
project() { # VERSION that it asks for
  cat >project/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(rondo $1 REQUIRED)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE rondo::runtime rondo::host)
END
  rm -rf project/build
  "$cmake" -S project -B project/build -DCMAKE_PREFIX_PATH="$work/unpacked/usr" -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF >project.log 2>&1
}
project "${version%.*}" || { cat project.log; fail "find_package(rondo ${version%.*})"; }
"$cmake" --build project/build >project.log 2>&1 || { cat project.log; fail "building the program"; }
project/build/consumer "$plan" >said || fail "the program: $(cat said)"
ldd project/build/consumer >linked
grep -q "librondo.so.$major => $work/unpacked/usr/lib" linked || fail "the program does not use the package's library: $(cat linked)"
# A project that needs a newer release is refused with a message.
newer="${version%.*}.$((${version##*.} + 1))"
if project "$newer"; then fail "find_package(rondo $newer) takes $version"; fi
grep -q "requested version \"$newer\"" project.log || { cat project.log; fail "the refusal of $newer"; }
grep -q "version: $version" project.log || fail "the refusal does not say which version is there"

# The command, with nothing but its package and the system's.
env -i PATH=/usr/bin:/bin "$work/unpacked/usr/bin/rondo" --version >said
grep -q "^rondo $version " said || fail "the command says: $(cat said)"
env -i PATH=/usr/bin:/bin "$work/unpacked/usr/bin/rondo" check "$plan" >said || fail "rondo check: $(cat said)"
echo "$(wc -l <files) files in $(wc -w <<<"$packages") packages; $(cat said)"
