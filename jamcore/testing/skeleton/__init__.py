"""Skeletons of plugin distributions, from which ``jam plugin new`` makes an author's first one.

The files lie beside this module as they are written, for a plugin called ``acme``: they can be read, linted and run there. Nothing in them
is a template but that name.
"""
