// Describes the port: one suite for every implementation of the store.
import { describe } from 'vitest';
import { approvalCases } from './approval-cases.ts';
import { budgetCases } from './budget-cases.ts';
import { doubtCases } from './doubt-cases.ts';
import { journalCases } from './journal-cases.ts';
import { leaseCases } from './lease-cases.ts';
import { memoryCases } from './memory-cases.ts';
import { recordCases } from './record-cases.ts';
import { refusalCases } from './refusal-cases.ts';
import { scheduleCases } from './schedule-cases.ts';
import { searchCases } from './search-cases.ts';
import { signalCases } from './signal-cases.ts';
import { spawnCases } from './spawn-cases.ts';
import type { OpenStage } from './stage.ts';
import { tenantCases } from './tenant-cases.ts';

export function storeSuite(name: string, open: OpenStage): void {
  describe(`the store port: ${name}`, () => {
    journalCases(open);
    doubtCases(open);
    budgetCases(open);
    refusalCases(open);
    spawnCases(open);
    leaseCases(open);
    tenantCases(open);
    searchCases(open);
    signalCases(open);
    approvalCases(open);
    recordCases(open);
    memoryCases(open);
    scheduleCases(open);
  });
}
