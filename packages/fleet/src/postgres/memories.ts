// Runs the rules of memory on a server. A lock on the project makes the counts exact, so two writers cannot exceed
// the bounds together.
import type { Clock } from '@kernmantle/core/base';
import { type Memories, memoryRules } from '@kernmantle/core/store';
import type { Database } from './connection.ts';
import { runSteps, writeSteps } from './run-steps.ts';

const LOCK = 'SELECT pg_advisory_xact_lock(hashtext($1))';

export const serverMemories = (database: Database, clock: Clock): Memories => ({
  memories: (filter) =>
    database.read((sql) => runSteps(sql, memoryRules.find(filter, clock.now()))),
  changeMemory: (change) =>
    database.write(async (sql) => {
      const { tenant, project } = change.kind === 'write' ? change.row : change.key;
      await sql.all(LOCK, JSON.stringify(['memories', tenant, project]));
      return await writeSteps(sql, memoryRules.change(change, clock.now()));
    }),
});
