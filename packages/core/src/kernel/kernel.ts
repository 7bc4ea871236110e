// Implements the four verbs. They look up the kind of an item in one table, and the kind executes its calls.
import {
  didYouMean,
  type Failure,
  fail,
  getOwn,
  isFiniteJson,
  isObject,
  type Json,
  listAt,
  type Outcome,
  ok,
  plainText,
} from '../base/index.ts';
import {
  type Argument,
  judgeOperation,
  makeValue,
  type Operation,
  perform,
  type Value,
} from '../flow/index.ts';
import type { Catalogs, Library } from '../items/index.ts';
import type {
  Authority,
  Authorize,
  Caller,
  ExecuteRequest,
  HelpRequest,
  Kind,
  LoadRequest,
  MadeCall,
  PreparedCall,
  SearchRequest,
} from './call.ts';
import { forModels } from './rights/authority.ts';
import { FROM_STRANGER, type ItemMarks, shownFailure, type UsesItem } from './rights/item-marks.ts';
import type { LineEndpoint, OpenLine, ToolLine } from './tool/tool-line.ts';
import { giveHelp, type SignalPort } from './verbs/help.ts';
import { type CopyPort, loadItem } from './verbs/load.ts';
import { firstLine, IN_CATALOGS, searchLibrary } from './verbs/search.ts';

type CatalogPage = ReturnType<Catalogs['search']>;

export interface Kernel {
  search(request: SearchRequest, caller: Caller): Promise<Outcome<Value>>;
  load(request: LoadRequest, caller: Caller): Promise<Outcome<Value>>;
  execute(request: ExecuteRequest, caller: Caller): Promise<Outcome<Value>>;
  help(request: HelpRequest, caller: Caller): Promise<Outcome<Value>>;
}

export type Verb = keyof Kernel;

/** A tool that an embedding program calls many times, with the right to do so now. */
interface AdmittedLine {
  readonly line: ToolLine;
  readonly authority: Authority;
}

/** The kernel for programs that send to the same provider in every turn. */
export interface EmbeddedKernel extends Kernel {
  /**
   * Opens a tool for repeated sending. The right is judged as for a call of the tool, before anything is
   * sent. Executes nothing.
   */
  line(id: string, caller: Caller, endpoint?: LineEndpoint): Promise<Outcome<AdmittedLine>>;
}

interface KernelPorts {
  library: Library;
  authorize: Authorize;
  kinds: readonly Kind[];
  openLine: OpenLine;
  copies: CopyPort;
  marks: ItemMarks;
  signal?: SignalPort;
  /** A caller with this object is not asked about the tier of a call. Absent: every caller is asked. */
  tierExemption?: object;
  /** Answers a search with `source: catalog`. */
  searchCatalog(request: SearchRequest): CatalogPage;
}

