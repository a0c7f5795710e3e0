"""The daemon itself, its plugins' programs, and credentials."""

from __future__ import annotations

from jamcore.control.routes.route import AnyRoute, Call, Route
from jamcore.control.schemas import Accepted, CellList, CredentialList, EngineList, ProviderList
from jamcore.domain.requests import CredentialRow, DoctorReport, Health, InstalledToolchain, InstallProgress, SecretValue


async def health(call: Call) -> Health:
    """Say who answers."""
    return await call.services.system.health()


async def doctor(call: Call) -> DoctorReport:
    """Look at what this machine can do."""
    return await call.services.system.doctor()


async def engines(call: Call) -> EngineList:
    """List engines."""
    return EngineList(items=await call.services.system.engines())


async def shutdown(call: Call) -> Accepted:
    """Begin an orderly shutdown."""
    if call.asked("if_idle") == "1":
        await call.services.system.shutdown_if_idle()
    else:
        call.services.system.shutdown()
    return Accepted()


async def providers(call: Call) -> ProviderList:
    """List provider plugins."""
    return ProviderList(items=await call.services.providers.list())


async def cells(call: Call) -> CellList:
    """Return the capability table."""
    return CellList(items=await call.services.providers.cells())


async def install(call: Call) -> InstalledToolchain:
    """Install a provider's pinned program."""
    return await call.services.providers.install(call.part("name"))


async def install_progress(call: Call) -> InstallProgress:
    """Say how far an installation is."""
    return await call.services.providers.progress(call.part("name"))


async def credentials(call: Call) -> CredentialList:
    """List credentials by name."""
    return CredentialList(items=await call.services.credentials.list())


async def credential_set(call: Call) -> CredentialRow:
    """Keep a credential."""
    return await call.services.credentials.set(call.part("name"), call.body(SecretValue).value)


async def credential_forget(call: Call) -> Accepted:
    """Forget a credential."""
    await call.services.credentials.forget(call.part("name"))
    return Accepted()


ROUTES: tuple[AnyRoute, ...] = (
    Route("GET", "/v1/health", "health", "Say who answers", health, Health),
    Route("GET", "/v1/doctor", "doctor", "What this machine can do, and what to do about each gap", doctor, DoctorReport),
    Route("GET", "/v1/engines", "list_engines", "Engines, strongest first, and which one a room gets", engines, EngineList),
    Route(
        "POST",
        "/v1/shutdown",
        "shutdown",
        "Begin an orderly shutdown",
        shutdown,
        Accepted,
        status=202,
        query=(("if_idle", "1: only if nothing is under way"),),
    ),
    Route("GET", "/v1/providers", "list_providers", "Every provider plugin, also those not loaded", providers, ProviderList),
    Route("GET", "/v1/providers/cells", "list_cells", "The capability table", cells, CellList),
    Route(
        "POST",
        "/v1/providers/{name}/install",
        "install_provider",
        "Get a provider's pinned program; idempotent",
        install,
        InstalledToolchain,
    ),
    Route(
        "GET",
        "/v1/providers/{name}/install",
        "install_progress",
        "How far the installation of a provider's program is, if one runs",
        install_progress,
        InstallProgress,
    ),
    Route("GET", "/v1/credentials", "list_credentials", "Credentials by name, never their text", credentials, CredentialList),
    Route(
        "PUT",
        "/v1/credentials/{name}",
        "set_credential",
        "Keep a credential for the relay",
        credential_set,
        CredentialRow,
        body=SecretValue,
    ),
    Route("DELETE", "/v1/credentials/{name}", "forget_credential", "Forget a credential", credential_forget, Accepted),
)
