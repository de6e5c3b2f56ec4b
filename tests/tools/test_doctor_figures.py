"""Where `pyrdv doctor` says that the figures in force come from."""

import json
import subprocess
import sys

import pytest

from pyrdv import config
from pyrdv.calibration import kept
from pyrdv.tools import doctor_figures
from tests.support.figures import SOFT_ROCE

WHICH = {"device": "rxe0:1", "guid": "0200acfffe110001"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Settings of a machine with the device rxe0:1, by the variables given."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kept, "identity", lambda device: WHICH if device == "rxe0:1" else None)
    return lambda **chosen: config.load({f"PYRDV_{name.upper()}": text
                                         for name, text in chosen.items()})


def test_nothing_yet(here):
    found, source = doctor_figures.in_force(here(), "rxe0:1")
    assert found is None and source.startswith("nothing yet; the next job over rxe0:1")


def test_kept_ones(here):
    where = kept.keep(WHICH, SOFT_ROCE)
    found, source = doctor_figures.in_force(here(), "rxe0:1")
    assert found["net"] == SOFT_ROCE["net"]
    assert source == f"{where}, measured by a job on {kept.age(found)}"


def test_a_broken_file(here):
    where = kept.keep(WHICH, SOFT_ROCE)
    with open(where, "w") as file:
        file.write("{")
    found, source = doctor_figures.in_force(here(), "rxe0:1")
    assert found is None and "nothing yet" in source and "it is no JSON" in source


def test_the_profile_is_the_master(here, tmp_path):
    kept.keep(WHICH, SOFT_ROCE)
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**SOFT_ROCE, "gap": 0.5}))
    found, source = doctor_figures.in_force(here(profile=str(path)), "rxe0:1")
    assert found["gap"] == 0.5 and source == f"the profile {path} (PYRDV_PROFILE)"
    path.write_text(json.dumps({**SOFT_ROCE, "ends": ["verbs x:1"]}))
    found, source = doctor_figures.in_force(here(profile=str(path)), "rxe0:1")
    assert found is None and "between verbs x:1" in source
    path.write_text("{")
    found, source = doctor_figures.in_force(here(profile=str(path)), "rxe0:1")
    assert found is None and "PYRDV_PROFILE is not used" in source


@pytest.mark.parametrize("chosen, device, told", [
    ({"calibrate": "off"}, "rxe0:1", "PYRDV_CALIBRATE is off"), ({}, "", "no device"),
    ({}, "odd0:1", "no GUID")])
def test_why_there_are_none(here, chosen, device, told):
    kept.keep(WHICH, SOFT_ROCE)
    found, source = doctor_figures.in_force(here(**chosen), device)
    assert found is None and told in source


def doctor(*words, **environ):
    return subprocess.run([sys.executable, "-m", "pyrdv.tools.cli", "doctor", *words], text=True,
                          capture_output=True, env={"PATH": "/usr/bin:/bin", **environ})


def test_pages(tmp_path):
    """Of the command, with a profile, which needs no device."""
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**SOFT_ROCE, "ends": ["shm", "shm"]}))
    done = doctor("--protocols", PYRDV_PROFILE=str(path), PYRDV_RDMA_DEVICE="none9")
    assert done.returncode == 0, done
    assert f"Figures: the profile {path} (PYRDV_PROFILE)" in done.stdout
    assert "Protocols between shm and shm" in done.stdout
    done = doctor("--protocols", PYRDV_RDMA_DEVICE="none9")
    assert done.returncode == 1 and "pyrdv tune --output FILE" in done.stderr
    assert "figures of messages:" in doctor().stdout
