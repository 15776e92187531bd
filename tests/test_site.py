"""The site is built strictly: every link leads somewhere, and every page is in the navigation."""

import pathlib
import re
import subprocess
import sys

import pytest

import ninetoothed
from ninetoothed import errors

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="the site is built where mkdocs-material is installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_pages_from_elsewhere_are_there(site):
    index, gallery = ((site / name).read_text() for name in ("index.html", "examples.html"))
    assert 'href="tutorial.html"' in index and 'src="pictures/product.png"' in index
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} <= set(re.findall(r"\w+", gallery))


def test_links_lead_to_files(site):
    broken = []
    for page in site.glob("*.html"):
        for target in re.findall(r'(?:href|src)="([^":#?]+)"', page.read_text()):
            if page.name != "404.html" and not (site / target).exists():
                broken.append((page.name, target))
    assert broken == []


def test_what_agents_read_leads_to_pages(site):
    targets = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text())
    assert len(targets) > 8 and all((site / target).is_file() for target in targets)


def test_every_error_and_warning_has_its_cure():
    page = (ROOT / "docs" / "errors.md").read_text()
    public = {name for name in ninetoothed.__all__ if isinstance(getattr(errors, name, None), type)}
    assert public and {name for name in public - {"NineToothedError"} if f"| `{name}`" not in page} == set()
