"""Checkpoints of provider state, and the way back to the exact conversation (CONT).

``coordinator`` says when a host is quiet, ``broker`` makes generations, ``activate`` decides how a session may start and puts the
state in place, ``observe`` keeps what came of it. The bytes: ``capture`` walks, ``objects`` and ``content`` encode, ``blocks`` and
``packs`` keep, ``publish`` seals, ``verify`` and ``restore`` read back.
"""
