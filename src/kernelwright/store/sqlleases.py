"""Leases of runs in the database; every write of a run checks its lease in the same transaction."""

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from kernelwright.core.errors import StoreError
from kernelwright.store.lease import LEASE_S, Lease, LeaseLost, Owner
from kernelwright.store.schema import leases, runs
from kernelwright.store.sqlrecords import SqlRecords, batched


class SqlLeases(SqlRecords):
    """See Store."""

    def __init__(
        self, engine: Engine, name: str, clock: Callable[[], datetime], *, read_only: bool = False
    ) -> None:
        """Use an opened database; ``clock`` returns UTC times."""
        super().__init__(engine, name, read_only=read_only)
        self._clock = clock
        self._tokens: dict[str, int] = {}
        """Of the leases that this store took and did not give back, by run."""

    def take_lease(self, run_id: str, owner: Owner, *, seconds: float = LEASE_S) -> Lease:
        def take(connection: Connection) -> Lease:
            self._lock_run(connection, run_id)
            now = self._now(connection)
            token, current = self._find(connection, run_id)
            if current is not None and current.is_live(now):
                raise current.refusal()
            until = now + timedelta(seconds=seconds)
            lease = Lease(run_id=run_id, token=token + 1, owner=owner, taken_at=now, expires_at=until)
            connection.execute(leases.delete().where(leases.c.run_id == run_id))
            connection.execute(
                leases.insert().values(
                    run_id=run_id,
                    token=lease.token,
                    owner=owner.model_dump_json(),
                    taken_at=to_text(now),
                    expires_at=to_text(until),
                )
            )
            return lease

        lease = self._write(take)
        self._tokens[run_id] = lease.token
        return lease

    def renew_lease(self, lease: Lease, *, seconds: float = LEASE_S) -> None:
        def renew(connection: Connection) -> None:
            until = self._now(connection) + timedelta(seconds=seconds)
            renewed = connection.execute(_this(lease).values(expires_at=to_text(until)))
            if renewed.rowcount == 0:
                raise _lost(lease.run_id)

        self._write(renew)

    def release_lease(self, lease: Lease) -> None:
        self._write(lambda connection: connection.execute(_this(lease).values(owner=None)))
        self._tokens.pop(lease.run_id, None)

    def lease_of(self, run_id: str) -> Lease | None:
        found = self._read(sa.select(leases).where(leases.c.run_id == run_id))
        lease = _parse(found[0]) if found else None
        return lease if lease is not None and lease.is_live(self._clock()) else None

    def leases_of(self, run_ids: Collection[str]) -> Mapping[str, Lease]:
        now = self._clock()
        found: dict[str, Lease] = {}
        for some in batched(run_ids):
            query = sa.select(leases).where(leases.c.run_id.in_(some), leases.c.owner.is_not(None))
            known = (_parse(row) for row in self._read(query))
            found |= {lease.run_id: lease for lease in known if lease is not None and lease.is_live(now)}
        return found

    def held_within(self, connection: Connection, run_ids: Collection[str]) -> set[str]:
        """Return the runs that a process is at work on, for modules of this package.

        The runs' rows must be locked by then.
        """
        now = self._now(connection)
        query = sa.select(leases).where(leases.c.run_id.in_(run_ids), leases.c.owner.is_not(None))
        found = map(_parse, connection.execute(query))
        return {lease.run_id for lease in found if lease is not None and lease.is_live(now)}

    def _require_lease(self, connection: Connection, run_id: str) -> None:
        """Raise LeaseLost when another writes this run; the run's row must be locked by then."""
        token, current = self._find(connection, run_id)
        mine = self._tokens.get(run_id)
        if (current is not None) if mine is None else (token != mine):
            raise _lost(run_id)

    def _find(self, connection: Connection, run_id: str) -> tuple[int, Lease | None]:
        """Return the newest token of a run and, unless it was given back, its lease."""
        found = connection.execute(sa.select(leases).where(leases.c.run_id == run_id)).first()
        return (0, None) if found is None else (found.token, _parse(found))

    def _lock_run(self, connection: Connection, run_id: str) -> None:
        # SQLite locks the whole database when a writing transaction begins, and knows no FOR UPDATE.
        query = sa.select(runs.c.run_id).where(runs.c.run_id == run_id).with_for_update()
        if connection.execute(query).first() is None:
            raise self._unknown_run(run_id)

    def _unknown_run(self, run_id: str) -> StoreError:
        return StoreError(f"no run {run_id!r} in {self._name}; `kernelwright runs list` shows them")

    def _now(self, connection: Connection) -> datetime:
        """Return the time by the one clock that all owners share, where there is one."""
        if connection.dialect.name != "postgresql":
            return self._clock()
        now: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
        return now.astimezone(UTC)


def to_text(time: datetime) -> str:
    """Return a time as columns hold it: text order is time order."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def _this(lease: Lease) -> sa.Update:
    mine = sa.and_(leases.c.run_id == lease.run_id, leases.c.token == lease.token)
    return leases.update().where(mine, leases.c.owner.is_not(None))


def _parse(row: sa.Row[tuple[object, ...]]) -> Lease | None:
    if row.owner is None:
        return None
    return Lease(
        run_id=row.run_id,
        token=row.token,
        owner=Owner.model_validate_json(row.owner),
        taken_at=datetime.fromisoformat(row.taken_at),
        expires_at=datetime.fromisoformat(row.expires_at),
    )


def _lost(run_id: str) -> LeaseLost:
    return LeaseLost(
        f"run {run_id} was taken over by another process while this one was not heard of; what was finished "
        f"is kept. Follow it with: kernelwright runs show {run_id}"
    )
