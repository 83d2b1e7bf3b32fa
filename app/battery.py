"""The battery of this computer, as far as work that nobody waits for depends on it."""


def may_read_ahead(least_percent: int) -> bool:
    """Tell whether power may be spent on what may never be asked for: always but on a battery that is low.

    Args:
        least_percent: charge below which the battery counts as low.
    """
    import psutil  # no command that prints a version needs it

    try:
        battery = psutil.sensors_battery()
    except (AttributeError, OSError, ValueError):  # systems without that question, and drivers with odd answers
        return True
    return battery is None or battery.power_plugged is not False or battery.percent >= least_percent
