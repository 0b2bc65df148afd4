"""With the variable not set, the plugin's .pth file costs nothing worth the name."""

from __future__ import annotations

from installation import Installation

# What Python does with the file at its start, timed. Run with -S, so that it has not done it already. Python 3.13 reads every
# .pth file by the codec that is imported here.
TIMED = """
import encodings.utf_8_sig, site, sys, time
folder, name = sys.argv[1:]
before = set(sys.modules)
start = time.perf_counter()
site.addpackage(folder, name, set())
spent = time.perf_counter() - start
print(spent * 1e3, sorted(set(sys.modules) - before))
"""


def test_less_than_a_millisecond_and_no_import(installed: Installation):
    runs = [installed.run("-S", "-c", TIMED, installed.site_packages, "tl_gridsync_pass.pth").stdout.split(maxsplit=1) for _ in range(5)]
    assert [modules.strip() for _, modules in runs] == ["[]"] * 5
    # The least of five: what else runs on the machine only adds.
    assert min(float(milliseconds) for milliseconds, _ in runs) < 1.0


def test_start_without_the_variable_loads_the_same_modules(installed: Installation):
    listing = "import sys; print(*sorted(sys.modules))"
    file = installed.site_packages / "tl_gridsync_pass.pth"
    with_file = installed.run("-c", listing).stdout
    file.rename(file.with_suffix(".away"))
    try:
        without_file = installed.run("-c", listing).stdout
    finally:
        file.with_suffix(".away").rename(file)
    assert with_file == without_file
    assert "_tl_gridsync_pass_startup" in installed.run("-c", listing, variable="1").stdout
