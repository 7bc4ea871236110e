// The four verbs. Each exists once, over the table of kinds; what a kind does is its own business.
import {
  type Failure,
  fail,
  isObject,
  type Json,
  nearest,
  type Outcome,
  ok,
  plainText,
} from '../base/index.ts';
import { makeValue, perform, type RecordEntry, type Value } from '../flow/index.ts';
import type { Catalogs, Library } from '../items/index.ts';
import type {
  Authority,
  Authorize,
  Caller,
  ExecuteRequest,
  HelpRequest,
  Kind,
  LoadRequest,
  SearchRequest,
} from './call.ts';
import type { ItemMarks, UsesItem } from './rights/item-marks.ts';
import { giveHelp, type SignalPort } from './verbs/help.ts';
import { type CopyPort, loadItem } from './verbs/load.ts';
import { firstLine, searchLibrary } from './verbs/search.ts';

type CatalogPage = ReturnType<Catalogs['search']>;

export interface Kernel {
  search(request: SearchRequest, caller: Caller): Promise<Outcome<Value>>;
  load(request: LoadRequest, caller: Caller): Promise<Outcome<Value>>;
  execute(request: ExecuteRequest, caller: Caller): Promise<Outcome<Value>>;
  help(request: HelpRequest, caller: Caller): Promise<Outcome<Value>>;
}

export interface KernelPorts {
  library: Library;
  authorize: Authorize;
  kinds: readonly Kind[];
  copies: CopyPort;
  marks: ItemMarks;
  signal?: SignalPort;
  /** `source: catalog` of a search. */
  searchCatalog(request: SearchRequest): CatalogPage;
  /** Every call that never reached the pipeline (unknown kind, bad input, no authority). */
  refused(verb: string, target: string, caller: Caller, failure: Failure): void;
}

/** Hits of a catalog in the form of a search: not here yet, so nothing of them can run. */
const catalogAnswer = ({ hits, total }: CatalogPage): Json => ({
  items: hits.map(
    ({ kind, id, title, description, version, requires, signature, score, catalog }) => ({
      item_type: kind,
      item_id: id,
      title,
      summary: firstLine(description),
      version,
      source: 'catalog',
      catalog,
      signed: signature === 'signed',
      requires,
      score: Math.round(score * 1000) / 1000,
    }),
  ),
  total,
});

const MAX_NAME = 1000;
const isName = (value: unknown): boolean => typeof value === 'string' && value.length <= MAX_NAME;

/** Requests come from programs and other processes too: their types are a claim until looked at. */
function requestProblem(request: ExecuteRequest | LoadRequest): Failure | undefined {
  const { action, parameters, content } = request as Partial<ExecuteRequest>;
  for (const name of ['item_type', 'item_id'] as const) {
    if (!isName(request[name]))
      return fail('invalid_input', `\`${name}\` must be a text of at most ${MAX_NAME} characters`);
  }
  if (action !== undefined && !isName(action)) {
    return fail('invalid_input', '`action` must be a short text');
  }
  if (content !== undefined && typeof content !== 'string') {
    return fail('invalid_input', '`content` must be a text');
  }
  return parameters === undefined || isObject(parameters)
    ? undefined
    : fail('invalid_input', '`parameters` must be an object');
}

/** Notices whether the pipeline has written its record, so that no call is left without one. */
function watchRecord(caller: Caller): { caller: Caller; isRecorded: () => boolean } {
  const record = caller.act?.record;
  if (!record) return { caller, isRecorded: () => true };
  let isRecorded = false;
  const act = {
    ...caller.act,
    record(entry: RecordEntry) {
      isRecorded = true;
      return record(entry);
    },
  };
  return { caller: { ...caller, act }, isRecorded: () => isRecorded };
}

const targetOf = ({ item_type, item_id }: ExecuteRequest | LoadRequest): string =>
  `${plainText(item_type).slice(0, MAX_NAME)}:${plainText(item_id).slice(0, MAX_NAME)}`;

export function createKernel(ports: KernelPorts): Kernel {
  const { library } = ports;
  const kinds = new Map(ports.kinds.map((kind) => [kind.name, kind]));

  /** `search`, `load` and `help` as operations: the same pipeline, no tool behind them. */
  async function asOperation(
    verb: string,
    target: string,
    caller: Caller,
    body: (authority: Authority, uses: UsesItem) => Promise<Outcome<Json>>,
  ): Promise<Outcome<Value>> {
    const authority = await ports.authorize(caller);
    if (!authority.ok) return refuse(verb, target, caller, authority);
    await library.refresh();
    return await perform(
      { type: verb, name: verb, opLabels: [`op:${verb}`], target },
      [],
      async (_inputs, scope) => {
        const uses: UsesItem = (item) => scope.capture(ports.marks.of(item));
        const answer = await body(authority.output, uses);
        return answer.ok ? ok(makeValue(answer.output)) : answer;
      },
      caller.frame,
      { ...caller.act, gate: () => ok(null) },
    );
  }

  function refuse(verb: string, target: string, caller: Caller, failure: Failure): Failure {
    ports.refused(verb, target, caller, failure);
    return failure;
  }

  function kindOf(request: ExecuteRequest): Outcome<{ kind: Kind; action: string }> {
    const kind = kinds.get(request.item_type);
    if (!kind) {
      const names = [...kinds.keys()];
      const near = nearest(request.item_type, names);
      const hint = near ? `did you mean \`${near}\`` : `there are: ${names.join(', ')}`;
      return fail('invalid_input', `unknown item_type \`${request.item_type}\`; ${hint}`);
    }
    const action = request.action ?? kind.actions[0] ?? 'run';
    if (!kind.actions.includes(action)) {
      const near = nearest(action, kind.actions);
      const hint = near ? `did you mean \`${near}\`` : `there are: ${kind.actions.join(', ')}`;
      return fail('invalid_input', `unknown action \`${action}\` for a ${kind.name}; ${hint}`);
    }
    return ok({ kind, action });
  }

  return {
    async search(request, caller) {
      return await asOperation('search', plainText(request.query), caller, async (authority) =>
        request.source === 'catalog'
          ? ok(catalogAnswer(ports.searchCatalog(request)))
          : searchLibrary(library, request, authority),
      );
    },
    async load(request, caller) {
      const odd = requestProblem(request);
      if (odd) return refuse('load', targetOf(request), caller, odd);
      return await asOperation('load', targetOf(request), caller, (authority, uses) =>
        loadItem(library, request, authority, ports.copies, uses),
      );
    },
    async execute(request, caller) {
      const target = targetOf(request);
      const chosen = requestProblem(request) ?? kindOf(request);
      if (!chosen.ok) return refuse('execute', target, caller, chosen);
      const authority = await ports.authorize(caller);
      if (!authority.ok) return refuse('execute', target, caller, authority);
      await library.refresh();
      const { kind, action } = chosen.output;
      // INVARIANT: one record for every call, also for those turned away before the pipeline.
      const watched = watchRecord(caller);
      const result = await kind.execute({ ...request, action }, watched.caller, authority.output);
      if (!result.ok && !watched.isRecorded()) ports.refused('execute', target, caller, result);
      return result;
    },
    async help(request, caller) {
      return await asOperation(
        'help',
        plainText(request.topic ?? request.action),
        caller,
        (_, uses) => giveHelp(library, request, caller, ports.signal, uses),
      );
    },
  };
}
