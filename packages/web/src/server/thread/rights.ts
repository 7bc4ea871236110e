// Computes the rights of a thread and their use. A call uses the right to call its tool and the
// rights that the chain of the tool requires, for the targets of the call.
import { getOwn, type JsonObject, plainText } from '@kernmantle/core/base';
import type { Library } from '@kernmantle/core/items';
import type { Call } from '@kernmantle/core/journal';
import type { Approval } from '@kernmantle/core/store';
import {
  type CapabilityCatalog,
  type Grant,
  grantsAllow,
  type Need,
  normalizeCapability,
  type Scope,
} from '@kernmantle/core/trust';
import type { DataObject, Gate, RightUse } from '../../model/api.ts';
import { grantIn, rightName } from '../listed-approvals.ts';
import type { CallIndex } from './call-index.ts';

const scopeIn = (scope: JsonObject | undefined): Scope =>
  Object.fromEntries(Object.entries(scope ?? {}).map(([name, value]) => [name, plainText(value)]));

/** Returns the rights that the chain of a tool requires for an action. Empty if the tool does not exist. */
export function requiredBy(library: Library, tool: string, action: string | undefined): string[] {
  const chain = library.chain(tool);
  if (!chain.ok) return [];
  const tools = chain.output.links.flatMap((link) => (link.tool ? [link.tool] : []));
  const [leaf, ...below] = tools;
  const chosen = leaf?.actions.find(({ name }) => name === action);
  const own = chosen?.requires ?? leaf?.requires ?? [];
  const others = below.flatMap((link) => link.handsOn ?? link.requires);
  return [...new Set([...own, ...others].map(normalizeCapability))];
}

/** Returns the rights that a call uses. A target is a path, a host or an id. */
function needsOf(library: Library, { tool, action, target = '' }: Call): Need[][] {
  const places = target.split(' ').filter((place) => place !== '');
  const needs = requiredBy(library, tool, action).map((capability): Need[] => {
    const field = capability.startsWith('fs.')
      ? 'path'
      : capability.startsWith('net.')
        ? 'host'
        : '';
    if (field === '') return [{ capability }];
    return places.map((place) => ({ capability, scope: { [field]: place } }));
  });
  return [[{ capability: 'tool.execute', scope: { id: tool }, signed: true }], ...needs];
}

interface Tally {
  readonly grant: Grant;
  readonly capped: readonly string[];
  uses: number;
  refused: number;
  asks: boolean;
}

/** Returns the first right that allows one of the needs, else the first right with the same name. */
function rightFor(
  rights: readonly Tally[],
  needs: readonly Need[],
  catalog: CapabilityCatalog,
): Tally | undefined {
  const allows = rights.find(({ grant }) =>
    needs.some((need) => grantsAllow([grant], need, catalog)),
  );
  const [first] = needs;
  // A right to call another tool does not apply.
  if (allows || !first || first.capability === 'tool.execute') return allows;
  return rights.find(({ grant }) => grant.capability === first.capability);
}

function count(tally: Tally, call: Call): void {
  const state = call.approval?.state;
  if (state === 'pending') tally.asks = true;
  if (call.deniedAt !== undefined || state === 'denied' || state === 'expired') tally.refused += 1;
  else if (call.result?.isError === false) tally.uses += 1;
}

const cappedIn = (capped: readonly { extent: string; level: string; message: string }[]) =>
  capped.map(({ level, message }) => `${level}: ${message}`);

function approvedRight(approval: Approval, used: ReadonlyMap<string, number>): RightUse {
  const grant = grantIn(approval);
  const { id, uses: left, expires, who } = approval;
  return {
    name: rightName(grant),
    capability: grant.capability,
    scope: { ...grant.scope },
    uses: used.get(id) ?? 0,
    refused: 0,
    state: 'approved',
    left,
    ...(expires !== undefined && { until: expires }),
    ...(who !== undefined && { by: who }),
  };
}

const granted = ({ start }: CallIndex): Tally[] =>
  (start?.ran?.granted ?? []).map(
    ({ capability, scope, capped = [] }): Tally => ({
      grant: { capability, ...(scope && { scope: scopeIn(scope) }) },
      capped: cappedIn(capped),
      uses: 0,
      refused: 0,
      asks: false,
    }),
  );

/** Names the rights that allow a call. The right to call the tool counts only without a narrower one. */
function allowingRights(library: Library, book: CallIndex, entry: Call): string {
  const { catalog } = library.capabilities();
  const rights = granted(book);
  const names = needsOf(library, entry).flatMap((needs) =>
    rights
      .filter(({ grant }) => needs.some((need) => grantsAllow([grant], need, catalog)))
      .slice(0, 1)
      .map(({ grant }) => rightName(grant)),
  );
  const [tool = '', ...others] = new Set(names);
  return others.join(', ') || tool;
}

function countedAs({ calls, start }: CallIndex, { id }: Call): string {
  // Calls of turn 0 belong to the harness, not to the model.
  const own = calls.list().filter(({ turn }) => turn > 0);
  const at = own.findIndex((call) => call.id === id) + 1;
  if (at === 0) return '';
  const max = Number(getOwn(getOwn(start?.limits, 'tool_calls'), 'value') ?? Number.NaN);
  // A limit that was raised later is not included here.
  return max >= at ? `call ${at} of ${max}` : `call ${at}`;
}

/** Adds the reason to each gate that the call passed. */
export function gatesWithReasons(
  gates: readonly Gate[],
  library: Library,
  book: CallIndex,
  entry: Call,
): Gate[] {
  const by: Readonly<Partial<Record<Gate['stage'], () => string>>> = {
    right: () => allowingRights(library, book, entry),
    limits: () => countedAs(book, entry),
    policy: () => 'no rule forbids it',
  };
  return gates.map((gate) =>
    gate.state === 'passed' && gate.by === '' ? { ...gate, by: by[gate.stage]?.() ?? '' } : gate,
  );
}

/** Lists the rights at the start in their order, then the approved ones. */
export function usesOfRights(
  library: Library,
  book: CallIndex,
  approvals: readonly Approval[],
): RightUse[] {
  const { catalog } = library.capabilities();
  const { calls } = book;
  const rights = granted(book);
  for (const call of calls.list()) {
    const hit = needsOf(library, call).map((needs) => rightFor(rights, needs, catalog));
    for (const tally of new Set(hit)) if (tally) count(tally, call);
  }
  const approved = approvals.filter(
    ({ kind, state }) => kind === 'capability' && (state === 'approved' || state === 'used'),
  );
  return [
    ...rights.map(
      ({ grant, capped, uses, refused, asks }): RightUse => ({
        name: rightName(grant),
        capability: grant.capability,
        scope: { ...grant.scope } as DataObject,
        uses,
        refused,
        state: asks ? 'asks' : uses > 0 ? 'used' : 'unused',
        ...(capped.length > 0 && { capped }),
      }),
    ),
    ...approved.map((approval) => approvedRight(approval, calls.uses)),
  ];
}
