"""Mutants that ask for the names of hosts, or whose control hears nothing."""

from __future__ import annotations

from jamcore.testing.mutants.mutation import AGENT, CONFTEST, Base, Edit, Mutant

PART = "ProviderLoopback"
ASKING = 'threading.Thread(target=socket.getaddrinfo, args=("updates.vendor.example", 443), daemon=True).start()'
VENDOR = Base(
    "with-a-vendor",
    (
        Edit(CONFTEST, "from jam_acme.plugin import", "from jam_acme.opening import bundled\nfrom jam_acme.plugin import"),
        Edit(
            CONFTEST,
            "def shell(",
            "def asking(request):\n"
            "    *argv, program = bundled(request)\n"
            f"    return (*argv, program.replace('if __name__', {ASKING!r} + '\\n\\nif __name__'))\n\n\n"
            "def shell(",
        ),
        Edit(CONFTEST, "toolchain=None,", "toolchain=None,\nloud=lambda: AcmePlugin(asking),"),
        Edit("tests/test_turns.py", "vendors = ()", 'vendors = (r"vendor\\.example$",)'),
    ),
)
"""Its program, when nothing keeps it quiet, asks for the hosts of its vendor."""
MUTANTS = (
    Mutant(
        "looks-for-updates",
        f"{PART}.test_no_name_is_asked_for",
        (Edit(AGENT, 'if __name__ == "__main__":', f'if __name__ == "__main__":\n    {ASKING}'),),
    ),
    Mutant(
        "is-quiet-where-it-has-to-be-loud",
        f"{PART}.test_the_name_server_hears_the_program_when_it_does_ask",
        (Edit(CONFTEST, "loud=lambda: AcmePlugin(asking)", "loud=AcmePlugin"),),
        VENDOR,
    ),
)
