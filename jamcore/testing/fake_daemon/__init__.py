"""A daemon for tests: the real server over services that keep everything in memory and act out a turn by its text.

Turn texts: ``wait`` runs until it is interrupted, ``quiet`` too but says nothing, ``stubborn`` runs for ever, ``fail`` fails, ``evil``
answers with terminal control sequences, ``doubt`` and ``parked`` lose their agent (with and without a word about the turn), ``late``
answers when it is interrupted and keeps later turns waiting, ``ask`` asks for permission and goes on when it is answered, anything else
is echoed.

Run as a program it is a whole daemon:
``python -m jamcore.testing.fake_daemon --app-directory DIR``. DIR/refuse.txt makes it end at once with that text
as its error, DIR/mute makes it never listen, DIR/recovering.txt keeps it from listening for as long as it is there, and is what it says
that it recovers, DIR/slow-end makes it take a while to end, and an installation takes as long as DIR/hold-install is there.
"""
