// Runs the rules of memory on a server. A lock on the project makes the counts exact, so two writers cannot exceed
// the bounds together.
import type { Clock } from '@kernmantle/core/base';
import { type Memories, memoryRules } from '@kernmantle/core/store';
import type { Database } from './connection.ts';
import { lockRows, runSteps, writeSteps } from './run-steps.ts';

export const serverMemories = (database: Database, clock: Clock): Memories => ({
  memories: (filter) =>
    database.read((sql) => runSteps(sql, memoryRules.find(filter, clock.now()))),
  changeMemory: (change) =>
    database.write(async (sql) => {
      const { tenant, project } = change.kind === 'write' ? change.row : change.key;
      await lockRows(sql, ['memories', tenant, project]);
      return await writeSteps(sql, memoryRules.change(change, clock.now()));
    }),
});
