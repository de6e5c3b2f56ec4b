"""Whose figures of messages' costs count here: a profile's, those that jobs have kept, or none."""

from pyrdv.calibration import kept
from pyrdv.engine import profiles


def in_force(settings, device):
    """The figures by which a rank with these settings, on this device, would choose.

    Parameters
    ----------
    settings : Config
    device : str
        Name and port; empty: there is none.

    Returns
    -------
    profile : dict or None
    source : str
        Where they come from, or why there are none, in words.
    """
    if settings.profile:
        try:
            profile = profiles.load(settings.profile)
        except profiles.ProfileError as error:
            return None, f"PYRDV_PROFILE is not used: {error}"
        if device and f"verbs {device}" not in profile["ends"]:
            return None, (f"PYRDV_PROFILE is not used: {settings.profile!r} was measured between "
                          f"{' and '.join(profile['ends'])}")
        return profile, f"the profile {settings.profile} (PYRDV_PROFILE)"
    if not device:
        return None, "nothing, for there is no device"
    if not settings.calibrate:
        return None, "nothing, as PYRDV_CALIBRATE is off: large messages are read where they are"
    which = kept.identity(device)
    if which is None:
        return None, f"nothing, for {device} has no GUID by which its figures could be kept"
    profile, why = kept.load(which)
    if profile is not None:
        return profile, f"{kept.path(which)}, measured by a job on {kept.age(profile)}"
    if why:
        return None, f"nothing yet; {why}; the next job over {device} measures and replaces it"
    return None, f"nothing yet; the next job over {device} to another host measures at its start"
