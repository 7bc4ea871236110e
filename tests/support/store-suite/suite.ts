// The port, described: one suite for every implementation of the store.
import { describe } from 'vitest';
import { budgetCases } from './budget-cases.ts';
import { journalCases } from './journal-cases.ts';
import { leaseCases } from './lease-cases.ts';
import { signalCases } from './signal-cases.ts';
import { spawnCases } from './spawn-cases.ts';
import type { OpenStage } from './stage.ts';

export function storeSuite(name: string, open: OpenStage): void {
  describe(`the store port: ${name}`, () => {
    journalCases(open);
    budgetCases(open);
    spawnCases(open);
    leaseCases(open);
    signalCases(open);
  });
}
