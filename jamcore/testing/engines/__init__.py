"""The engine suite: what every engine has to pass. Subclass :class:`EngineSuite`, name the plugin class, run pytest."""

from jamcore.testing.engines.base import Sickness
from jamcore.testing.engines.box import Python
from jamcore.testing.engines.checks import Check, Topic, checks_of
from jamcore.testing.engines.suite import EngineSuite

__all__ = ["Check", "EngineSuite", "Python", "Sickness", "Topic", "checks_of"]
