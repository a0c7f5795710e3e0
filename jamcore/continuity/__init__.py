"""Checkpoints of provider state, and the way back to the exact conversation (CONT).

From the bottom up: ``tree`` looks at a guest's files, ``generations`` keeps bytes and proves them, ``databases`` has them copied in the
guest, ``capturing`` makes generations, ``resuming`` decides how a session may start and puts the state in place. Above them are the two
ways out: ``retention`` removes payload that nobody needs, ``resets`` gives a conversation up on evidence. ``coordinator`` says when a
host is quiet.
"""
