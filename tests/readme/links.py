"""Checks that every link of the READMEs and the documentation leads to an existing file, and to a heading in it; see README.md here.

    links.py SOURCE
"""
import pathlib
import re
import sys

LINK = re.compile(r"(?<!!)\[[^\]\[]*\]\(([^)\s]+)\)")


def without_code(text):
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    text = re.sub(r"^    .*$", "", text, flags=re.M)
    return re.sub(r"`[^`\n]*`", lambda span: span[0] if "](" not in span[0] else "", text)


def anchors(path):
    """The anchors of the headings, as GitHub and mkdocs make them."""
    heads = re.findall(r"^#+ +(.+)$", re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads}


def broken_links(source, page):
    for link in LINK.findall(without_code(page.read_text())):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        where = f"{page.relative_to(source)}: ({link})"
        if not target.exists() or source not in [target, *target.parents]:
            yield f"{where}: there is no such file"
        elif target.is_dir():
            yield f"{where}: a folder; name its README.md"
        elif anchor and anchor not in anchors(target):
            yield f"{where}: no heading gives this anchor"


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    pages = [source / "README.md", source / "CHANGELOG.md"]
    for top in ("compiler", "core", "drivers", "formats", "runtime", "tests", "tools"):
        pages += sorted((source / top).rglob("*.md"))
    broken = [line for page in pages for line in broken_links(source, page)]
    # Nobody finds a page without a link to it.
    linked = (source / "README.md").read_text()
    for page in sorted((source / "tools/docs").glob("*.md")):
        if page.name != "README.md" and f"(tools/docs/{page.name})" not in linked:
            broken.append(f"README.md does not link to tools/docs/{page.name}")
        if page.name != "README.md" and page.name not in (source / "tools/docs/mkdocs.yml").read_text():
            broken.append(f"mkdocs.yml does not name tools/docs/{page.name}")
    if len((source / "README.md").read_text().splitlines()) > 150:
        broken.append("README.md has more than 150 lines: move what is not for everybody to tools/docs")
    print("\n".join(broken + [f"{len(pages)} pages, {len(broken)} mistakes"]))
    sys.exit(1 if broken else 0)


main()
