"""The engine suite: what every engine has to pass. Subclass :class:`EngineSuite`, name the plugin class, run pytest."""

from jamcore.testing.engines.suite import EngineSuite

__all__ = ["EngineSuite"]
