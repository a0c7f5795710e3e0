"""The one mechanism of everything journaled: steps, their runner, crash points and replay."""