/** Returns hits of a catalog in the form of a search. They are not installed, so none of them can run. */
const catalogAnswer = ({ hits, total }: CatalogPage) => ({
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

/** Cursor of the page of `source: all` on which the hits of catalogs start. */
const CATALOGS = 'catalogs';

/** Adds the hits of catalogs behind the last local hit, for `source: all`. */
function withCatalogs(
  local: Json,
  request: SearchRequest,
  search: (request: SearchRequest) => CatalogPage,
): Json {
  const items = listAt(local, 'items');
  const room = (request.limit ?? 10) - items.length;
  const page = search({ ...request, limit: Math.max(room, 1) });
  const total = Number(getOwn(local, 'total')) + page.total;
  const next = getOwn(local, 'next_cursor');
  if (next !== undefined) return { items, total, next_cursor: next };
  const more = catalogAnswer({ ...page, hits: page.hits.slice(0, room) }).items;
  const isFull = room <= 0 && page.total > 0;
  return { items: [...items, ...more], total, ...(isFull && { next_cursor: CATALOGS }) };
}

const MAX_NAME = 1000;

/**
 * Returns the problem of a request. Requests come from programs and other processes, so their types must
 * be checked.
 */
function requestProblem(request: ExecuteRequest | LoadRequest): Failure | undefined {
  const {
    action = '',
    parameters,
    content,
  } = request as { [name in keyof ExecuteRequest]: unknown };
  for (const name of ['item_type', 'item_id'] as const) {
    const value: unknown = request[name];
    if (value === undefined) {
      const form = '{"item_type": "tool", "item_id": "ID", "parameters": {…}}';
      return fail('invalid_input', `\`${name}\` is missing; write the call as \`${form}\``);
    }
    if (typeof value !== 'string' || value.length > MAX_NAME)
      return fail('invalid_input', `\`${name}\` must be a text of at most ${MAX_NAME} characters`);
  }
  if (typeof action !== 'string' || action.length > MAX_NAME) {
    return fail('invalid_input', '`action` must be a short text');
  }
  if (content !== undefined && typeof content !== 'string') {
    return fail('invalid_input', '`content` must be a text');
  }
  if (parameters === undefined) return undefined;
  if (!isObject(parameters)) return fail('invalid_input', '`parameters` must be an object');
  return isFiniteJson(parameters)
    ? undefined
    : fail('invalid_input', '`parameters` contains an invalid or too large number');
}

/** Returns the operation of a verb. Loading needs a right that reads; searching and help need none. */
const operation = (verb: 'search' | 'load' | 'execute' | 'help', target: string): Operation => ({
  type: verb,
  name: verb,
  opLabels: [`op:${verb}`],
  target,
  ...(verb === 'load' && { tier: 'read' }),
});

const targetOf = ({ item_type, item_id }: ExecuteRequest | LoadRequest): string =>
  `${plainText(item_type).slice(0, MAX_NAME)}:${plainText(item_id).slice(0, MAX_NAME)}`;

function kindOf(
  kinds: ReadonlyMap<string, Kind>,
  request: ExecuteRequest,
): Outcome<{ kind: Kind; action: string }> {
  const kind = kinds.get(request.item_type);
  if (!kind) {
    const names = [...kinds.keys()];
    const hint = didYouMean(request.item_type, names) ?? `use one of: ${names.join(', ')}`;
    return fail('invalid_input', `unknown item_type \`${request.item_type}\`; ${hint}`);
  }
  const action = request.action ?? kind.actions[0] ?? 'run';
  if (!kind.actions.includes(action)) {
    const hint = didYouMean(action, kind.actions) ?? `use one of: ${kind.actions.join(', ')}`;
    return fail('invalid_input', `unknown action \`${action}\` for a ${kind.name}; ${hint}`);
  }
  return ok({ kind, action });
}

/**
 * INVARIANT: a call that cannot be prepared is always performed too, so that every call is counted and
 * recorded.
 */
const unprepared = (
  verb: Parameters<typeof operation>[0],
  request: ExecuteRequest | LoadRequest,
  failure: Failure,
): PreparedCall => ({
  op: operation(verb, targetOf(request)),
  gate: () => failure,
  body: () => failure,
});

/** Returns the content that the call may overwrite, if a guard judged the call by the file that was there. */
const overwritable = (inputs: readonly Argument[]): string | undefined => {
  for (const { origin } of inputs) if (origin?.holds !== undefined) return origin.holds;
  return undefined;
};

/** Returns the call without its tier, so that no person is asked about it. */
function withoutTier(call: PreparedCall): PreparedCall {
  const { tier: _, ...op } = call.op;
  return { ...call, op };
}

function quiet(caller: Caller): Caller {
  const { onOutput: _, ...rest } = caller;
  return rest;
}

const uncounted = (tool: string): Failure =>
  fail(
    'permission_denied',
    `uses of \`${tool}\` are limited for this thread, and calls inside of another tool cannot be counted; call it directly`,
    { missing: '', rule: 'uses', attempted: tool },
  );

/** Performs a call. A caller without the right gets the refusal and not the mistakes of the call. */
function act(
  { authorize, library }: Pick<KernelPorts, 'authorize' | 'library'>,
  call: PreparedCall,
  caller: Caller,
): Promise<Outcome<Value>> {
  let admitted: Omit<MadeCall, 'capture'> | undefined;
  return Promise.resolve(
    perform(
      call.op,
      call.inputs ?? [],
      async (values, { signal, capture, frame }) => {
        if (!admitted) return fail('internal_error', `\`${call.op.name}\` has not passed the gate`);
        const { authority } = admitted;
        // Live output would be visible before a guard could object to the result.
        const judged =
          frame.emit && admitted.caller.onOutput ? quiet(admitted.caller) : admitted.caller;
        const { isApproved, approved } = frame;
        const holds = overwritable(frame.inputs);
        const overwrite = { ...(holds && { holds }), ...(approved && { approved }) };
        const bodyCaller =
          signal || isApproved || holds !== undefined
            ? { ...judged, isApproved, ...(signal && { signal }), ...overwrite }
            : judged;
        // Failures are recorded and returned without the folders of this machine.
        const outcome = await call.body(values, { authority, caller: bodyCaller, capture });
        return shownFailure(library, outcome);
      },
      caller.frame,
      {
        ...caller.act,
        explain: call.explain ?? caller.act?.explain,
        async gate() {
          const current = caller.auth ? { ...caller, __auth: caller.auth() } : caller;
          const authority = await authorize(current);
          if (!authority.ok) return shownFailure(library, authority);
          admitted = { authority: authority.output, caller: current };
          // The intent of the call counts its use. A call inside of another one has no intent, so a
          // limited tool is refused there.
          const { type, name } = call.op;
          const isCounted = type === 'tool' && authority.output.uses?.[name] !== undefined;
          if (isCounted && !caller.act?.intent) return uncounted(name);
          return shownFailure(library, call.gate?.(authority.output) ?? ok(null));
        },
        foresee: (values) => admitted && call.foresee?.(values, admitted),
      },
    ),
  );
}

export function createKernel(ports: KernelPorts): EmbeddedKernel {
  const { library } = ports;
  const kinds = new Map(ports.kinds.map((kind) => [kind.name, kind]));
  const isExempt = ({ tierExemption }: Caller): boolean =>
    tierExemption !== undefined && tierExemption === ports.tierExemption;

  /** Answers `search`, `load` and `help`. They need no item, and every authorised caller may use them. */
  async function answer(
    verb: Parameters<typeof operation>[0],
    target: string,
    caller: Caller,
    body: (call: MadeCall, uses: UsesItem) => Promise<Outcome<Json>>,
  ): Promise<Outcome<Value>> {
    await library.refresh();
    const call: PreparedCall = {
      op: operation(verb, target),
      async body(_inputs, admitted) {
        const uses: UsesItem = (item) => admitted.capture(ports.marks.of(item));
        const result = await body(admitted, uses);
        return result.ok ? ok(makeValue(result.output)) : result;
      },
    };
    return await act(ports, call, caller);
  }

  return {
    search: (request, caller) =>
      answer('search', plainText(request.query), caller, async ({ authority, capture }, uses) => {
        const inCatalogs = (request: SearchRequest): CatalogPage => {
          const page = ports.searchCatalog(request);
          if (page.hits.some(({ signature }) => signature !== 'signed')) capture(FROM_STRANGER);
          return page;
        };
        const { source = '', cursor } = request;
        const isAll = source === 'all';
        if (IN_CATALOGS.has(source) || (isAll && cursor === CATALOGS)) {
          return ok(catalogAnswer(inCatalogs(request)));
        }
        const local = searchLibrary(library, request, authority, uses);
        return local.ok && isAll ? ok(withCatalogs(local.output, request, inCatalogs)) : local;
      }),
    async load(request, caller) {
      const problem = requestProblem(request);
      if (problem) return await act(ports, unprepared('load', request, problem), caller);
      return await answer('load', targetOf(request), caller, ({ authority }, uses) =>
        loadItem(library, request, authority, ports.copies, uses),
      );
    },
    async execute(request, caller) {
      const chosen = requestProblem(request) ?? kindOf(kinds, request);
      if (!chosen.ok) return await act(ports, unprepared('execute', request, chosen), caller);
      await library.refresh();
      const { kind, action } = chosen.output;
      const prepared = await kind.prepare({ ...request, action });
      const call = prepared.ok ? prepared.output : unprepared('execute', request, prepared);
      return await act(ports, isExempt(caller) ? withoutTier(call) : call, caller);
    },
    help: (request, caller) =>
      answer('help', plainText(request.topic ?? request.action), caller, (call, uses) =>
        giveHelp(library, request, call.caller, ports.signal, uses),
      ),
    async line(id, caller, endpoint) {
      const authority = await ports.authorize(caller);
      if (!authority.ok) return authority;
      await library.refresh();
      const item = library.find('tool', id);
      const line = item.ok ? await ports.openLine(item.output, endpoint) : item;
      if (!line.ok) return line;
      const admitted = line.output.admit(forModels(authority.output));
      if (!admitted.ok) return admitted;
      // A program that embeds the kernel acts for itself, so the tier of a capability does not count.
      const { tier: _, ...op } = line.output.op;
      const judged = await judgeOperation(op, caller.frame);
      return judged.ok ? ok({ line: line.output, authority: admitted.output }) : judged;
    },
  };
}
