"""The lab as a fixture: missing, it fails a test in CI and names itself as skipped elsewhere."""

import pytest

from tests.support.absent import absent

from . import machine


@pytest.fixture
def say(request):
    """Print a line past pytest's capturing, for what takes long."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(text):
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", end="", flush=True)

    return say


@pytest.fixture
def lab(say):
    """`machine.run`, for machines that this host can build."""

    def run(command, **options):
        options.setdefault("progress", lambda text: say(f"lab: {text}"))
        try:
            return machine.run(command, **options)
        except machine.LabUnavailable as reason:
            absent(f"the lab ({options.get('machine', 'uml')}) is not available: {reason}")

    return run
